"""What may be loaded now, what has to be given up, and when it is hopeless: readings and times in, decisions out.

Guarantees of this file:

* **G5 bounded memory**: a piece is admitted only if *used + promised + needed ≤ soft mark*; a last one, alone and
  while the consumer waits, up to the hard mark. Nothing overtakes a piece that was refused.
* **G7 no hang**: a piece that is being loaded does not wait (but for one case, below): at each sample boundary
  it goes on, is cut there, or is given up. So whatever stands in the way of the piece that the consumer waits
  for, memory or mere promises, is gone after one sample per worker.
* The first piece is never given up, so every admission of it delivers at least one sample.
* A consumer that waits for memory which does not become free gets a failure with the numbers, in bounded time.
* With a fixed batch size no piece is cut or split. Only then may the first one wait while it is loaded: alone,
  above the hard mark, for a bounded time.

The governor is pure: no threads, clocks or I/O; the caller serialises its calls and passes the time in. Before
each ``admit`` and ``progress`` it hands in a reading with ``observe``, which may be some 0.5 ms old. The caller
looks at the clock for ``now`` first and takes the reading then: what was loaded by ``now`` is part of every
reading of that time or later, and is added to earlier ones.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from nogil_loader.memory.budget import Budget, Piece, State
from nogil_loader.memory.decision import Action, Decision, Event, MemoryStatistics
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.gauge import Gauge, Level
from nogil_loader.memory.moves import RELIEF_STARVED, RETRY, Moves, starts
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.throttle import Throttle
from nogil_loader.policies import MemoryPolicy

_GIVES_UP = {"prefetch": (State.READY,), "workers": (State.LOADING,)}
_ALL = (State.READY, State.LOADING)
_GO_ON = Decision(Action.GO_ON)


class Governor:
    """Decides for the pieces of one epoch.

    Args:
        policy: Limits and what to give up first.
        estimate: What pieces take. It may be shared by epochs, which then know more from the start.
        workers: Threads that load; 0 for the consumer's own.
        capacity: Pieces that may be in flight when memory is plentiful.
        sharded: Whether other ranks load other shards, so that batches stay whole by default.
    """

    def __init__(
        self, policy: MemoryPolicy, estimate: Estimate, *, workers: int, capacity: int, sharded: bool = False
    ) -> None:
        self._policy = policy
        self._estimate = estimate
        self._fixed = sharded if policy.fixed_batch_size is None else policy.fixed_batch_size
        self._budget = Budget()
        self._gauge = Gauge(policy)
        self._throttle = Throttle(policy, workers=workers, capacity=capacity, fixed=self._fixed)
        self._moves = Moves(policy, estimate, self._budget, self._gauge, fixed=self._fixed)
        self._head: int | None = None

    # What happens

    def observe(self, reading: MemoryReading | None, at: float) -> Decision:
        """Take in what the probe said at time ``at`` (None: it does not know), and park if it has to be."""
        self._gauge.observe(reading, at)
        level = self._level(at)
        if level is None:
            return _GO_ON
        ours = self._budget.in_flight + self._budget.latest_held + self._budget.promised
        room = max(0, level.soft - max(0, level.used - ours))
        excess = level.used > level.hard and self._budget.pieces_in_flight > 0
        self._moves.events.extend(self._throttle.observe(level, room, excess, at))
        if not self._throttle.parked:
            return _GO_ON
        dropped, _ = self._moves.give_up(self._excess(level), _ALL, at, spare=self._first)
        # What is used although nothing is left to give up may be garbage.
        idle = self._budget.pieces_in_flight == 0
        relief = idle and not dropped and self._moves.relieve(at, RELIEF_STARVED)
        return Decision(Action.GO_ON, revoke=starts(dropped), relief=relief)

    def starved(self, head: int) -> None:
        """Note that the consumer waits for the piece at ``head``."""
        self._head = head

    def finished(self, start: int, nbytes: int, now: float) -> None:
        """Note that a piece, or what is left of it after a cut, is loaded and takes ``nbytes``."""
        piece = self._budget.find(start, State.LOADING)
        if piece is None:
            return
        unseen, new = piece.count - piece.done, max(0, nbytes - piece.filled)
        for hint in piece.hints_ahead:
            self._estimate.learn(new // unseen, hint)
        if not unseen:
            self._estimate.learn_batch(piece.filled, nbytes)
        self._moves.grow(piece, new, unseen, now)
        self._budget.finish(piece, nbytes)
        self._throttle.count_whole()

    def delivered(self, start: int) -> None:
        """Note that the consumer has a piece."""
        self._budget.deliver(start)
        self._head = None

    def released(self, start: int, now: float) -> None:
        """Note that the consumer has let go of all that was in a piece."""
        if self._budget.find(start, State.HELD) is not None:
            self._moves.forget(start, now)

    def withdrawn(self, start: int, now: float) -> None:
        """Note that a piece is not loaded any more, because it failed or its worker died. Not after REVOKED."""
        if self._budget.find(start, State.HELD) is None:
            self._moves.forget(start, now)

    # What is asked

    def admit(self, start: int, count: int, now: float, hints: Sequence[int] | None = None) -> Decision:
        """Ask to load ``count`` samples from position ``start`` on: ADMIT, WAIT, PRESPLIT or FAIL."""
        piece = self._budget.register(start, count, hints)
        need = self._estimate.need(count, hints)
        level = self._level(now)
        if level is None:
            return self._moves.load(piece, need or 0)
        starved = self._head == start
        if start != self._first and (
            self._throttle.parked
            or self._budget.pieces_in_flight >= self._throttle.in_flight
            or self._budget.is_queued_behind(start)
        ):
            return self._moves.wait()
        if self._gauge.is_stale(now) and not starved:
            return self._moves.wait()
        if need is None:
            # The first piece shows how large samples are; the others wait for its first sample.
            if self._budget.count(State.LOADING):
                return self._moves.wait(RETRY)
            need = 0
        share = self._throttle.share
        size = count if share is None else self._moves.part(piece, share)
        if size < count:
            return self._moves.split(piece, size, "share", level, now)
        if level.used + self._budget.promised + need <= level.soft:
            return self._moves.load(piece, need)
        return self._make_room(piece, need, level, now) if starved else self._moves.wait()

    def progress(self, start: int, sizes: Sequence[int], now: float) -> Decision:
        """Report the sizes of samples loaded since the last call: GO_ON, CUT, REVOKED, or WAIT or FAIL.

        Not every boundary has to be reported, but the first one while the estimate knows no sizes.
        """
        piece = self._budget.find(start, State.LOADING)
        if piece is None:
            return Decision(Action.REVOKED)
        for nbytes, hint in zip(sizes, piece.hints_ahead, strict=False):
            self._estimate.learn(nbytes, hint)
        if sizes:
            self._moves.end_stall()
        before, share = piece.reserved, self._throttle.share
        self._moves.grow(piece, sum(sizes), len(sizes), now)
        rest = max(0, piece.count - piece.done)
        total = self._estimate.need(rest, piece.rest, loaded=piece.filled) or 0
        outgrown = total > before
        if outgrown and not self._fixed and share is not None:
            total = min(total, max(before, share))  # there it will be cut
        self._budget.reserve(piece, total)
        if piece.condemned and start != self._first:
            return self._moves.revoke(piece, now)
        piece.condemned = False  # it has become the first meanwhile
        level = self._level(now)
        if level is None or not rest:
            return _GO_ON
        return self._carry_on(piece, outgrown, level, now)

    @property
    def events(self) -> deque[Event]:
        """The latest changes of what the loader may do; the caller may empty it."""
        return self._moves.events

    def statistics(self) -> MemoryStatistics:
        """A snapshot."""
        level, budget, counts = self._level(math.inf), self._budget, self._moves.counts
        return MemoryStatistics(
            limit=None if level is None else level.limit,
            used=0 if level is None else level.used,
            source="" if level is None else level.source,
            promised=budget.promised,
            loading=budget.bytes(State.LOADING),
            ready=budget.bytes(State.READY),
            held=budget.bytes(State.HELD),
            in_flight=budget.pieces_in_flight,
            in_flight_allowed=self._throttle.in_flight,
            room=self._throttle.room or 0,
            parked=self._throttle.parked,
            peak=self._moves.peak,
            waits=counts["waits"],
            splits=counts["splits"],
            cuts=counts["cuts"],
            revoked=counts["revoked"],
            parks=self._throttle.parks,
            last=counts["last"],
            reliefs=counts["reliefs"],
        )

    # The rules

    def _carry_on(self, piece: Piece, outgrown: bool, level: Level, now: float) -> Decision:
        """Whether a piece that is being loaded may go on."""
        moves, can_cut = self._moves, self._moves.can_cut(piece)
        one = self._estimate.need(1, piece.rest and piece.rest[:1]) or 0
        if outgrown and can_cut and piece.filled + one > piece.reserved:
            return self._cut(piece, "share", level, now)
        # The room between the marks is for what neighbours take, not for what was estimated wrongly.
        mark = level.soft if outgrown else level.hard
        if level.used + self._budget.promised <= mark and not (outgrown and self._gauge.is_stale(now)):
            return _GO_ON
        if piece.start != self._first:
            if not outgrown:
                return _GO_ON
            return self._cut(piece, "outgrown", level, now) if can_cut else moves.revoke(piece, now)
        dropped: list[Piece] = []
        excess = self._excess(level) + level.soft - mark
        for step in self._policy.order:
            if step == "batch":
                if excess > 0 and can_cut:
                    return self._cut(piece, "outgrown", level, now, dropped)
            else:
                excess = self._give_up(step, excess, now, dropped)
        excess = self._give_up("all", excess, now, dropped)
        # A part that is too small to be cut off has to come out whole.
        if excess <= 0 or level.used + one <= level.hard or not self._fixed:
            return Decision(Action.GO_ON, revoke=starts(dropped))
        rest = self._estimate.need(piece.count - piece.done, piece.rest) or 0
        return moves.stall(piece, rest, level, now, dropped)

    def _make_room(self, piece: Piece, need: int, level: Level, now: float) -> Decision:
        """What to do for a piece that the consumer waits for and that does not fit."""
        moves = self._moves
        dropped: list[Piece] = []
        excess = self._excess(level) + need
        if excess <= 0:
            return moves.wait(RETRY)  # enough is on its way out
        for step in self._policy.order:
            if step != "batch":
                excess = self._give_up(step, excess, now, dropped)
                continue
            size = moves.part(piece, need - excess)
            if size < piece.count and moves.need(piece, size) <= need - excess:
                return moves.split(piece, size, "starved", level, now, dropped)
        self._give_up("all", excess, now, dropped)
        if dropped or self._budget.pieces_in_flight:
            return moves.wait(RETRY, dropped)
        return self._load_last(piece, level, now)

    def _load_last(self, piece: Piece, level: Level, now: float) -> Decision:
        """What to do when nothing is left to be given up."""
        moves = self._moves
        size = moves.least(piece)
        if size < piece.count:
            return moves.split(piece, size, "last", level, now)
        if moves.relieve(now, RELIEF_STARVED):
            moves.begin_stall(now)
            return Decision(Action.WAIT, relief=True)
        need = moves.need(piece, size)
        if level.used + need > level.hard:
            return moves.stall(piece, need, level, now)
        moves.counts["last"] += 1
        return moves.load(piece, need)

    # What the rules are made of

    def _level(self, now: float) -> Level | None:
        return self._gauge.level(self._budget.in_flight, now)

    @property
    def _first(self) -> int | None:
        """The piece that is never given up: what the consumer waits for, or else the earliest one."""
        return self._budget.first() if self._head is None else self._head

    def _excess(self, level: Level) -> int:
        """Bytes above the soft mark when all promises are kept and all that is on its way out is gone."""
        return level.used + self._budget.promised - level.leaving - self._budget.condemned - level.soft

    def _give_up(self, step: str, excess: int, now: float, dropped: list[Piece]) -> int:
        keep = self._policy.min_workers - 1 if step == "workers" else 0
        states = _GIVES_UP.get(step, _ALL)
        more, missing = self._moves.give_up(excess, states, now, spare=self._first, keep=keep)
        dropped += more
        return missing

    def _cut(
        self, piece: Piece, rule: str, level: Level, now: float, dropped: Sequence[Piece] = ()
    ) -> Decision:
        self._throttle.count_cut()
        return self._moves.cut(piece, rule, level, now, dropped)
