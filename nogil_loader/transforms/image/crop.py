"""Parts of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.jit import jitable
from nogil_loader.transforms.arguments import as_pair, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class RandomCrop(Operation):
    """A part of the image at a random place.

    Args:
        size: Of the part: one number, or (height, width).
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        settle(self, size=as_pair("RandomCrop.size", self.size))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image is smaller than the crop.
        """
        spec = spec.image(self)
        height, width = as_pair("RandomCrop.size", self.size)
        if spec.height < height or spec.width < width:
            raise ValueError(
                f"{self}: the image has {spec.height} x {spec.width} pixels, less than the crop's "
                f"{height} x {width}; resize or pad it first"
            )
        return Step(
            name=repr(self),
            kind="index",
            function=place_crop,
            reference=_crop,
            source=spec,
            target=spec.resized(height, width),
            numbers=(height, width),
            draw=draw_crop,
            uniforms=2,
            parameters=("top", "left"),
        )


@jitable
def draw_crop(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw top and left of a crop of ``numbers`` (height, width), every place equally likely."""
    for axis in range(2):
        drawn[axis] = np.floor(uniforms[axis] * (size[axis] - numbers[axis] + 1))


@jitable
def place_crop(numbers: Any, drawn: Any, size: Any, rows: Any, cols: Any) -> int:
    """Output position → source position: moved by top and left."""
    top, left = int(drawn[0]), int(drawn[1])
    for y in range(len(rows)):
        rows[y] = top + y
    for x in range(len(cols)):
        cols[x] = left + x
    return 0


def _crop(image: npt.NDArray[Any], numbers: Any, drawn: Any, size: tuple[int, int]) -> npt.NDArray[Any]:
    top, left = int(drawn[0]), int(drawn[1])
    return image[top : top + size[0], left : left + size[1]]
