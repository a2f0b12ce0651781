"""Parts of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.borders import BORDERS, fill_window
from nogil_loader.transforms.arguments import as_choice, as_numbers, as_pair, settle
from nogil_loader.transforms.image.pad import as_padding, check_margin, margin_fill, window, window_step
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# A part that begins or ends farther out is a mistake (see `arguments`).
_LONGEST: Final = 1 << 24


@dataclass(frozen=True)
class Crop(Operation):
    """The part of the image at a fixed place.

    Args:
        top: Its first row.
        left: Its first column.
        height: Its rows.
        width: Its columns.
    """

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        settle(
            self,
            top=as_count("Crop.top", self.top, least=0, most=_LONGEST),
            left=as_count("Crop.left", self.left, least=0, most=_LONGEST),
            height=as_count("Crop.height", self.height, least=1, most=_LONGEST),
            width=as_count("Crop.width", self.width, least=1, most=_LONGEST),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The part does not lie within the image.
        """
        spec = spec.image(self)
        if self.top + self.height > spec.height or self.left + self.width > spec.width:
            raise ValueError(
                f"{self}: the part ends at row {self.top + self.height} and column {self.left + self.width}, "
                f"but the image has {spec.height} x {spec.width} pixels"
            )
        return window_step(self, spec, (self.top, self.left), (self.height, self.width))


@dataclass(frozen=True)
class CenterCrop(Operation):
    """The part in the middle of the image; half pixels are rounded as in torchvision.

    Args:
        size: Of the part: one number, or (height, width).
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        settle(self, size=as_pair("CenterCrop.size", self.size))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is smaller than the part.
        """
        spec = spec.image(self)
        height, width = as_pair("CenterCrop.size", self.size)
        _check_room(self, (spec.height, spec.width), (height, width))
        place = round((spec.height - height) / 2), round((spec.width - width) / 2)
        return window_step(self, spec, place, (height, width))


@dataclass(frozen=True)
class RandomCrop(Operation):
    """A part of the image, or of the image with a margin, at a random place.

    Args:
        size: Of the part: one number, or (height, width).
        padding: Width of the margin, as of `Pad`.
        padding_mode: What the margin shows, as of `Pad`.
        fill: Pixel value of a constant margin, as of `Pad`.

    ``parameters`` tells top and left of the part in the image without its margin, so that they may be negative.
    """

    size: int | tuple[int, int]
    padding: int | Sequence[int] = 0
    padding_mode: str = "constant"
    fill: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        settle(
            self,
            size=as_pair("RandomCrop.size", self.size),
            padding=as_padding("RandomCrop.padding", self.padding),
            padding_mode=as_choice("RandomCrop.padding_mode", self.padding_mode, BORDERS),
            fill=as_numbers("RandomCrop.fill", self.fill),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image with its margin is smaller than the part, it is too small to be mirrored that
                far, or the fill does not fit its channels or its dtype.
        """
        spec = spec.image(self)
        height, width = as_pair("RandomCrop.size", self.size)
        assert isinstance(self.padding, tuple)
        left, top, right, bottom = self.padding
        check_margin(self, self.padding, self.padding_mode, spec)
        _check_room(self, (spec.height + top + bottom, spec.width + left + right), (height, width))
        fill = margin_fill(self, self.padding, self.padding_mode, self.fill, spec)
        return Step(
            name=repr(self),
            kind="index",
            function=place_crop,
            reference=_crop,
            source=spec,
            target=spec.resized(height, width),
            numbers=(height, width, top, left, bottom, right, BORDERS.index(self.padding_mode), *fill),
            draw=draw_crop,
            uniforms=2,
            parameters=("top", "left"),
            fill=fill,
        )


def _check_room(who: object, room: tuple[int, int], size: tuple[int, int]) -> None:
    if room[0] < size[0] or room[1] < size[1]:
        raise ValueError(
            f"{who}: the image has {room[0]} x {room[1]} pixels, less than the crop's {size[0]} x {size[1]}; "
            f"resize or pad it first"
        )


@jitable
def draw_crop(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw top and left of a crop, every place equally likely.

    ``numbers`` are height and width of the crop, then the margin's top, left, bottom and right.
    """
    for axis in range(2):
        before, after = numbers[2 + axis], numbers[4 + axis]
        places = before + size[axis] + after - numbers[axis] + 1
        drawn[axis] = np.floor(uniforms[axis] * places) - before


@jitable
def place_crop(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position: moved by top and left, outside according to the border mode."""
    fill_window(rows, int(drawn[0]), size[0], int(numbers[6]))
    fill_window(cols, int(drawn[1]), size[1], int(numbers[6]))
    return 0


def _crop(image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]) -> npt.NDArray[Any]:
    return window(image, int(drawn[0]), int(drawn[1]), size, int(numbers[6]), numbers[7:])
