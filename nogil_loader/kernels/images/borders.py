"""What stands beyond the border of an image."""

from __future__ import annotations

from typing import Any, Final

from nogil_loader.kernels.compiler.jit import jitable

#: Names of what may stand there, in the order of the numbers that kernels know them by: one value; the last pixel
#: repeated; the image mirrored at its last pixel, which is not repeated; the same with the last pixel repeated.
BORDERS: Final = ("constant", "edge", "reflect", "symmetric")

_CONSTANT: Final = 0
_EDGE: Final = 1
_REFLECT: Final = 2


@jitable
def border_at(i: int, length: int, mode: int) -> int:
    """Return which of ``length`` pixels stands at position ``i``, -1 for the constant.

    A mirrored image is mirrored once: ``i`` is at most ``length - 1`` ("reflect") or ``length`` ("symmetric")
    positions beyond the border.
    """
    if 0 <= i < length:
        return i
    if mode == _CONSTANT:
        return -1
    if mode == _EDGE:
        return 0 if i < 0 else length - 1
    repeated = 0 if mode == _REFLECT else 1
    return -i - repeated if i < 0 else 2 * (length - 1) - i + repeated


@jitable
def fill_window(table: Any, start: int, length: int, mode: int) -> None:
    """Fill a table with the pixels of a line that stand at ``start`` and the positions after it."""
    for i in range(len(table)):
        table[i] = border_at(start + i, length, mode)
