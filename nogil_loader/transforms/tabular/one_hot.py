"""Categories as vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import is_sequence, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.tabular.columns import as_columns, expect_rows, resolve
from nogil_loader.transforms.transform import Operation

# A row of so many numbers takes megabytes: a mistake, or better left to an embedding.
_LARGEST = 1 << 20


@dataclass(frozen=True)
class OneHot(Operation):
    """Columns of category codes, each replaced by as many columns as it has categories: 1 for its own, else 0.

    The other columns stay between them, in order. A code that is none of 0 to ``size - 1`` (a larger or negative
    one, a fraction, NaN) gives zeros only.

    Takes rows ``(F,)`` or ``(…, F)`` of any integer or float dtype, which is kept.

    Args:
        sizes: How many categories: one number for each of ``columns``, or one for all.
        columns: Positions of the columns of codes, negative ones counted from the end; None for all columns.
    """

    sizes: int | Sequence[int]
    columns: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        given = self.sizes if is_sequence(self.sizes) else [self.sizes]
        if not len(given) or isinstance(given, str | bytes):
            raise ValueError(f"OneHot.sizes={describe(self.sizes, 200)}: expected numbers of categories")
        settle(self, sizes=tuple(as_count("OneHot.sizes", each, least=1, most=_LARGEST) for each in given))
        if self.columns is not None:
            settle(self, columns=as_columns("OneHot.columns", self.columns))

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: There is no such column, one is named twice, or there is another number of sizes.
        """
        count = expect_rows(self, spec, "iuf")
        sizes: Any = self.sizes
        chosen = list(range(count))
        if self.columns is not None:
            chosen = resolve(self, as_columns("OneHot.columns", self.columns), count)
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"{self}: a column is named twice")
        if len(sizes) not in (1, len(chosen)):
            raise ValueError(
                f"{self}: {len(sizes)} sizes for {len(chosen)} columns ({spec}); give one for each, or one for all"
            )
        widths = [0] * count  # 0 for a column that stays
        for at, size in zip(chosen, sizes if len(sizes) > 1 else sizes * len(chosen), strict=True):
            widths[at] = size
        total = sum(max(1, width) for width in widths)
        return Step(
            name=repr(self),
            kind="sample",
            function=one_hot,
            reference=_one_hot,
            source=spec,
            target=replace(spec, shape=(*spec.shape[:-1], total), layout=""),
            numbers=tuple(widths),
        )


@jitable
def one_hot(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Replace the columns of which ``numbers`` is not 0 by so many columns."""
    columns = len(numbers)
    values, out = source.reshape(-1), target.reshape(-1)
    zero, one = out.dtype.type(0), out.dtype.type(1)
    at = 0
    for i in range(len(values)):
        width = int(numbers[i % columns])
        if width == 0:
            out[at] = values[i]
            at += 1
            continue
        out[at : at + width] = zero
        code = np.float64(values[i])
        if 0.0 <= code < numbers[i % columns] and code == math.floor(code):
            out[at + int(code)] = one
        at += width


def _one_hot(array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any) -> npt.NDArray[Any]:
    parts = []
    for c, width in enumerate(np.asarray(numbers, np.int64)):
        column = array[..., c : c + 1]
        parts.append((column == np.arange(width)).astype(array.dtype) if width else column)
    return np.concatenate(parts, axis=-1)
