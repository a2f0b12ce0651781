"""Kernels that move rows of bytes."""

from __future__ import annotations

from typing import Any

from nogil_loader.kernels.compile import kernel


def copy_bytes(out: Any, at: int, source: Any, start: int, count: int) -> None:
    """Copy ``count`` bytes from ``source[start:]`` to ``out[at:]``; in a kernel this is memcpy."""
    out[at : at + count] = source[start : start + count]


@kernel("bytes", "positions", "bytes", "writable bytes", "number", "number")
def pad_rows(values: Any, offsets: Any, filler: Any, out: Any, width: int, left: int) -> None:
    """Lay out ragged rows as rows of ``width`` bytes, the rest filled with repetitions of ``filler``.

    Args:
        values: Row after row, uint8.
        offsets: Where in ``values`` each row starts and the last one ends, ``(rows + 1,)``, in bytes.
        filler: One or more pad items, uint8.
        out: ``rows * width`` bytes.
        width: Bytes of a padded row, not less than those of the longest row.
        left: 1 puts the fill before the values, 0 behind them.
    """
    for row in range(len(offsets) - 1):
        count = offsets[row + 1] - offsets[row]
        missing = width - count
        start = row * width
        copy_bytes(out, start + left * missing, values, offsets[row], count)
        at = start + (1 - left) * count
        while missing > 0:
            step = min(missing, len(filler))
            copy_bytes(out, at, filler, 0, step)
            at += step
            missing -= step
