"""What may be loaded now, what has to be given up, and when it is hopeless: readings and times in, decisions out.

Guarantees of this file and of ``shortfall``:

* **G5 bounded memory**: a piece is admitted only if *used + ranks · (promised + needed) ≤ soft mark*; a last one,
  alone and while the consumer waits, up to the hard mark. Nothing overtakes a piece that was refused.
* **G7 no hang**: a piece that is being loaded does not wait (but for the cases below): at each sample boundary
  it goes on, is cut there, or is given up. So whatever stands in the way of the piece that the consumer waits
  for, memory or mere promises, is gone after one sample per worker.
* The first piece is never given up, so every admission of it delivers at least one sample.
* A consumer that waits for memory which does not become free gets a failure with the numbers, in bounded time.
* With a fixed batch size no piece is cut or split. Then the first one may wait while it is loaded: alone, above
  the hard mark, for a bounded time.
* What cannot be read again is never given up. Then a piece may wait while it is read: above the hard mark, while
  the consumer still has pieces before it to take.

*Free* pieces are loaded without a question, and need not be on the book: those whose ``bound`` does not exceed
the latest ``allowance``, of which there is none unless memory is plentiful.

The governor is pure: no threads, clocks or I/O; the caller serialises its calls and passes the time in. Before
each ``admit`` and ``progress`` it hands in a reading with ``observe``, which may be some 0.5 ms old. The caller
looks at the clock for ``now`` first and takes the reading then: what was loaded by ``now`` is part of every
reading of that time or later, and is added to earlier ones.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from nogil_loader.memory.budget import Budget, Piece, State
from nogil_loader.memory.decision import Action, Decision, Event, MemoryStatistics
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.gauge import Gauge, Level
from nogil_loader.memory.leeway import Leeway
from nogil_loader.memory.moves import RELIEF_STARVED, RETRY, Moves, starts
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.shortfall import ALL, Shortfall
from nogil_loader.memory.throttle import Throttle
from nogil_loader.policies import MemoryPolicy

# Seconds for which the others wait for the first sample of a piece about which nothing is known. Some samples take
# longer, and some are only ready when another worker's are: waiting on would then be a hang.
_FIRST_SAMPLE = 1.0
# How long an idle thread sleeps where its readings could change nothing.
_NO_HURRY = 0.5
_GO_ON = Decision(Action.GO_ON)


class Governor:
    """Decides for the pieces of one epoch.

    Args:
        policy: Limits and what to give up first.
        estimate: What pieces take. It may be shared by epochs, which then know more from the start.
        workers: Threads that load; 0 for the consumer's own.
        capacity: Pieces that may be in flight when memory is plentiful.
        sharded: Whether other ranks load other shards, so that batches stay whole by default.
        revocable: Whether what was loaded can be loaded again. If not, as with an iterable, nothing that is on
            its way is given up; the pieces are read one after the other.
        ranks: Processes of the job that share the memory, this one included.
        measures: Whether the caller measures what loading a sample takes, and calibrates the estimate.

    Attributes:
        under_way: The pieces on the book that the consumer does not have yet.
    """

    def __init__(
        self,
        policy: MemoryPolicy,
        estimate: Estimate,
        *,
        workers: int,
        capacity: int,
        sharded: bool = False,
        revocable: bool = True,
        ranks: int = 1,
        measures: bool = False,
    ) -> None:
        self._policy = policy
        self._estimate = estimate
        self._fixed = sharded if policy.fixed_batch_size is None else policy.fixed_batch_size
        self._budget = Budget(max(1, ranks))
        self.under_way: Mapping[int, Piece] = self._budget.under_way
        self._gauge = Gauge(policy)
        self._throttle = Throttle(policy, workers=workers, capacity=capacity, fixed=self._fixed)
        self._moves = Moves(
            policy, estimate, self._budget, self._gauge, fixed=self._fixed, revocable=revocable
        )
        self._shortfall = Shortfall(policy, estimate, self._budget, self._throttle, self._moves)
        self._leeway = Leeway(self._budget, self._gauge, self._throttle, capacity=capacity)
        self._unknown_since = -math.inf
        self._measures = measures
        self._begun_at: float | None = None

    def resize(self, workers: int, capacity: int) -> None:
        """Let so many threads load from here on, and so many pieces be in flight when memory is plentiful."""
        self._throttle.resize(workers, capacity)
        self._leeway.resize(capacity)

    @property
    def is_slowed(self) -> bool:
        """Whether less may be in flight than there could be."""
        return self._throttle.parked or not self._throttle.is_full

    @property
    def held_back(self) -> int:
        """How often so far there was no room for a piece, or one was made smaller or given up.

        A piece also waits for a reading, or for the first one to show what samples take: that is no shortage.
        """
        counts = self._moves.counts
        return counts["no room"] + counts["splits"] + counts["cuts"] + counts["revoked"]

    # What happens

    def observe(self, reading: MemoryReading | None, at: float, idle: int = 0) -> Decision:
        """Take in what the probe said at time ``at`` (None: it does not know), and park if it has to be.

        ``idle`` bytes of what is used are kept for the next batches, and given back before anything else.
        """
        self._gauge.observe(reading, at)
        budget, moves = self._budget, self._moves
        level = self._level(at)
        if level is None:
            moves.events.extend(self._throttle.observe_nothing(at))
            return _GO_ON
        # What was dropped a moment ago may still be in the reading.
        ours = budget.in_flight + budget.latest_held + budget.promised + level.leaving + idle
        room = max(0, level.soft - max(0, level.used - ours)) // budget.ranks
        excess = level.used > level.hard and budget.pieces_in_flight > 0
        moves.events.extend(self._throttle.observe(level, room, excess, at))
        if not self._throttle.parked:
            return _GO_ON
        dropped, _ = moves.give_up(self._shortfall.excess(level), ALL, at)
        # What is used although nothing is left to give up may be garbage.
        idle = budget.pieces_in_flight == 0
        relief = idle and not dropped and moves.relieve(at, RELIEF_STARVED)
        return Decision(Action.GO_ON, revoke=starts(dropped), relief=relief)

    def starved(self, head: int) -> None:
        """Note that the consumer waits for the piece at ``head``, or for any: then it is the earliest unloaded."""
        self._budget.head = head

    def finished(self, start: int, nbytes: int, now: float, *, peak: int | None = None) -> bool:
        """Note that a piece, or what is left of it after a cut, is loaded; False for one that is not on the book.

        Args:
            start: The piece.
            nbytes: Bytes that stay: the batch.
            now: The time.
            peak: Bytes that there were of it at most, samples and batch together where it was collated; None
                for ``nbytes``, where the samples were written into their places.
        """
        piece = self._budget.find(start, State.LOADING)
        if piece is None:
            return False
        estimate, unseen = self._estimate, piece.count - piece.done
        peak = nbytes if peak is None else max(peak, nbytes)
        samples = piece.filled
        if unseen > 0:
            samples = max(samples, peak - nbytes or nbytes)
            estimate.learn_mean(unseen, samples - piece.filled, piece.rest)
        estimate.learn_batch(samples, peak)
        self._moves.finish(piece, nbytes, now)
        self._throttle.count_whole()
        return True

    def shorten(self, start: int, count: int) -> None:
        """Note that a piece being read has only ``count`` samples, because there are no more."""
        piece = self._budget.find(start, State.LOADING)
        if piece is not None:
            piece.count = count

    def saw(self, count: int, nbytes: int, hints: Sequence[int] | None = None) -> None:
        """Note that a free piece of ``count`` samples took ``nbytes``. Nothing but the estimate changes."""
        self._estimate.learn_mean(count, nbytes, hints)

    def delivered(self, start: int, nbytes: int = 0) -> None:
        """Note that the consumer has a piece, which takes ``nbytes``.

        0 means what is on the book. A free piece is on the book from now on, if ``nbytes`` is told.
        """
        self._budget.deliver(start, nbytes)
        self._budget.head = None

    def released(self, start: int, nbytes: int, now: float) -> None:
        """Note that the consumer has let go of ``nbytes`` of what was in a piece; of all, it is forgotten."""
        gone = self._budget.release(start, nbytes)
        if gone:
            self._moves.end_stall()
            self._gauge.shrink(gone, now)

    def withdrawn(self, start: int, now: float) -> None:
        """Note that a piece is not loaded any more: it failed, its worker died, or nobody wants it.

        Not after REVOKED, nor for what the consumer has.
        """
        if self._budget.find(start, State.HELD) is None:
            self._moves.forget(start, now)

    def refused(self, start: int, now: float) -> None:
        """Note that loading a piece raised MemoryError: it is off the book, and less may be in flight."""
        self.withdrawn(start, now)
        self._moves.events.extend(self._throttle.refuse(self._level(now), now))

    # What is asked

    def admit(
        self,
        start: int,
        count: int,
        now: float,
        hints: Sequence[int] | None = None,
        *,
        alone: bool = False,
    ) -> Decision:
        """Ask to load ``count`` samples from position ``start`` on: ADMIT, WAIT, PRESPLIT or FAIL.

        With ``alone``, for a piece whose memory was refused, nothing else may be in flight.
        """
        budget, moves, throttle = self._budget, self._moves, self._throttle
        piece = budget.register(start, count, hints)
        need = self._estimate.need(count, hints)
        level = self._level(now)
        first = start == budget.first()
        if not first and (
            throttle.parked
            or (budget.pieces_in_flight >= throttle.in_flight and not (level is None and throttle.is_full))
            or budget.is_queued_behind(start)
        ):
            return moves.wait()
        starved = budget.head == start
        if alone and budget.pieces_in_flight:
            decision = self._shortfall.clear(now) if starved else moves.wait()
            if decision is not None:
                return decision
        if level is None:
            return moves.load(piece, need or 0)
        if not starved and self._gauge.is_stale(now):
            return moves.wait()
        if self._begun_at is None:
            self._begun_at = now
        unmeasured = self._measures and self._estimate.is_assumed and now - self._begun_at < _FIRST_SAMPLE
        if need is None or unmeasured:
            # The first piece shows how large samples are, and what loading one takes.
            if not budget.count(State.LOADING):
                self._unknown_since = now
            elif now - self._unknown_since < _FIRST_SAMPLE:
                return moves.wait(RETRY)
            need = need or 0
        share = throttle.share(self._estimate.scratch(hints))
        if share is not None and need > share:
            size = moves.part(piece, share)
            if size < count:
                return moves.split(piece, size, "share", level, now)
        if level.used + budget.expected + budget.ranks * need <= level.soft:
            return moves.load(piece, need)
        moves.counts["no room"] += 1
        return self._shortfall.make_room(piece, need, level, now) if starved else moves.wait()

    def progress(self, start: int, sizes: Sequence[int], now: float) -> Decision:
        """Report the sizes of samples loaded since the last call: GO_ON, CUT, REVOKED, or WAIT or FAIL.

        Not every boundary has to be reported, but the first one while the estimate knows no sizes.
        """
        budget, moves, estimate = self._budget, self._moves, self._estimate
        piece = budget.find(start, State.LOADING)
        if piece is None:
            return Decision(Action.REVOKED)
        done, hints = piece.done + len(sizes), piece.hints
        if sizes:
            estimate.learn_all(sizes, hints and hints[piece.done : done])
            moves.end_stall()
        loaded, rest, before = sum(sizes), piece.count - done, piece.reserved
        total = estimate.need(rest, hints and hints[done : piece.count], loaded=piece.filled + loaded) or 0
        outgrown = total > before
        moves.grow(piece, loaded, len(sizes), total, now)
        share = self._throttle.share(estimate.scratch(hints)) if outgrown else None
        if share is not None and moves.is_still_to_be_cut(piece):
            budget.fill(piece, 0, 0, min(total, max(before, share)))  # there it will be cut
        if piece.condemned:
            if start != budget.first():
                return moves.revoke(piece, now)
            piece.condemned = False  # it has become the first meanwhile
        level = self._level(now)
        if level is None or rest <= 0:
            return _GO_ON
        if outgrown and moves.can_cut(piece) and piece.filled + self._shortfall.one(piece) > piece.reserved:
            return self._shortfall.cut(piece, "share", level, now)
        # The room between the marks is for what neighbours take, not for what was estimated wrongly.
        mark = level.soft if outgrown else level.hard
        if level.used + budget.expected <= mark and not (outgrown and self._gauge.is_stale(now)):
            return _GO_ON
        return self._shortfall.carry_on(piece, outgrown, level, now)

    def bound(self, count: int, hints: Sequence[int] | None = None) -> int | None:
        """Bytes that a piece of ``count`` samples will hardly exceed; None as long as no sample was seen."""
        return self._estimate.bound(count, hints)

    def allowance(self, now: float) -> int:
        """Bytes that each of the next ``capacity`` pieces may take without being asked about.

        0 unless memory is plentiful. It holds until a piece is told to wait, and until the next reading, which
        is due after an ``interval`` or after so many pieces.
        """
        return self._leeway.allowance(now)

    def patience(self, now: float) -> float:
        """Seconds after which an idle thread should take a reading: the sooner, the less a neighbour has left."""
        return self._leeway.patience(now, self._policy.interval) if self._moves.revocable else _NO_HURRY

    @property
    def changes(self) -> int:
        """How often a piece has begun, ended or been let go of."""
        return self._budget.changes

    @property
    def promised(self) -> int:
        """Bytes that pieces have reserved and not yet filled."""
        return self._budget.promised

    @property
    def loads_alone(self) -> bool:
        """Whether a single piece is being loaded."""
        return self._budget.count(State.LOADING) == 1

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

    def _level(self, now: float) -> Level | None:
        return self._gauge.level(self._budget.ours, now)
