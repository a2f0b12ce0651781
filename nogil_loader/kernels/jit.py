"""Plain functions that kernels may call.

They know nothing of numba, so that the modules which define transforms can be imported without it, and so that
they run as plain Python where nothing compiles: same results, slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_functions: list[Callable[..., Any]] = []
_known = 0


def jitable(function: F) -> F:
    """Mark a function as one that a kernel may call by its global name; it stays what it is."""
    _functions.append(function)
    return function


def introduce(numba: Any) -> None:
    """Make all marked functions known to numba; to be called before a kernel is compiled."""
    global _known
    while _known < len(_functions):
        numba.extending.register_jitable(_functions[_known])
        _known += 1
