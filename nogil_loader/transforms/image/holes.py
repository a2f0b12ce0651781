"""Images with holes: several rectangles erased, and what every erasing step shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import as_chance, as_numbers, as_pair, as_range, settle
from nogil_loader.transforms.image.channels import as_pixel
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation

# Each hole has four parameters, which are drawn for every sample and looked at for every row.
_MOST_HOLES: Final = 256


@dataclass(frozen=True)
class CoarseDropout(Operation):
    """Several rectangles at random places, all of them within the image, are erased (DeVries and Taylor, 2017).

    Args:
        holes: Range of the number of rectangles, at most 256, or one number.
        height: Range of their heights, or one height: integers are pixels, floats a share of the image's height
            (rounded, at least one pixel).
        width: The same for widths.
        fill: Pixel value of what is erased, in the image's own units, one for each channel or one for all.
            Integer images take the nearest integer.
        p: Probability that anything is erased.
    """

    holes: int | tuple[int, int] = (1, 8)
    height: float | tuple[float, float] = (0.1, 0.2)
    width: float | tuple[float, float] = (0.1, 0.2)
    fill: float | Sequence[float] = 0.0
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            holes=_as_counts("CoarseDropout.holes", self.holes, least=0, most=_MOST_HOLES),
            height=_as_lengths("CoarseDropout.height", self.height),
            width=_as_lengths("CoarseDropout.width", self.width),
            fill=as_numbers("CoarseDropout.fill", self.fill),
            p=as_chance("CoarseDropout.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: A rectangle may be larger than the image, or the fill does not fit its channels or dtype.
        """
        spec = spec.image(self)
        heights = _pixels(self, "height", self.height, spec.height)
        widths = _pixels(self, "width", self.width, spec.width)
        assert isinstance(self.holes, tuple)
        return _holes_step(self, spec, (self.p, *self.holes, *heights, *widths), draw_holes)


@dataclass(frozen=True)
class Cutout(Operation):
    """Rectangles whose centres are anywhere in the image are erased, as far as they lie within the image.

    So an image may lose less than a whole rectangle, as in the paper of DeVries and Taylor (2017).

    Args:
        size: Of a rectangle in pixels: one number, or (height, width).
        holes: How many rectangles, at most 256.
        fill: Pixel value of what is erased, in the image's own units, one for each channel or one for all.
            Integer images take the nearest integer.
        p: Probability that anything is erased.
    """

    size: int | tuple[int, int]
    holes: int = 1
    fill: float | Sequence[float] = 0.0
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            size=as_pair("Cutout.size", self.size),
            holes=as_count("Cutout.holes", self.holes, least=1, most=_MOST_HOLES),
            fill=as_numbers("Cutout.fill", self.fill),
            p=as_chance("Cutout.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The fill does not fit the image's channels or dtype.
        """
        spec = spec.image(self)
        height, width = as_pair("Cutout.size", self.size)
        numbers = (self.p, self.holes, self.holes, height, height, width, width)
        return _holes_step(self, spec, numbers, draw_cutout)


def _as_counts(name: str, value: Any, *, least: int, most: int | None = None) -> tuple[int, int]:
    """Return a pair (low, high) of integers; one number stands for both."""
    pair = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"{name}={describe(value, 200)}: expected one number or (low, high)")
    low, high = (as_count(name, each, least=least, most=most) for each in pair)
    if low > high:
        raise ValueError(f"{name}={describe(value, 200)}: expected (low, high) with low ≤ high")
    return low, high


def _as_lengths(name: str, value: Any) -> tuple[float, float]:
    """Return a pair (low, high): integers are pixels, floats are shares."""
    parts = value if isinstance(value, Sequence) else (value,)
    if all(isinstance(each, float | np.floating) for each in parts):
        return as_range(name, value, least=0.0, most=1.0)
    return _as_counts(name, value, least=1)


def _pixels(who: object, name: str, lengths: Any, whole: int) -> tuple[int, int]:
    """Return a range of pixels that fits into ``whole``."""
    if isinstance(lengths[0], float):
        low, high = (max(1, round(share * whole)) for share in lengths)
    else:
        low, high = lengths
    if high > whole:
        raise ValueError(f"{who}: {name} may be {high} pixels, but the image has {whole}")
    return low, high


def fill_numbers(who: object, name: str, fill: Any, spec: Spec) -> tuple[float, ...]:
    """Return the value of each channel of a pixel.

    Raises:
        ValueError: Another number of values is given, or the dtype cannot hold them; the message names ``who``.
    """
    pixel = as_pixel(who, name, fill, spec)
    return pixel * (spec.channels if len(pixel) == 1 else 1)


def _holes_step(who: CoarseDropout | Cutout, spec: Spec, numbers: tuple[float, ...], draw: Any) -> Step:
    most = int(numbers[2])
    return Step(
        name=repr(who),
        kind="point",
        function=erase_holes,
        reference=erased_holes,
        source=spec,
        target=spec,
        numbers=(*numbers, *fill_numbers(who, "fill", who.fill, spec)),
        draw=draw,
        uniforms=2 + 4 * most,
        parameters=(
            "holes",
            *(f"{name}_{hole}" for hole in range(most) for name in ("top", "left", "height", "width")),
        ),
        exact=True,
    )


@jitable
def draw_holes(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw the number of holes, and top, left, height and width of each; 0 for those that are not there.

    ``numbers`` are p, then the ranges of the number, the height and the width.
    """
    count = _draw_count(uniforms, numbers, drawn)
    for hole in range(count):
        for axis in range(2):
            low, high = numbers[3 + 2 * axis], numbers[4 + 2 * axis]
            at = 2 + 4 * hole + axis
            length = low + np.floor(uniforms[at] * (high - low + 1.0))
            drawn[1 + 4 * hole + axis] = np.floor(uniforms[at + 2] * (size[axis] - length + 1.0))
            drawn[3 + 4 * hole + axis] = length


@jitable
def draw_cutout(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw the centres of holes of a fixed size, as `draw_holes`, and cut what is outside the image."""
    count = _draw_count(uniforms, numbers, drawn)
    for hole in range(count):
        for axis in range(2):
            length = numbers[3 + 2 * axis]
            start = np.floor(uniforms[2 + 4 * hole + axis] * size[axis]) - np.floor(length / 2.0)
            end = min(start + length, float(size[axis]))
            start = max(start, 0.0)
            drawn[1 + 4 * hole + axis] = start
            drawn[3 + 4 * hole + axis] = end - start


@jitable
def _draw_count(uniforms: Any, numbers: Any, drawn: Any) -> int:
    for i in range(1 + 4 * int(numbers[2])):
        drawn[i] = 0.0
    if uniforms[0] < numbers[0]:
        drawn[0] = numbers[1] + np.floor(uniforms[1] * (numbers[2] - numbers[1] + 1.0))
    return int(drawn[0])


@jitable
def erase_holes(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Erase what the holes have of row ``y``; the last of ``numbers`` are the fill, one for each channel."""
    channels = row.shape[0]
    for hole in range(int(drawn[0])):
        top, left = int(drawn[1 + 4 * hole]), int(drawn[2 + 4 * hole])
        height, width = int(drawn[3 + 4 * hole]), int(drawn[4 + 4 * hole])
        if top <= y < top + height:
            for c in range(channels):
                value = row.dtype.type(numbers[len(numbers) - channels + c])
                for x in range(left, left + width):
                    row[c, x] = value


def erased_holes(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    """Do in numpy what `erase_holes` does."""
    values = values.copy()
    fill = np.asarray(numbers[-values.shape[2] :], values.dtype)
    for hole in range(int(drawn[0])):
        top, left, height, width = (int(each) for each in drawn[1 + 4 * hole : 5 + 4 * hole])
        values[top : top + height, left : left + width] = fill
    return values
