"""Brighter and darker images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.images.colour import scale
from nogil_loader.kernels.images.power import power_float32, raise_float32
from nogil_loader.transforms.arguments import as_chance, as_number, as_range, settle
from nogil_loader.transforms.image.amount import draw_amount
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Brightness(Operation):
    """All pixel values times a factor, as torchvision's ``adjust_brightness``.

    Integers are rounded and saturate; torchvision rounds down. Floats are not clipped; torchvision clips them to
    0-1. Works for any number of channels.

    Args:
        factor: Range from which the factor is drawn for each sample, or one number; 0 gives black, 1 the image as
            it is, 2 twice the brightness.
        p: Probability that a sample is changed at all.
    """

    factor: float | tuple[float, float]
    p: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            factor=as_range("Brightness.factor", self.factor, least=0.0),
            p=as_chance("Brightness.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        return Step(
            name=repr(self),
            kind="point",
            function=brighten,
            reference=_brighten,
            source=spec,
            target=spec,
            numbers=(self.p, *as_range("Brightness.factor", self.factor), 1.0),
            draw=draw_amount,
            uniforms=2,
            parameters=("factor",),
        )


@jitable
def brighten(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Multiply by the factor drawn."""
    if drawn[0] != 1.0:
        scale(row, drawn[0])


def _brighten(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = values * values.dtype.type(drawn[0])
    return result


@dataclass(frozen=True)
class Gamma(Operation):
    """``gain * value ** gamma`` on the scale on which white is 1, as torchvision's ``adjust_gamma``.

    Integers are rounded and saturate; torchvision rounds down. Floats are not clipped; torchvision clips them to
    0-1 if there is a gain. Values below 2**-126 count as 0. Pixels of up to 16 bits, and float32 from 0 to 1, are
    exact to 2e-7 of white. Works for any number of channels.

    Args:
        gamma: Range from which the exponent is drawn for each sample, or one number, positive; above 1 shadows
            become darker, below 1 lighter.
        gain: Factor for the result.
        p: Probability that a sample is changed at all.
    """

    gamma: float | tuple[float, float]
    gain: float = 1.0
    p: float = 1.0

    def __post_init__(self) -> None:
        gamma = as_range("Gamma.gamma", self.gamma)
        if gamma[0] <= 0:
            raise ValueError(f"Gamma.gamma={self.gamma!r}: expected positive numbers")
        settle(
            self,
            gamma=gamma,
            gain=as_number("Gamma.gain", self.gain, least=0.0),
            p=as_chance("Gamma.p", self.p),
        )

    def step(self, spec: Spec) -> Step:
        """Return the step for an image."""
        spec = spec.image(self)
        narrow = spec.work == np.float32
        return Step(
            name=repr(self),
            kind="point",
            function=apply_gamma if narrow else apply_wide_gamma,
            reference=_apply_gamma if narrow else _apply_wide_gamma,
            source=spec,
            target=spec,
            numbers=(self.p, *as_range("Gamma.gamma", self.gamma), 1.0, self.gain, spec.white),
            draw=draw_gamma,
            uniforms=2,
            parameters=("gamma", "gain"),
        )


@jitable
def draw_gamma(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw gamma and gain, 1 and 1 for no change."""
    draw_amount(uniforms, numbers, size, drawn)
    drawn[1] = numbers[4] if uniforms[0] < numbers[0] else 1.0


@jitable
def apply_gamma(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Raise a float32 row to the power drawn."""
    if drawn[0] != 1.0 or drawn[1] != 1.0:
        raise_float32(row, 1.0 / numbers[5], drawn[0], drawn[1] * numbers[5])


@jitable
def apply_wide_gamma(row: Any, y: int, numbers: Any, drawn: Any, rng: Any) -> None:
    """Raise a float64 row to the power drawn."""
    if drawn[0] == 1.0 and drawn[1] == 1.0:
        return
    values = row.reshape(-1)
    unit, result = 1.0 / numbers[5], drawn[1] * numbers[5]
    for x in range(len(values)):
        value = values[x] * unit
        value = 0.0 if value < 0.0 else value
        values[x] = value ** drawn[0] * result


def _apply_gamma(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    gamma, gain, white = drawn[0], drawn[1], numbers[5]
    if gamma == gain == 1:
        return values
    result: npt.NDArray[Any] = power_float32(values * np.float32(1 / white), gamma) * np.float32(gain * white)
    return result


def _apply_wide_gamma(values: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    gamma, gain, white = drawn[0], drawn[1], numbers[5]
    if gamma == gain == 1:
        return values
    scaled = values * (1 / white)
    result: npt.NDArray[Any] = np.where(scaled < 0, 0.0, scaled) ** gamma * (gain * white)
    return result
