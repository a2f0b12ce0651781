"""What may happen without asking: how large free pieces may be, and how long an idle thread may sleep.

Guarantees of this file:

* There are no free pieces unless memory is plentiful: known, with nothing refused, parked or slowed down.
* All free pieces between two readings take at most an eighth of what is left below the soft mark, and at most half
  of what is between the marks, ranks included. So even with a last piece, which is loaded up to the hard mark,
  they stay below the limit.
* An idle thread takes a reading before a neighbour can have filled half of what is left below the hard mark, as
  long as there is something to give up.
"""

from __future__ import annotations

from nogil_loader.memory.budget import Budget, State
from nogil_loader.memory.gauge import Gauge
from nogil_loader.memory.throttle import Throttle

# The part of what is left below the soft mark, and of what is between the marks.
_PART_OF_REST = 8
_PART_BETWEEN = 2
# Bytes per second by which a neighbour fills memory, measured with one thread and with two.
_FILLING = 4e9
# An idle thread takes readings at most and at least so often, in seconds. A reading costs 20 µs.
_SHORTEST, _LONGEST = 0.001, 0.5


class Leeway:
    """What nobody has to ask for.

    Args:
        budget: The books.
        gauge: Where memory stands.
        throttle: Whether anything is slowed down.
        capacity: Pieces that may be in flight when memory is plentiful.
    """

    def __init__(self, budget: Budget, gauge: Gauge, throttle: Throttle, *, capacity: int) -> None:
        self._budget = budget
        self._gauge = gauge
        self._throttle = throttle
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Let so many pieces be in flight from here on."""
        self._capacity = max(1, capacity)

    def allowance(self, now: float) -> int:
        """Bytes that each of the next ``capacity`` pieces may take."""
        budget, throttle = self._budget, self._throttle
        level = self._gauge.level(budget.ours, now)
        if (
            level is None
            or throttle.parked
            or not throttle.is_full
            or budget.count(State.PENDING)
            or self._gauge.is_old(now)
        ):
            return 0
        rest = max(0, level.soft - level.used - budget.expected)
        most = min(rest // _PART_OF_REST, (level.hard - level.soft) // _PART_BETWEEN)
        return most // (self._capacity * budget.ranks)

    def patience(self, now: float, longest: float) -> float:
        """Seconds after which to take a reading, at most ``longest`` where a neighbour could be dangerous."""
        level = self._gauge.level(self._budget.ours, now)
        # The first piece is never given up, so there has to be another one.
        if level is None or self._budget.pieces_in_flight <= 1:
            return _LONGEST
        half = (level.hard - level.used) / _FILLING / 2.0
        return _LONGEST if half >= _LONGEST else max(_SHORTEST, min(half, longest))
