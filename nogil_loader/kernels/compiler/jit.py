"""Plain functions that kernels may call.

They know nothing of numba, so that the modules which define transforms can be imported without it, and so that
they run as plain Python where nothing compiles: same results, slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_functions: list[tuple[Callable[..., Any], bool]] = []
_known = 0


def jitable(function: F) -> F:
    """Mark a function as one that a kernel may call by its global name; it stays what it is."""
    _functions.append((function, False))
    return function


def inlined(function: F) -> F:
    """Mark a function as `jitable` does, and have its machine code put where it is called.

    For what is called for every row of an image: each array that goes into a call is seven words, which are
    stored and loaded again. That can cost as much as the pixels of a row.
    """
    _functions.append((function, True))
    return function


def borrowed(array: Any) -> Any:
    """Return the array itself; in a kernel, a view that nobody counts references to.

    Each slice of an array that has an owner costs two atomic additions, even if it lives for one row only: for 112
    rows of 112 pixels they took three times as long as the pixels. The caller of a kernel holds its arguments.
    """
    return array


def introduce(numba: Any) -> None:
    """Make all marked functions known to numba; to be called before a kernel is compiled."""
    global _known
    while _known < len(_functions):
        function, is_inlined = _functions[_known]
        numba.extending.register_jitable(forceinline=is_inlined)(function)
        _known += 1
