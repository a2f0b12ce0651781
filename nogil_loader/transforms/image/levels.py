"""Images with their levels inverted, in part or as a whole, or reduced to fewer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import invert_from, round_down
from nogil_loader.transforms.arguments import as_chance, as_range, is_sequence, settle
from nogil_loader.transforms.image.amount import draw_amount
from nogil_loader.transforms.image.flip import draw_flag
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Invert(Operation):
    """Every value replaced by what it is short of white (255 for uint8, 1.0 for floats), with probability ``p``.

    Signed integers saturate where they are negative.

    Args:
        p: Probability.
    """

    p: float = 1.0

    def __post_init__(self) -> None:
        settle(self, p=as_chance("Invert.p", self.p))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="point",
            function=invert,
            reference=_invert,
            source=spec,
            target=spec,
            numbers=(self.p, spec.white),
            draw=draw_flag,
            uniforms=1,
            parameters=("inverted",),
            exact=spec.dtype.kind in "ub",
        )


@jitable
def invert(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Invert when drawn."""
    if drawn[0] != 0.0:
        invert_from(row, -math.inf, numbers[1])


def _invert(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return values.dtype.type(numbers[1]) - values if drawn[0] else values


@dataclass(frozen=True)
class Solarize(Operation):
    """Values of ``threshold`` and above inverted, as torchvision's ``solarize``.

    Args:
        threshold: Range from which the threshold is drawn for each sample, or one number, on the scale of the
            pixels: 128 for uint8, 0.5 for floats.
        p: Probability that a sample is changed at all.
    """

    threshold: float | tuple[float, float]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            threshold=as_range("Solarize.threshold", self.threshold),
            p=as_chance("Solarize.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: The threshold is above white.
        """
        spec = spec.image(self)
        threshold = as_range("Solarize.threshold", self.threshold)
        if threshold[1] > spec.white:
            raise ValueError(
                f"{self}: the threshold is above white, which is {spec.white:g} in images of {spec.dtype}"
            )
        return Step(
            name=repr(self),
            kind="point",
            function=solarize,
            reference=_solarize,
            source=spec,
            target=spec,
            numbers=(self.p, *threshold, math.inf, spec.white),
            draw=draw_amount,
            uniforms=2,
            parameters=("threshold",),
            exact=spec.dtype.kind in "ub",
        )


@jitable
def solarize(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Invert from the threshold drawn."""
    if drawn[0] != math.inf:
        invert_from(row, drawn[0], numbers[4])


def _solarize(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    if drawn[0] == math.inf:
        return values
    threshold, white = values.dtype.type(drawn[0]), values.dtype.type(numbers[4])
    return np.where(values >= threshold, white - values, values)


@dataclass(frozen=True)
class Posterize(Operation):
    """Only the highest bits of each value kept, as torchvision's ``posterize``; for images of integers.

    The bits of a value are 8 for uint8, and 7 for int8, whose sign is not counted: negative values are rounded
    down to multiples of the same step.

    Args:
        bits: How many to keep, from 1 to 32, or a range (fewest, most) from which the number is drawn for each
            sample.
        p: Probability that a sample is changed at all.
    """

    bits: int | tuple[int, int]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(self, bits=_as_bits(self.bits), p=as_chance("Posterize.p", self.p))

    def step(self, spec: Spec) -> Step:
        """Return the step for an image.

        Raises:
            ValueError: Its values are not integers.
        """
        spec = spec.image(self)
        if spec.dtype.kind not in "iu":
            raise ValueError(f"{self}: images of {spec.dtype} have no bits to keep; expected integers")
        bits = 8 * spec.dtype.itemsize - (spec.dtype.kind == "i")
        return Step(
            name=repr(self),
            kind="point",
            function=posterize,
            reference=_posterize,
            source=spec,
            target=spec,
            numbers=(self.p, *_as_bits(self.bits), bits),
            draw=draw_bits,
            uniforms=2,
            parameters=("bits",),
            exact=True,
        )


def _as_bits(value: Any) -> tuple[int, int]:
    if is_sequence(value):
        if len(value) != 2:
            raise ValueError(f"Posterize.bits={describe(value, 200)}: expected one number or (fewest, most)")
        fewest, most = value
    else:
        fewest = most = value
    pair = (
        as_count("Posterize.bits", fewest, least=1, most=32),
        as_count("Posterize.bits", most, least=1, most=32),
    )
    if pair[0] > pair[1]:
        raise ValueError(f"Posterize.bits={describe(value, 200)}: expected (fewest, most) with fewest ≤ most")
    return pair


@jitable
def draw_bits(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw how many bits to keep, all of them for no change."""
    drawn[0] = numbers[3]
    if uniforms[0] < numbers[0]:
        drawn[0] = min(numbers[3], numbers[1] + math.floor(uniforms[1] * (numbers[2] - numbers[1] + 1.0)))


@jitable
def posterize(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Keep the bits drawn of ``numbers[3]``."""
    if drawn[0] < numbers[3]:
        round_down(row, 2.0 ** (numbers[3] - drawn[0]))


def _posterize(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    dropped = int(numbers[3] - drawn[0])
    result: npt.NDArray[Any] = ((values.astype(np.int64) >> dropped) << dropped).astype(values.dtype)
    return result
