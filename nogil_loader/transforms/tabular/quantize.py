"""Numbers sorted into bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.transforms.arguments import as_numbers, settle
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.tabular.columns import expect_rows, per_column
from nogil_loader.transforms.transform import Operation

# Codes up to here are exact in every dtype that they can have, float32 among them.
_MOST_BINS = 1 << 24
_DTYPES = ("int64", "int32", "int16", "uint8", "float32", "float64")


@dataclass(frozen=True)
class Quantize(Operation):
    """The number of the bin that a value falls into: how many of the bins' edges are at most the value.

    With edges 0, 10, 20 values below 0 get code 0, those from 0 to below 10 code 1, and those from 20 on code 3.
    NaN counts as larger than every edge. It is what ``numpy.digitize`` gives. `uniform` makes the edges of bins
    of equal width.

    Takes rows ``(F,)`` or ``(…, F)`` of any integer or float dtype, compared as float64, and gives codes of the
    same shape.

    Args:
        edges: In rising order, for all columns, or one such list for each column.
        dtype: Of the codes: int64, int32, int16, uint8, float32 or float64.
    """

    edges: Sequence[float | Sequence[float]]
    dtype: npt.DTypeLike = "int64"

    def __post_init__(self) -> None:
        edges = tuple(_as_edges(each) for each in _lists(self.edges))
        try:
            dtype = np.dtype(self.dtype).name
        except TypeError:
            dtype = ""
        if dtype not in _DTYPES:
            raise ValueError(
                f"Quantize.dtype={describe(self.dtype, 200)}: expected one of {', '.join(_DTYPES)}"
            )
        most = max(map(len, edges))
        if most >= _MOST_BINS or (np.dtype(dtype).kind in "iu" and most > np.iinfo(dtype).max):
            raise ValueError(f"Quantize.edges: codes up to {most} do not fit into {dtype}")
        settle(self, edges=edges, dtype=dtype)

    @classmethod
    def uniform(
        cls,
        low: float | Sequence[float],
        high: float | Sequence[float],
        bins: int,
        dtype: npt.DTypeLike = "int64",
    ) -> Quantize:
        """Return a transform with bins of equal width, codes 0 to ``bins - 1``.

        Values below ``low`` fall into the first bin, those above ``high`` into the last one.

        Args:
            low: Where the first bin begins; one number for each column, or one for all.
            high: Where the last bin ends; the same.
            bins: How many, at least 2.
            dtype: Of the codes.

        Raises:
            ValueError: ``low`` is not below ``high``, or they have different numbers of values.
        """
        count = as_count("Quantize.uniform bins", bins, least=2, most=_MOST_BINS)
        starts, ends = as_numbers("Quantize.uniform low", low), as_numbers("Quantize.uniform high", high)
        columns = max(len(starts), len(ends))
        if not {len(starts), len(ends)} <= {1, columns}:
            raise ValueError(
                f"Quantize.uniform: low has {len(starts)} values and high has {len(ends)}; give one for each "
                f"column, or one for all"
            )
        starts = per_column("Quantize.uniform", "low", starts, columns)
        ends = per_column("Quantize.uniform", "high", ends, columns)
        edges = []
        for start, end in zip(starts, ends, strict=True):
            if start >= end:
                raise ValueError(f"Quantize.uniform: low {start:g} is not below high {end:g}")
            edges.append(np.linspace(start, end, count + 1)[1:-1].tolist())
        return cls(edges, dtype)

    def step(self, spec: Spec) -> Step:
        """Return the step for rows.

        Raises:
            ValueError: There is another number of lists of edges than there are columns.
        """
        columns = expect_rows(self, spec, "iuf")
        edges: Any = self.edges
        if len(edges) not in (1, columns):
            raise ValueError(
                f"{self}: edges of {len(edges)} columns, but the rows have {columns}; give a list for each, or "
                f"one for all"
            )
        # Where each list begins and ends among all constants, then the lists.
        starts = list(accumulate(map(len, edges), initial=len(edges) + 1))
        return Step(
            name=repr(self),
            kind="sample",
            function=quantize,
            reference=partial(_quantize, np.dtype(self.dtype)),
            source=spec,
            target=replace(spec.with_dtype(self.dtype), layout=""),
            numbers=(*starts, *(edge for each in edges for edge in each)),
        )


def _lists(edges: Any) -> list[Any]:
    """Return lists of edges, one for each column or one for all."""
    if isinstance(edges, str | bytes) or not isinstance(edges, Sequence | np.ndarray):
        raise TypeError(
            f"Quantize.edges={describe(edges, 200)}: expected numbers, or a list of numbers for each column"
        )
    if len(edges) and isinstance(edges[0], Sequence | np.ndarray):
        return list(edges)
    return [edges]


def _as_edges(values: Any) -> tuple[float, ...]:
    edges = as_numbers("Quantize.edges", values)
    if any(left >= right for left, right in pairwise(edges)):
        raise ValueError(f"Quantize.edges={describe(edges, 200)}: expected numbers in rising order")
    return edges


@jitable
def quantize(source: Any, target: Any, numbers: Any, drawn: Any, rng: Any, work: Any, table: Any) -> None:
    """Find the bin of every value: ``numbers`` say where each column's edges are, the edges follow."""
    columns = source.shape[-1]
    lists = int(numbers[0]) - 1
    values, out = source.reshape(-1), target.reshape(-1)
    for row in range(len(out) // columns):
        for c in range(columns):
            which = c if lists > 1 else 0
            edges = numbers[int(numbers[which]) : int(numbers[which + 1])]
            at = row * columns + c
            out[at] = out.dtype.type(count_at_most(edges, np.float64(values[at])))


@jitable
def count_at_most(edges: Any, value: float) -> int:
    """Return how many of some numbers in rising order are at most ``value``, all of them for NaN."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if value < edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def _quantize(
    dtype: np.dtype[Any], array: npt.NDArray[Any], numbers: Any, drawn: Any, rng: Any
) -> npt.NDArray[Any]:
    lists = int(numbers[0]) - 1
    starts = np.asarray(numbers[: lists + 1], np.int64)
    codes = np.empty(array.shape, dtype)
    for c in range(array.shape[-1]):
        which = c if lists > 1 else 0
        edges = np.asarray(numbers[starts[which] : starts[which + 1]])
        codes[..., c] = np.digitize(array[..., c].astype(np.float64), edges)
    return codes
