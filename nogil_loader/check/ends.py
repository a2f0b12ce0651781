"""Whether ``len(dataset)`` is where the samples end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nogil_loader.check.outcome import Outcome, Raised, Value

# How far beyond its end a dataset is asked. One that still answers then has no end of its own: it computes its
# samples, or counts around. Further out, samples as long as their index might not fit into memory.
_FURTHEST = 8
_LEAST_BEYOND = 64
# By one of these a dataset says that a sample is not there.
_SAYS_MISSING = frozenset({"LookupError", "FileNotFoundError"})


@dataclass(frozen=True)
class Ends:
    """Where samples end.

    Attributes:
        length: What ``len()`` says.
        readable: How many samples can be read, counted from 0; None if no end was found beyond ``length``.
        error: What the first one raises that cannot be read; empty if that is not known.
    """

    length: int
    readable: int | None
    error: str = ""

    @property
    def is_too_long(self) -> bool:
        """Whether samples are promised that are not there."""
        return self.readable is not None and self.readable < self.length

    @property
    def is_too_short(self) -> bool:
        """Whether there are samples that nobody would ask for."""
        return self.readable is not None and self.readable > self.length


def find_end(length: int, ask: Callable[[int], Outcome], last: Outcome) -> Ends:
    """Find out where samples end.

    Args:
        length: What ``len()`` says, at least 1.
        ask: Reads a sample alone.
        last: What came of the last one, ``length - 1``.
    """
    if isinstance(last, Raised) and "LookupError" in last.bases:
        first = _first_missing(0, length - 1, ask)
        if first < length - 1 or isinstance(ask(max(0, length - 2)), Value):
            return Ends(length, first, last.text)
        return Ends(length, None)
    if not isinstance(last, Value):
        return Ends(length, None)
    beyond = 0
    while isinstance(outcome := ask(length + beyond), Value):
        if beyond > max((_FURTHEST - 1) * length, _LEAST_BEYOND):
            return Ends(length, None)
        beyond = 2 * beyond + 1
    if beyond == 0:
        return Ends(length, length)
    if not isinstance(outcome, Raised) or not outcome.bases & _SAYS_MISSING:
        return Ends(length, None)  # something else goes wrong out there
    return Ends(length, _first_missing(length, length + beyond, ask), outcome.text)


def _first_missing(low: int, high: int, ask: Callable[[int], Outcome]) -> int:
    """Return the first index from ``low`` on that cannot be read, if those behind it cannot be read either.

    Args:
        low: Where to begin.
        high: One that cannot be read.
        ask: Reads a sample alone.
    """
    while low < high:
        middle = (low + high) // 2
        if isinstance(ask(middle), Value):
            low = middle + 1
        else:
            high = middle
    return low
