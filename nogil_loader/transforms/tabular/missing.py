"""Values in place of missing ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.accept import as_value, check_fit
from nogil_loader.transforms.arguments import is_sequence, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.tabular.columns import expect_rows, per_column
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class FillMissing(Operation):
    """NaN, and what else stands for a missing value, replaced by a value for each column.

    Takes rows ``(F,)`` or ``(…, F)`` of any float dtype, or with a ``sentinel`` of any integer dtype, which is
    kept.

    Args:
        value: What missing values become, the column's median for example: one number for each column, or one for
            all.
        sentinel: Another number that stands for a missing value, such as -999.
    """

    value: float | Sequence[float]
    sentinel: int | float | None = None

    def __post_init__(self) -> None:
        given = self.value if is_sequence(self.value) else [self.value]
        if not len(given):
            raise ValueError(f"FillMissing.value={describe(self.value, 200)}: expected at least one number")
        settle(self, value=tuple(as_value("FillMissing.value", each) for each in given))
        if self.sentinel is not None:
            settle(self, sentinel=as_value("FillMissing.sentinel", self.sentinel))

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: There is another number of values than of columns; the rows are integers and there is no
                ``sentinel``, or a number does not fit their dtype.
        """
        columns = expect_rows(self, spec, "iuf")
        given: Any = self.value
        if self.sentinel is None and spec.dtype.kind != "f":
            raise ValueError(
                f"{self}: {spec.dtype} has no NaN; give the sentinel that stands for missing values"
            )
        check_fit(self, "value", given, spec.dtype)
        if self.sentinel is not None:
            check_fit(self, "sentinel", (self.sentinel,), spec.dtype)
        return Step(
            name=repr(self),
            kind="sample",
            function=fill_missing,
            reference=_fill_missing,
            source=spec,
            target=spec,
            # NaN equals nothing, so that as a sentinel it changes nothing.
            numbers=(
                math.nan if self.sentinel is None else self.sentinel,
                *per_column(self, "value", given, columns),
            ),
        )


@jitable
def fill_missing(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Replace NaN and ``numbers[0]`` in every row by the numbers that follow."""
    columns = len(numbers) - 1
    values, out = source.reshape(-1), target.reshape(-1)
    sentinel = out.dtype.type(numbers[0])
    for row in range(len(out) // columns):
        for c in range(columns):
            value = values[row * columns + c]
            missing = value != value or value == sentinel
            out[row * columns + c] = out.dtype.type(numbers[1 + c]) if missing else value


def _fill_missing(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    missing = np.isnan(array) | (array == array.dtype.type(numbers[0]))
    return np.where(missing, np.asarray(numbers[1:]).astype(array.dtype), array)
