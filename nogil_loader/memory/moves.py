"""The single steps that the governor's rules are made of: each changes the books and says what has to be done.

Guarantees of this file:

* The budget, the gauge, the counters and the events of a step change together.
* A piece is never made smaller than the policy's least batch, nor its rest; with a fixed batch size it is never
  made smaller.
* Relief and patience are bounded: garbage is collected so often and no more, and whoever waits for memory that
  does not become free is told so with the numbers.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Sequence

from nogil_loader.memory.budget import Budget, Piece, State
from nogil_loader.memory.decision import Action, Decision, Event, Shortage
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.gauge import Gauge, Level
from nogil_loader.policies import MemoryPolicy

# How soon a piece that the consumer waits for is asked for again. The others wait one interval.
RETRY = 0.005
# Collecting garbage and trimming the heap takes some 50 ms: so seldom while memory is missing, and so seldom
# while batches are merely smaller than they could be.
RELIEF_STARVED = 0.5
RELIEF_SHRUNK = 10.0
# Events kept; a run under lasting pressure makes one with each batch.
_EVENTS = 1000
_ADMIT = Decision(Action.ADMIT)
_REVOKED = Decision(Action.REVOKED)


class Moves:
    """The governor's hands.

    Args:
        policy: For the least sizes and the patience.
        estimate: What pieces take.
        budget: The books.
        gauge: Where memory stands.
        fixed: Whether pieces may not be made smaller.
        revocable: Whether what was loaded can be loaded again.

    Attributes:
        events: The latest changes.
        counts: How often what was done.
        peak: The most bytes that were in flight at once.
        fixed: As above.
        revocable: As above.
    """

    def __init__(
        self,
        policy: MemoryPolicy,
        estimate: Estimate,
        budget: Budget,
        gauge: Gauge,
        *,
        fixed: bool,
        revocable: bool,
    ) -> None:
        self.events: deque[Event] = deque(maxlen=_EVENTS)
        self.counts: Counter[str] = Counter()
        self.peak = 0
        self._policy = policy
        self._estimate = estimate
        self._budget = budget
        self._gauge = gauge
        self.fixed = fixed
        self.revocable = revocable
        self._stalled_since: float | None = None
        self._relieved_at = -math.inf

    # How large a piece may be

    def need(self, piece: Piece, size: int) -> int:
        """Bytes for the first ``size`` samples; 0 as long as nothing is known."""
        return self._estimate.need(size, piece.hints and piece.hints[:size]) or 0

    def part(self, piece: Piece, room: int) -> int:
        """How many samples to begin with so that they fit into ``room`` bytes, in parts of about equal size."""
        if self.fixed:
            return piece.count
        fit = self._estimate.fit(piece.count, room, piece.hints)
        return piece.count if fit >= piece.count else self._in_parts(piece, -(-piece.count // max(1, fit)))

    def least(self, piece: Piece) -> int:
        """How many samples to begin with if it has to be as few as possible."""
        return piece.count if self.fixed else self._in_parts(piece, piece.count)

    def _in_parts(self, piece: Piece, parts: int) -> int:
        return -(-piece.count // max(1, min(parts, piece.count // self._policy.min_batch_size)))

    def can_cut(self, piece: Piece) -> bool:
        """Whether what is loaded of a piece may be handed in by itself."""
        least = self._policy.min_batch_size
        return not self.fixed and piece.done >= least and piece.count - piece.done >= least

    def is_still_to_be_cut(self, piece: Piece) -> bool:
        """Whether there is a boundary, here or further on, where it may be cut."""
        least = self._policy.min_batch_size
        return not self.fixed and piece.count - max(piece.done, least) >= least

    # What to answer

    def load(self, piece: Piece, reserved: int) -> Decision:
        """Admit a piece."""
        self._budget.load(piece, reserved)
        self._stalled_since = None
        return _ADMIT

    def wait(self, after: float | None = None, dropped: Sequence[Piece] = ()) -> Decision:
        """Let a piece wait."""
        self.counts["waits"] += 1
        return Decision(
            Action.WAIT, after=self._policy.interval if after is None else after, revoke=starts(dropped)
        )

    def split(
        self, piece: Piece, size: int, rule: str, level: Level, now: float, dropped: Sequence[Piece] = ()
    ) -> Decision:
        """Have a piece planned in two."""
        self.counts["splits"] += 1
        self._note(piece.count, size, rule, level, now, piece)
        relief = self.relieve(now, RELIEF_SHRUNK)
        return Decision(Action.PRESPLIT, size, revoke=starts(dropped), relief=relief)

    def cut(
        self, piece: Piece, rule: str, level: Level, now: float, dropped: Sequence[Piece] = ()
    ) -> Decision:
        """Have a piece end where it is."""
        self.counts["cuts"] += 1
        self._note(piece.count, piece.done, rule, level, now, piece)
        piece.count = piece.done
        self._budget.fill(piece, 0, 0, self._estimate.need(0, loaded=piece.filled) or 0)
        return Decision(Action.CUT, piece.done, revoke=starts(dropped))

    def revoke(self, piece: Piece, now: float) -> Decision:
        """Give up a piece that is being loaded."""
        self.counts["revoked"] += 1
        self.forget(piece.start, now)
        return _REVOKED

    def stall(
        self, piece: Piece, need: int, level: Level, now: float, dropped: Sequence[Piece] = ()
    ) -> Decision:
        """Let a piece wait for memory that only others can free, for a bounded time."""
        since = self.begin_stall(now)
        if now - since < self._policy.stall:
            relief = self.relieve(now, RELIEF_STARVED)
            return Decision(Action.WAIT, after=RETRY, revoke=starts(dropped), relief=relief)
        shortage = Shortage(
            start=piece.start + piece.done,
            samples=piece.count - piece.done,
            needed=need,
            budget=max(0, level.soft - max(0, level.used - self._budget.in_flight)),
            limit=level.limit,
            used=level.used,
            ceiling=level.hard,
            scratch=self._estimate.scratch(piece.rest),
            held=self._budget.bytes(State.HELD),
            source=level.source,
            waited=now - since,
            fixed=self.fixed,
        )
        return Decision(Action.FAIL, revoke=starts(dropped), shortage=shortage)

    # What else happens

    def begin_stall(self, now: float) -> float:
        """Since when nothing has become better."""
        if self._stalled_since is None:
            self._stalled_since = now
        return self._stalled_since

    def end_stall(self) -> None:
        """Note that something has."""
        self._stalled_since = None

    def relieve(self, now: float, every: float) -> bool:
        """Whether it is time to collect garbage."""
        if now - self._relieved_at < every:
            return False
        self._relieved_at = now
        self.counts["reliefs"] += 1
        return True

    def forget(self, start: int, now: float) -> None:
        """Take a piece off the book."""
        self.end_stall()
        self._gauge.shrink(self._budget.free(start), now)

    def give_up(
        self, excess: int, states: Collection[State], now: float, *, keep: int = 0
    ) -> tuple[list[Piece], int]:
        """Give up the youngest pieces, see `Budget.give_up`."""
        if excess <= 0 or not self.revocable:
            return [], excess
        dropped, missing = self._budget.give_up(excess, states, keep=keep)
        if dropped:
            self.end_stall()
            self.counts["revoked"] += len(dropped)
            self._gauge.shrink(sum(piece.filled for piece in dropped), now)
        return dropped, missing

    def finish(self, piece: Piece, nbytes: int, now: float) -> None:
        """Note that a piece is loaded and takes ``nbytes`` now."""
        self._gauge.grow(max(0, nbytes - piece.filled), now)
        self._gauge.shrink(max(0, piece.filled - nbytes), now)
        self._budget.finish(piece, nbytes)
        self.peak = max(self.peak, self._budget.in_flight)

    def grow(self, piece: Piece, nbytes: int, samples: int, reserved: int, now: float) -> None:
        """Note that a piece has grown and may take so much in all."""
        self._gauge.grow(nbytes, now)
        budget = self._budget
        budget.fill(piece, nbytes, samples, reserved)
        if budget.in_flight > self.peak:
            self.peak = budget.in_flight

    def _note(self, before: int, after: int, rule: str, level: Level, now: float, piece: Piece) -> None:
        self.events.append(Event(now, "batch", rule, before, after, level.used, level.limit, piece.start))


def starts(pieces: Sequence[Piece]) -> tuple[int, ...]:
    """Where pieces begin."""
    return tuple(piece.start for piece in pieces)
