"""Images with a margin, and what Pad and the crops share: a window on an image and what lies around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.borders import BORDERS, fill_window
from nogil_loader.transforms.arguments import as_choice, as_numbers, is_sequence, settle
from nogil_loader.transforms.image.channels import as_pixel
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# Longer margins are mistakes (see `arguments`).
_WIDEST: Final = 1 << 24


@dataclass(frozen=True)
class Pad(Operation):
    """The image with a margin around it.

    Args:
        padding: Width of the margin in pixels: one number for all sides, (left and right, top and bottom), or
            (left, top, right, bottom), as in torchvision.
        padding_mode: What the margin shows: ``"constant"`` the fill, ``"edge"`` the outermost pixels repeated,
            ``"reflect"`` the image mirrored without repeating its outermost pixels, ``"symmetric"`` the image
            mirrored with them.
        fill: Pixel value for ``"constant"``, in the image's own units, one for each channel or one for all.
            Integer images take the nearest integer.
    """

    padding: int | Sequence[int]
    padding_mode: str = "constant"
    fill: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        settle(
            self,
            padding=as_padding("Pad.padding", self.padding),
            padding_mode=as_choice("Pad.padding_mode", self.padding_mode, BORDERS),
            fill=as_numbers("Pad.fill", self.fill),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is too small to be mirrored that far, or the fill does not fit its channels or
                its dtype.
        """
        spec = spec.image(self)
        assert isinstance(self.padding, tuple)
        left, top, right, bottom = self.padding
        check_margin(self, self.padding, self.padding_mode, spec)
        fill = margin_fill(self, self.padding, self.padding_mode, self.fill, spec)
        return window_step(
            self,
            spec,
            (-top, -left),
            (spec.height + top + bottom, spec.width + left + right),
            mode=self.padding_mode,
            fill=fill,
        )


def as_padding(name: str, value: Any) -> tuple[int, int, int, int]:
    """Return the widths of a margin as (left, top, right, bottom), given as `Pad` says.

    Raises:
        TypeError: ``value`` is neither an integer nor a sequence of them.
        ValueError: A width is negative, or there are not one, two or four.
    """
    if is_sequence(value):
        if len(value) not in (1, 2, 4):
            raise ValueError(
                f"{name}={describe(value, 200)}: expected one number, (left and right, top and bottom) or "
                f"(left, top, right, bottom)"
            )
        widths = [as_count(name, each, least=0, most=_WIDEST) for each in value]
    else:
        widths = [as_count(name, value, least=0, most=_WIDEST)]
    left, top, right, bottom = widths * (4 // len(widths))
    return left, top, right, bottom


def check_margin(who: object, padding: tuple[int, int, int, int], mode: str, spec: Spec) -> None:
    """Check that an image can fill a margin of these widths.

    Raises:
        ValueError: It is too small; the message names the transform ``who``.
    """
    left, top, right, bottom = padding
    sides = [("high", max(top, bottom), spec.height), ("wide", max(left, right), spec.width)]
    for word, widest, length in sides:
        if mode == "constant" or widest == 0:
            continue
        if length == 0:
            raise ValueError(f"{who}: an image 0 pixels {word} has nothing to pad with")
        most = {"edge": widest, "reflect": length - 1, "symmetric": length}[mode]
        if widest > most:
            raise ValueError(
                f"{who}: an image {length} pixels {word} can be mirrored ({mode!r}) {most} pixels far, "
                f"not {widest}"
            )


def margin_fill(who: object, padding: tuple[int, ...], mode: str, fill: Any, spec: Spec) -> tuple[float, ...]:
    """Return the pixel of a constant margin; 0, which any other step goes along with, if there is no such margin.

    Raises:
        ValueError: The pixel does not fit the image; the message names the transform ``who``.
    """
    pixel = as_pixel(who, "fill", fill, spec)
    return pixel if mode == "constant" and any(padding) else (0.0,)


def window_step(
    who: object,
    spec: Spec,
    place: tuple[int, int],
    size: tuple[int, int],
    *,
    mode: str = "constant",
    fill: tuple[float, ...] = (0.0,),
) -> Step:
    """Return the step that shows what a window on an image shows.

    Args:
        who: The transform.
        spec: The image.
        place: Top and left of the window, negative outside of the image.
        size: Height and width of the window.
        mode: What stands outside.
        fill: Pixel value outside.
    """
    return Step(
        name=repr(who),
        kind="index",
        function=place_window,
        reference=_fixed_window,
        source=spec,
        target=spec.resized(*size),
        numbers=(*place, BORDERS.index(mode), *fill),
        fill=fill,
    )


@jitable
def place_window(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position, of a window at ``numbers`` (top, left, border mode)."""
    fill_window(rows, int(numbers[0]), size[0], int(numbers[2]))
    fill_window(cols, int(numbers[1]), size[1], int(numbers[2]))
    return 0


def _fixed_window(
    image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]
) -> npt.NDArray[Any]:
    return window(image, int(numbers[0]), int(numbers[1]), size, int(numbers[2]), numbers[3:])


def window(
    image: npt.NDArray[Any], top: int, left: int, size: tuple[int, int], mode: int, fill: Any
) -> npt.NDArray[Any]:
    """Return what a window on an image shows.

    Args:
        image: ``(H, W, C)``.
        top: Its first row, negative outside.
        left: Its first column.
        size: Its height and width.
        mode: Number of the border mode.
        fill: Pixel value outside for the mode 0; may be empty if the window lies within the image.
    """
    (height, width), (image_height, image_width) = size, image.shape[:2]
    margins = (
        (max(-top, 0), max(top + height - image_height, 0)),
        (max(-left, 0), max(left + width - image_width, 0)),
    )
    if BORDERS[mode] != "constant":
        image = np.pad(image, (*margins, (0, 0)), BORDERS[mode])
    elif np.any(margins):
        padded = np.empty(
            (image_height + sum(margins[0]), image_width + sum(margins[1]), image.shape[2]), image.dtype
        )
        padded[...] = np.asarray(fill, image.dtype)
        padded[margins[0][0] :, margins[1][0] :][:image_height, :image_width] = image
        image = padded
    return image[max(top, 0) :, max(left, 0) :][:height, :width]
