"""Images in another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count, as_flag
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.resized import resize_image
from nogil_loader.kernels.images.taps import Taps, taps_needed
from nogil_loader.transforms.arguments import as_choice, as_pair, as_range, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Function, Step
from nogil_loader.transforms.transform import Operation

INTERPOLATIONS: Final = ("bilinear", "nearest", "area")
# As in torchvision: after so many boxes that do not fit, the largest one in the middle is taken.
_ATTEMPTS: Final = 10
# Up to so many taps the errors of float32 cannot bring a pixel of 8 bits past its limits (see `resample`).
_EXACT_TAPS: Final = 1 << 14
# Longer sides are mistakes (see `arguments`).
_LONGEST: Final = 1 << 24


@dataclass(frozen=True)
class Resize(Operation):
    """The whole image in another size.

    Args:
        size: (height, width); or one number for the shorter side, the longer one in proportion (rounded down), as
            in torchvision.
        interpolation: ``"bilinear"``; ``"nearest"``, the pixel that holds the centre; ``"area"``, the mean of what
            an output pixel covers, as OpenCV's.
        antialias: With ``"bilinear"``, for images made smaller: take the mean of all pixels under a triangle two
            output pixels wide, as Pillow and torchvision do. False takes the four nearest pixels only, which is
            faster and loses fine detail to patterns that are not in the image, as OpenCV's INTER_LINEAR does.

    Integer pixels are rounded. A pixel is computed in float32, in float64 where it has 32 bits or more.
    """

    size: int | Sequence[int]
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        single = isinstance(self.size, int | np.integer)
        settle(
            self,
            size=as_count("Resize.size", self.size, least=1, most=_LONGEST)
            if single
            else as_pair("Resize.size", self.size),
            interpolation=as_choice("Resize.interpolation", self.interpolation, INTERPOLATIONS),
            antialias=as_flag("Resize.antialias", self.antialias),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image has no pixels, or its longer side would become too long.
        """
        spec = spec.image(self)
        return resize_step(
            self,
            spec,
            self._size(spec),
            interpolation=self.interpolation,
            antialias=self.antialias,
            function=take_all,
        )

    def _size(self, spec: Spec) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        assert isinstance(self.size, int)
        shorter, longer = sorted((spec.height, spec.width))
        other = self.size if shorter == longer else self.size * longer // max(shorter, 1)
        if other > _LONGEST:
            raise ValueError(f"{self}: the longer side of {spec} would become {other} pixels long")
        return (self.size, other) if spec.height == shorter else (other, self.size)


@dataclass(frozen=True)
class RandomResizedCrop(Operation):
    """A random part of the image, of random area and shape, brought to one size; drawn as in torchvision.

    Ten boxes are drawn; the first one that fits into the image is taken, else the largest in the middle whose
    shape is allowed. The box is a picture of its own: pixels beside it play no part.

    Args:
        size: Of the result: one number, or (height, width).
        scale: Range of the box' share of the image's area.
        ratio: Range of its width divided by its height, drawn uniformly on a logarithmic scale.
        interpolation: See `Resize`.
        antialias: See `Resize`.
    """

    size: int | Sequence[int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        scale = as_range("RandomResizedCrop.scale", self.scale, least=0.0, most=1.0)
        ratio = as_range("RandomResizedCrop.ratio", self.ratio, least=0.0)
        for name, low in ("scale", scale[0]), ("ratio", ratio[0]):
            if low == 0.0:
                raise ValueError(
                    f"RandomResizedCrop.{name}={getattr(self, name)!r}: expected positive numbers"
                )
        settle(
            self,
            size=as_pair("RandomResizedCrop.size", self.size),
            scale=scale,
            ratio=ratio,
            interpolation=as_choice("RandomResizedCrop.interpolation", self.interpolation, INTERPOLATIONS),
            antialias=as_flag("RandomResizedCrop.antialias", self.antialias),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The image has no pixels.
        """
        spec = spec.image(self)
        return resize_step(
            self,
            spec,
            as_pair("RandomResizedCrop.size", self.size),
            interpolation=self.interpolation,
            antialias=self.antialias,
            function=take_box,
            numbers=(*self.scale, *map(math.log, self.ratio)),
            draw=draw_box,
            uniforms=2 + 2 * _ATTEMPTS,
            parameters=("top", "left", "height", "width"),
        )


def resize_step(
    who: Operation,
    spec: Spec,
    size: tuple[int, int],
    *,
    interpolation: str,
    antialias: bool,
    function: Function,
    **drawing: Any,
) -> Step:
    """Return the step that brings a part of an image to a size.

    Args:
        who: The transform.
        spec: The image.
        size: Height and width of the result.
        interpolation: One of `INTERPOLATIONS`.
        antialias: See `Resize`.
        function: Writes the part (see `step`).
        drawing: The step's numbers and what draws its parameters.

    Raises:
        ValueError: The image has no pixels; the message names the transform.
    """
    if spec.height == 0 or spec.width == 0:
        raise ValueError(f"{who}: an image of {spec.height} x {spec.width} pixels has nothing to resize")
    taps: Taps = "nearest"
    if interpolation == "bilinear":
        taps = "triangle" if antialias else "bilinear"
    elif interpolation == "area":
        taps = "area"
    most = max(taps_needed(taps, *axis) for axis in ((spec.height, size[0]), (spec.width, size[1])))
    return Step(
        name=repr(who),
        kind="resize",
        function=function,
        reference=partial(_resize, function, taps),
        source=spec,
        target=spec.resized(*size),
        taps=taps,
        exact=taps == "nearest" or (spec.dtype.itemsize == 1 and most < _EXACT_TAPS),
        **drawing,
    )


@jitable
def take_all(numbers: Any, drawn: Any, size: Any, box: Any) -> None:
    """Write top, left, height and width of the whole image."""
    box[0], box[1], box[2], box[3] = 0.0, 0.0, size[0], size[1]


@jitable
def take_box(numbers: Any, drawn: Any, size: Any, box: Any) -> None:
    """Write top, left, height and width that were drawn."""
    for i in range(4):
        box[i] = drawn[i]


@jitable
def draw_box(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw top, left, height and width of a box, all whole numbers.

    ``numbers`` are the ranges of the box' share of the area and of the logarithm of its width / height.
    """
    height, width = 0.0, 0.0
    for attempt in range(_ATTEMPTS):
        share = numbers[0] + uniforms[2 + 2 * attempt] * (numbers[1] - numbers[0])
        ratio = math.exp(numbers[2] + uniforms[3 + 2 * attempt] * (numbers[3] - numbers[2]))
        area = share * size[0] * size[1]
        height, width = np.rint(math.sqrt(area / ratio)), np.rint(math.sqrt(area * ratio))
        if 0 < height <= size[0] and 0 < width <= size[1]:
            drawn[0] = np.floor(uniforms[0] * (size[0] - height + 1.0))
            drawn[1] = np.floor(uniforms[1] * (size[1] - width + 1.0))
            drawn[2], drawn[3] = height, width
            return
    height, width = float(size[0]), float(size[1])
    least, most = math.exp(numbers[2]), math.exp(numbers[3])
    if width < height * least:
        height = max(np.rint(width / least), 1.0)
    elif width > height * most:
        width = max(np.rint(height * most), 1.0)
    drawn[0], drawn[1] = np.floor((size[0] - height) / 2.0), np.floor((size[1] - width) / 2.0)
    drawn[2], drawn[3] = height, width


def _resize(
    function: Function,
    taps: Taps,
    image: npt.NDArray[Any],
    numbers: Any,
    drawn: Any,
    size: tuple[int, int],
) -> npt.NDArray[Any]:
    box = np.zeros(4)
    function(numbers, drawn, np.asarray(image.shape[:2]), box)
    top, left, height, width = box.tolist()
    return resize_image(image, (top, left, height, width), size, taps, Spec.of(image).work)
