"""Some columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.tabular.columns import as_columns, expect_rows, resolve
from nogil_loader.transforms.transform import Operation


@dataclass(frozen=True)
class SelectColumns(Operation):
    """Columns by position, in the order given; a column may come several times.

    Takes rows ``(F,)`` or ``(…, F)`` of any bool, integer or float dtype, which is kept.

    Args:
        columns: Positions, negative ones counted from the end.
    """

    columns: int | Sequence[int]

    def __post_init__(self) -> None:
        settle(self, columns=as_columns("SelectColumns.columns", self.columns))

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: There is no such column.
        """
        chosen = resolve(
            self, as_columns("SelectColumns.columns", self.columns), expect_rows(self, spec, "biuf")
        )
        return Step(
            name=repr(self),
            kind="sample",
            function=select_columns,
            reference=_select_columns,
            source=spec,
            target=replace(spec, shape=(*spec.shape[:-1], len(chosen)), layout=""),
            numbers=tuple(chosen),
        )


@jitable
def select_columns(
    source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any
) -> None:
    """Copy the columns ``numbers`` of every row."""
    columns, count = source.shape[-1], target.shape[-1]
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(out) // count):
        for i in range(count):
            out[row * count + i] = values[row * columns + int(numbers[i])]


def _select_columns(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    return array[..., np.asarray(numbers, np.int64)]
