"""Signals with mean 0 and standard deviation 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_flag
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.signals import lane_sum, sum_deviations, sum_squares
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.audio.signal import expect_signal, working
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class StandardizeSignal(Operation):
    """``(value - mean) / std``, with mean and standard deviation of the sample itself.

    They are computed in float64, the deviation with T, not T - 1, in the denominator. A signal in which all values
    are equal becomes 0. One with a NaN or an infinity becomes NaN.

    Takes float32, float64, int16 or int8 ``(T,)``, ``(C, T)`` or ``(…, T)``; floats keep their dtype, integers
    become float32.

    Args:
        per_channel: Whether each channel (each row along the last axis) has a mean and a deviation of its own, or
            the whole array has one of each.
    """

    per_channel: bool = True

    def __post_init__(self) -> None:
        settle(self, per_channel=as_flag("StandardizeSignal.per_channel", self.per_channel))

    def step(self, spec: Spec) -> Step:
        """Return the step for a signal.

        Raises:
            ValueError: The array is no signal.
        """
        expect_signal(self, spec)
        return Step(
            name=repr(self),
            kind="sample",
            function=standardize,
            reference=_standardize,
            source=spec,
            target=spec.with_dtype(working(spec.dtype)),
            numbers=(spec.shape[-1] if self.per_channel else math.prod(spec.shape),),
        )


@jitable
def standardize(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Standardise every ``numbers[0]`` values on their own."""
    count = int(numbers[0])
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(values) // count):
        standardize_row(values[row * count : (row + 1) * count], out[row * count : (row + 1) * count])


@jitable
def standardize_row(values: Any, out: Any) -> None:
    """Standardise a row.

    The mean is taken of the distances from the first value: where all are equal they are exactly 0.
    """
    first = np.float64(values[0])
    mean = first + sum_deviations(values, first) / len(values)
    deviation = math.sqrt(sum_squares(values, mean) / len(values))
    scale = 0.0 if deviation == 0.0 else 1.0 / deviation
    for i in range(len(out)):
        out[i] = (np.float64(values[i]) - mean) * scale


def _standardize(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    rows = array.reshape(-1, int(numbers[0])).astype(np.float64)
    result = np.empty_like(rows)
    for row, out in zip(rows, result, strict=True):
        mean = row[0] + lane_sum(row - row[0]) / len(row)
        deviation = np.sqrt(lane_sum((row - mean) ** 2) / len(row))
        out[:] = (row - mean) * (0.0 if deviation == 0 else 1 / deviation)
    return result.reshape(array.shape).astype(working(array.dtype))
