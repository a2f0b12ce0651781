"""Louder and quieter signals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.signals import rounded, store_rounded
from nogil_loader.transforms.arguments import as_range, settle
from nogil_loader.transforms.audio.signal import (
    MOST_DECIBELS,
    NEPERS,
    expect_signal,
    limits,
    one_row,
    working,
)
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Gain(Operation):
    """A signal made louder or quieter by a random number of decibels: times ``10 ** (decibels / 20)``.

    Takes float32, float64, int16 or int8 ``(T,)``, ``(C, T)`` or ``(…, T)`` and keeps shape and dtype; integers
    are rounded and clipped.

    Args:
        decibels: Range of the gain, or one number; 6 dB double the amplitude.
    """

    decibels: float | tuple[float, float] = (-6.0, 6.0)

    def __post_init__(self) -> None:
        decibels = as_range("Gain.decibels", self.decibels, least=-MOST_DECIBELS, most=MOST_DECIBELS)
        settle(self, decibels=decibels)

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal.
        """
        expect_signal(self, spec)
        low, high = as_range("Gain.decibels", self.decibels)
        return Step(
            name=repr(self),
            kind="sample",
            function=amplify if spec.dtype.kind == "f" else amplify_integers,
            reference=_amplify,
            source=spec,
            target=spec,
            numbers=(low, high, *limits(spec)),
            draw=draw_between,
            uniforms=1,
            parameters=("decibels",),
            scratch=one_row,
        )


@jitable
def draw_between(uniforms: Any, numbers: Any, size: Any, drawn: Any) -> None:
    """Draw a number from ``numbers[0]`` to ``numbers[1]``."""
    drawn[0] = numbers[0] + uniforms[0] * (numbers[1] - numbers[0])


@jitable
def amplify(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Multiply floats by the gain."""
    multiply(source.reshape(-1), target.reshape(-1), math.exp(drawn[0] * NEPERS))


@jitable
def amplify_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Multiply integers by the gain, round and clip."""
    products = work[: source.size]
    multiply(source.reshape(-1), products, math.exp(drawn[0] * NEPERS))
    store_rounded(products, target.reshape(-1), numbers[2], numbers[3])


@jitable
def multiply(values: Any, out: Any, factor: float) -> None:
    """Write ``value * factor`` for a row, computed in the type of ``out``."""
    scale = out.dtype.type(factor)
    for i in range(len(out)):
        out[i] = out.dtype.type(values[i]) * scale


def _amplify(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    factor = np.array(math.exp(drawn[0] * NEPERS), working(array.dtype))
    return rounded(array.astype(factor.dtype) * factor, array.dtype)
