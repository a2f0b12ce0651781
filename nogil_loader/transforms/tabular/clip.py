"""Columns within limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import as_numbers, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.tabular.columns import expect_rows, per_column
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class Clip(Operation):
    """Values below ``low`` become ``low``, values above ``high`` become ``high``; NaN stays.

    Takes rows ``(F,)`` or ``(…, F)`` of any integer or float dtype, which is kept. Limits of float32 rows are
    rounded to float32. With integers, limits that are no whole numbers count as the next ones within.

    Args:
        low: One number for each column, or one for all; None for no limit.
        high: The same.
    """

    low: float | Sequence[float] | None = None
    high: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise ValueError("Clip.low=None, high=None: expected at least one limit")
        if self.low is not None:
            settle(self, low=as_numbers("Clip.low", self.low))
        if self.high is not None:
            settle(self, high=as_numbers("Clip.high", self.high))

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: A limit has another number of values than there are columns, or the dtype has no value
                between the limits of a column.
        """
        columns = expect_rows(self, spec, "iuf")
        low = self._limits("low", self.low, -math.inf, columns)
        high = self._limits("high", self.high, math.inf, columns)
        if spec.dtype.kind != "f":
            limits = np.iinfo(spec.dtype)
            low = tuple(max(limits.min, _whole(each, math.ceil)) for each in low)
            high = tuple(min(limits.max, _whole(each, math.floor)) for each in high)
        for c in range(columns):
            if low[c] > high[c]:
                raise ValueError(
                    f"{self}: {spec.dtype} has no value between the limits of column {c}, {low[c]} and {high[c]}"
                )
        if spec.dtype.kind != "f":
            # The largest int64 is no float64, and a limit that clips nothing need not be one.
            low = tuple(-math.inf if each == limits.min else each for each in low)
            high = tuple(math.inf if each == limits.max else each for each in high)
        return Step(
            name=repr(self),
            kind="sample",
            function=clip_floats if spec.dtype.kind == "f" else clip_integers,
            reference=_clip,
            source=spec,
            target=spec,
            numbers=(*low, *high),
        )

    def _limits(self, name: str, value: Any, none: float, columns: int) -> tuple[float, ...]:
        if value is None:
            return (none,) * columns
        return per_column(self, name, as_numbers(f"Clip.{name}", value), columns)


def _whole(limit: float, rounding: Callable[[float], int]) -> float:
    return limit if math.isinf(limit) else rounding(limit)


@jitable
def clip_floats(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Clip every row: ``numbers`` are all the lower limits, then all the upper ones."""
    columns = len(numbers) // 2
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(out) // columns):
        for c in range(columns):
            value = values[row * columns + c]
            low, high = out.dtype.type(numbers[c]), out.dtype.type(numbers[columns + c])
            value = low if value < low else value
            out[row * columns + c] = high if value > high else value


@jitable
def clip_integers(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Clip every row of integers, where a limit may be infinite, which no integer is."""
    columns = len(numbers) // 2
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(out) // columns):
        for c in range(columns):
            value = values[row * columns + c]
            if numbers[c] > -math.inf:
                low = out.dtype.type(numbers[c])
                value = low if value < low else value
            if numbers[columns + c] < math.inf:
                high = out.dtype.type(numbers[columns + c])
                value = high if value > high else value
            out[row * columns + c] = value


def _clip(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    result = array.copy()
    for c, (low, high) in enumerate(np.reshape(numbers, (2, -1)).T):
        column = result[..., c]
        if array.dtype.kind == "f" or np.isfinite(low):
            column[column < array.dtype.type(low)] = low
        if array.dtype.kind == "f" or np.isfinite(high):
            column[column > array.dtype.type(high)] = high
    return result
