"""Columns on the scale that a model expects."""

from __future__ import annotations

from collections.abc import Sequence
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
class StandardizeColumns(Operation):
    """``(value - mean) / std`` for each column, with constants from the training data.

    It is computed in float64 and rounded once, so that large means (of time stamps, say) lose nothing more. NaN
    and infinities stay.

    Takes rows ``(F,)`` or ``(…, F)``; floats keep their dtype, integers and bool become float32.

    Args:
        mean: One number for each column, or one for all.
        std: The same; positive. Use 1 for a column that is constant.
    """

    mean: float | Sequence[float]
    std: float | Sequence[float]

    def __post_init__(self) -> None:
        mean = as_numbers("StandardizeColumns.mean", self.mean)
        std = as_numbers("StandardizeColumns.std", self.std)
        if min(std) <= 0:
            raise ValueError(
                f"StandardizeColumns.std={self.std!r}: expected positive numbers; use 1 for a constant column"
            )
        settle(self, mean=mean, std=std)

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: ``mean`` or ``std`` has another number of values than there are columns.
        """
        columns = expect_rows(self, spec, "biuf")
        mean = per_column(self, "mean", as_numbers("StandardizeColumns.mean", self.mean), columns)
        std = per_column(self, "std", as_numbers("StandardizeColumns.std", self.std), columns)
        return Step(
            name=repr(self),
            kind="sample",
            function=standardize_columns,
            reference=_standardize_columns,
            source=spec,
            target=spec.with_dtype(spec.dtype if spec.dtype.kind == "f" else np.float32),
            numbers=(*mean, *std),
        )


@jitable
def standardize_columns(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Standardise every row: ``numbers`` are all the means, then all the deviations."""
    columns = len(numbers) // 2
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(out) // columns):
        for c in range(columns):
            at = row * columns + c
            out[at] = (np.float64(values[at]) - numbers[c]) / numbers[columns + c]


def _standardize_columns(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    mean, std = np.reshape(numbers, (2, -1))
    result: npt.NDArray[Any] = (array.astype(np.float64) - mean) / std
    return result.astype(array.dtype if array.dtype.kind == "f" else np.float32)
