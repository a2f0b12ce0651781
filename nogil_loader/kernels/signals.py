"""Sums over signals, and values between their samples: loops for kernels, and numpy with the same bits.

A sum in one variable takes the time of an addition, four cycles, for each number. Here are eight, of which each
adds every eighth number, and what is left over is added at the end. All of it in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels.compiler.jit import jitable

_LANES = 8


@jitable
def sum_deviations(values: Any, centre: float) -> float:
    """Return the sum of ``value - centre`` over a row, in float64."""
    even = len(values) - len(values) % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, even, 8):
        s0 += np.float64(values[i]) - centre
        s1 += np.float64(values[i + 1]) - centre
        s2 += np.float64(values[i + 2]) - centre
        s3 += np.float64(values[i + 3]) - centre
        s4 += np.float64(values[i + 4]) - centre
        s5 += np.float64(values[i + 5]) - centre
        s6 += np.float64(values[i + 6]) - centre
        s7 += np.float64(values[i + 7]) - centre
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for i in range(even, len(values)):
        total += np.float64(values[i]) - centre
    return total


@jitable
def sum_squares(values: Any, centre: float) -> float:
    """Return the sum of ``(value - centre) ** 2`` over a row, in float64."""
    even = len(values) - len(values) % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, even, 8):
        d0 = np.float64(values[i]) - centre
        d1 = np.float64(values[i + 1]) - centre
        d2 = np.float64(values[i + 2]) - centre
        d3 = np.float64(values[i + 3]) - centre
        d4 = np.float64(values[i + 4]) - centre
        d5 = np.float64(values[i + 5]) - centre
        d6 = np.float64(values[i + 6]) - centre
        d7 = np.float64(values[i + 7]) - centre
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
        s4 += d4 * d4
        s5 += d5 * d5
        s6 += d6 * d6
        s7 += d7 * d7
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for i in range(even, len(values)):
        d = np.float64(values[i]) - centre
        total += d * d
    return total


@jitable
def between(values: Any, at: int, share: Any, out: Any) -> Any:
    """Return the value at ``at + share``, linear between its neighbours, computed in the type of ``out``.

    Args:
        values: One row.
        at: Position of the neighbour on the left. There need not be one on the right.
        share: Of the way to the right neighbour, 0 to 1, of the type of ``out``.
        out: An array of float32 or float64.
    """
    left = out.dtype.type(values[at])
    right = out.dtype.type(values[min(at + 1, len(values) - 1)])
    return left + (right - left) * share


@jitable
def store_rounded(values: Any, out: Any, low: float, high: float) -> None:
    """Write floats to an array of integers from ``low`` to ``high``: rounded half to even, then clipped."""
    least, most = values.dtype.type(low), values.dtype.type(high)
    for i in range(len(out)):
        out[i] = min(max(np.rint(values[i]), least), most)


def lane_sum(values: npt.NDArray[np.float64]) -> np.float64:
    """Return the sum of a row in the order in which kernels add: what `sum_deviations` adds up."""
    even = len(values) - len(values) % _LANES
    lanes = np.zeros((1 + even // _LANES, _LANES))
    lanes[1:] = values[:even].reshape(-1, _LANES)
    s0, s1, s2, s3, s4, s5, s6, s7 = np.add.accumulate(lanes)[-1]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    return np.float64(np.add.accumulate([total, *values[even:]])[-1])


def linear(
    values: npt.NDArray[Any],
    at: npt.NDArray[np.int64],
    share: npt.NDArray[Any],
    dtype: npt.DTypeLike,
) -> npt.NDArray[Any]:
    """Return what `between` gives for positions along the last axis, in ``dtype``."""
    left = values[..., at].astype(dtype)
    right = values[..., np.minimum(at + 1, values.shape[-1] - 1)].astype(dtype)
    result: npt.NDArray[Any] = left + (right - left) * share.astype(dtype)
    return result


def rounded(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return floats as ``dtype``: integers are rounded half to even and clipped, as `store_rounded` does."""
    wanted = np.dtype(dtype)
    if wanted.kind == "f":
        return values.astype(wanted)
    limits = np.iinfo(wanted)
    clipped: npt.NDArray[Any] = np.clip(np.rint(values), limits.min, limits.max)
    return clipped.astype(wanted)
