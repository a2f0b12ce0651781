"""What the threads of one epoch ask the memory governor, and what they do about its answers.

Guarantees of this file:

* The governor is only called under the run's lock, together with the ledger's transition that belongs to it.
  Readings, hints (user code), garbage collection and the end of large data stay outside.
* While memory is plentiful a ticket costs two comparisons here: pieces whose size is at most the governor's
  *allowance* are *free*, they are loaded without being asked about.
* Whoever has to wait does so for a bounded time and gives its ticket back first, so that what the consumer needs
  is never in the hands of somebody who sleeps.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from nogil_loader.engine.holdings import Holdings
from nogil_loader.engine.outcome import UNWEIGHED, Failure, Loaded, Weight
from nogil_loader.engine.ticket import Lease, Ready, Ticket
from nogil_loader.engine.watch import Watch
from nogil_loader.errors import MemoryBudgetError
from nogil_loader.memory.decision import Action, Decision, Event, MemoryStatistics, Shortage
from nogil_loader.memory.estimate import Estimate, Hints
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.peak import PeakMeter
from nogil_loader.memory.pool import pool
from nogil_loader.memory.reading import BUSY, Busy, MemoryReading
from nogil_loader.memory.relief import relieve
from nogil_loader.memory.source import ReadingSource
from nogil_loader.memory.weigh import owners_of, size_of
from nogil_loader.policies import MemoryPolicy

if TYPE_CHECKING:
    from nogil_loader.engine.run import EpochRun

logger = logging.getLogger("nogil_loader")

# What is taken for the size of a batch about which nothing is known yet. Where batches of this size would be free,
# nobody waits for the first sample of the first epoch.
UNKNOWN_BATCH = 64 << 20
# Who holds a batch is not noted below this size: it would cost more than the batch.
_WORTH_TRACKING = 64 << 10
# Events kept for `MemoryStatistics`.
_EVENTS = 1000
_FREE = Decision(Action.ADMIT)
_GO_ON = Decision(Action.GO_ON)


class Permit(NamedTuple):
    """What a thread may load next.

    Attributes:
        samples: So many at most; 0 for none now.
        pause: Seconds to wait before asking again.
        watch: Reports what is loaded, where that has to be done.
        failure: Why nothing can be read any more.
    """

    samples: int
    pause: float = 0.0
    watch: Watch | None = None
    failure: Failure | None = None


_ALL = Permit(sys.maxsize)
_NONE = Permit(0)


class Rations:
    """The governor as the threads of one epoch see it.

    Args:
        make_governor: Makes who decides, and its estimate; with ``anew=True`` after a call that was broken off.
        source: Where readings come from.
        policy: For the times.
        capacity: Tickets that may exist at a time.
        divisible: Whether a batch may be delivered in parts.
        rereadable: Whether batches that were dropped can be loaded again.
        warn: Told once for what reason hints are not used any more.
        clock: Seconds from any start, never going back.
    """

    def __init__(
        self,
        make_governor: Callable[..., tuple[Governor, Estimate]],
        source: ReadingSource,
        *,
        policy: MemoryPolicy,
        capacity: int,
        divisible: bool,
        rereadable: bool,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.divisible = divisible
        #: How long, in seconds, a thread may wait that has begun to load.
        self.stall = policy.stall
        self._make_governor = make_governor
        self._governor, self._estimate = make_governor(anew=False)
        #: Seconds, at most half of one, that an idle thread may sleep before it should look after the others.
        self.patience = self._governor.patience(clock())
        self._unsound = False
        self._source = source
        self._interval = policy.interval
        self._capacity = capacity
        self._rereadable = rereadable
        self._warn = warn
        self._clock = clock
        self._meter = PeakMeter()
        # Until the next reading, so many pieces of up to so many samples and bytes are free.
        self._free_pieces = self._free_count = self._free_bytes = 0
        self._free_until = self._looked_at = -1.0
        self._known_bytes = -1
        self._holdings = Holdings()
        self._events: deque[Event] = deque(maxlen=_EVENTS)

    # Before loading

    def ask(self, run: EpochRun, lease: Lease, hints: Hints) -> Permit:
        """Whether a ticket may be loaded now. If not, it was given back, and there may be a time to wait."""
        ticket = lease.ticket
        if ticket.samples is not None:
            return _ALL  # whoever has read them has asked
        count = len(ticket.keys)
        if self._is_free(count):
            return _ALL
        said = hints.of(ticket.keys)
        if hints.ignored is not None:
            self._warn(hints.ignored)
        decision = self._consult(run, lease, lambda now: self._admit(ticket, said, now))
        if decision is None:
            return _NONE
        if decision.action is Action.ADMIT:
            return _ALL if decision is _FREE else Permit(count, watch=self._watch(run, ticket.start, lease))
        if decision.action is Action.PRESPLIT:
            run.split(lease, decision.samples)
        elif decision.action is Action.WAIT:
            run.release(lease, quietly=True)
        elif decision.shortage is not None:
            run.fail(lease, self.shortage(decision.shortage, lease), final=True)
        return Permit(0, decision.after)

    def ask_to_read(self, run: EpochRun, start: int, count: int) -> Permit:
        """How many of the next ``count`` samples of an iterable may be read."""
        if self._is_free(count):
            return Permit(count)
        decision = self._consult(run, None, lambda now: self._admit_reading(start, count, now))
        if decision is None:
            return _NONE
        if decision.action is Action.PRESPLIT:
            return self.ask_to_read(run, start, decision.samples)
        if decision.action is Action.ADMIT:
            return Permit(count, watch=None if decision is _FREE else self._watch(run, start, None))
        failure = None if decision.shortage is None else self.shortage(decision.shortage, None)
        return Permit(0, decision.after, failure=failure)

    def _is_free(self, count: int) -> bool:
        if count > self._free_count or self._free_pieces <= 0 or self._clock() >= self._free_until:
            return False
        self._free_pieces -= 1  # two threads may count one; the allowance has a margin
        return True

    def _admit(self, ticket: Ticket, said: Sequence[int] | None, now: float) -> Decision:
        count = len(ticket.keys)
        alone = ticket.memory_retries > 0
        if not alone and self._sets_free(count, said):
            return _FREE
        return self._governor.admit(ticket.start, count, now, said, alone=alone)

    def _admit_reading(self, start: int, count: int, now: float) -> Decision:
        return _FREE if self._sets_free(count, None) else self._governor.admit(start, count, now)

    def _sets_free(self, count: int, said: Sequence[int] | None) -> bool:
        bound = self._governor.bound(count, said)
        size = UNKNOWN_BATCH if bound is None else bound
        if size > self._free_bytes:
            return False
        if bound is not None and said is None:
            self._free_count = count
            self._free_pieces = self._capacity * self._free_bytes // max(1, size) - 1
        return True

    def _watch(self, run: EpochRun, start: int, lease: Lease | None) -> Watch:
        alone = self._governor.loads_alone and self._estimate.wants_calibration and not self._source.is_host
        return Watch(
            self,
            run,
            start,
            lease,
            meter=self._meter if alone else None,
            known=self._estimate.knows_sizes,
        )

    # While loading

    def progress(
        self, run: EpochRun, start: int, lease: Lease | None, sizes: Sequence[int]
    ) -> Decision | None:
        """Report samples; None when the lease is void."""
        return self._consult(run, lease, lambda now: self._governor.progress(start, sizes, now))

    def read(self, run: EpochRun, start: int, count: int) -> None:
        """Note how many samples a reader has read of what it was permitted to."""
        with run.lock:
            governor = self._begin()
            if count:
                governor.shorten(start, count)
            else:
                governor.withdrawn(start, self._clock())
            self._unsound = False

    def calibrate(self, run: EpochRun, peak: int, nbytes: int) -> None:
        """Report what loading one sample of ``nbytes`` bytes took at most, if nothing else was loaded."""
        with run.lock:
            governor = self._begin()
            if governor.loads_alone:
                self._estimate.calibrate(peak, nbytes)
            self._unsound = False

    def shortage(self, shortage: Shortage, lease: Lease | None) -> Failure:
        """The failure that ends the epoch for want of memory."""
        if lease is None:
            return Failure("reader", shortage.error(), "shortage")
        ticket = lease.ticket
        gone = shortage.start - ticket.start  # samples of it that are loaded already
        key = ticket.keys[gone] if 0 <= gone < len(ticket.keys) else ticket.keys[0]
        return Failure(getattr(lease.worker, "id", 0), shortage.error(key), "shortage", index=key)

    def exhausted(self, failure: Failure, ticket: Ticket) -> MemoryBudgetError:
        """The error for a ticket whose memory the system refused however little was asked for."""
        state = self._governor.statistics()
        place = 0 if failure.offset is None else failure.offset
        error = MemoryBudgetError.refused(
            index=ticket.keys[place] if place < len(ticket.keys) else None,
            samples=len(ticket.keys),
            during=failure.during,
            refusal=failure.describe(),
            needed=self._estimate.need(1),
            budget=state.room,
            limit=state.limit,
            used=state.used,
            held=state.held,
            source=state.source,
        )
        error.__cause__ = failure.cause
        return error

    # After loading

    def weigh(self, loaded: Loaded) -> Weight:
        """Find out what a batch takes; not under the lock, since it looks into the user's objects."""
        nbytes = size_of(loaded.raw)
        if nbytes < _WORTH_TRACKING:
            # Small, not asked about, and no larger than others: nobody wants to know.
            known = nbytes <= self._known_bytes and not self._governor.under_way
            return UNWEIGHED if known else Weight(nbytes, nbytes)
        owners = owners_of(loaded.raw)
        if loaded.samples is None:
            return Weight(nbytes, nbytes, owners)
        theirs = {id(owner) for owner, _ in owners_of(loaded.samples)}
        new = sum(size for owner, size in owners if id(owner) not in theirs)
        return Weight(nbytes, size_of(loaded.samples) + new, owners)

    def finished(self, ticket: Ticket, weight: Weight) -> None:
        """Note that a ticket is loaded. Under the lock, before the ledger knows."""
        if not self._governor.under_way and weight.nbytes <= self._known_bytes:
            return
        governor = self._begin()
        booked = governor.finished(ticket.start, weight.nbytes, self._clock(), peak=weight.peak)
        if not booked and weight.nbytes > self._known_bytes:
            self._known_bytes = weight.nbytes
            governor.saw(len(ticket.keys), weight.nbytes)
            self._free_pieces = 0  # it may be too large to be free
        self._unsound = False

    def withdrawn(self, ticket: Ticket) -> None:
        """Note that a ticket is not being loaded any more. Under the lock."""
        self._begin().withdrawn(ticket.start, self._clock())
        self._unsound = False

    def refused(self, ticket: Ticket) -> None:
        """Note that the system refused memory for a ticket. Under the lock."""
        self._free_pieces = 0
        self._begin().refused(ticket.start, self._clock())
        self._unsound = False

    # The consumer

    def starved(self, run: EpochRun) -> None:
        """Note that the consumer waits. Under the lock."""
        if not self._governor.under_way:
            return
        head = run.ledger.awaited
        if head is not None:
            self._begin().starved(head)
            self._unsound = False
            self._holdings.ring()

    def delivered(self, ready: Ready) -> None:
        """Note that the consumer has a batch. Under the lock."""
        weight = ready.weight
        if not (self._governor.under_way or weight.owners):
            return
        start = ready.ticket.start
        governor = self._begin()
        governor.delivered(start, weight.nbytes if weight.owners else 0)
        if weight.owners:
            self._holdings.add(start, weight.owners)
        else:  # what becomes of it cannot be seen
            governor.released(start, sys.maxsize, self._clock())
        self._unsound = False
        self._holdings.ring()

    # All the time

    def look(self, run: EpochRun) -> None:
        """Take a reading if the last one is too old, and give up what has to be; idle threads do this."""
        if self._clock() - self._looked_at >= self.patience:
            self._consult(run, None, lambda now: _GO_ON)

    def wait(self, seconds: float) -> None:
        """Wait for memory to become free, at most so long."""
        self._holdings.wait(seconds)

    def close(self, threads: int) -> None:
        """Let go of everything and wake who waits; safe from finalisers."""
        pool.resume(self)
        self._holdings.close(threads)

    def statistics(self) -> MemoryStatistics:
        """A snapshot."""
        return replace(self._governor.statistics(), events=tuple(self._events))

    # Inside

    def _consult(
        self, run: EpochRun, lease: Lease | None, question: Callable[[float], Decision]
    ) -> Decision | None:
        """Ask the governor, with a fresh reading, and do what it says on the way; None for a void lease."""
        now = self._clock()
        reading = self._source.read()
        with run.lock:
            if run.closed or (lease is not None and not run.ledger.holds(lease)):
                return None
            governor = self._begin()
            for gone in self._holdings.collect():
                governor.released(gone.start, gone.nbytes, now)
            seen = self._observe(reading, now)
            decision = question(now)
            self._unsound = False
            dropped = self._revoke(run, (*seen.revoke, *decision.revoke))
            if decision.relief and decision.action is Action.WAIT and self._rereadable:
                dropped += self._revoke(run, run.ledger.spare())
        dropped.clear()  # large data end outside of the lock
        if seen.relief or decision.relief:
            relieve()
        self._tell()
        return decision

    def _observe(self, reading: MemoryReading | Busy | None, now: float) -> Decision:
        if reading is BUSY:
            seen = _GO_ON
        else:
            seen = self._governor.observe(reading, now)
            self._looked_at = now
            if reading is not None and reading.used > reading.limit // 2:
                pool.suspend(self)
            else:
                pool.resume(self)
        self.patience = self._governor.patience(now)
        self._free_pieces = 0  # until somebody asks for a piece
        self._free_bytes = self._governor.allowance(now)
        self._free_until = now + min(self._interval, self.patience)
        return seen

    def _begin(self) -> Governor:
        """The governor, until ``_unsound`` is set back: whoever is killed or interrupted before leaves it set.

        Its books cannot be trusted then, and new ones are opened. Pieces that are under way are not in them:
        those that report are given back, the others are measured with all that does not belong to the loader.
        """
        if self._unsound:
            self._governor, self._estimate = self._make_governor(anew=True)
        self._unsound = True
        return self._governor

    def _revoke(self, run: EpochRun, starts: Sequence[int]) -> list[Any]:
        dropped: list[Any] = []
        for start in starts:
            dropped.append(run.ledger.revoke(start))
            run.wake_worker()
        return dropped

    def _tell(self) -> None:
        """Log what has changed, each change once."""
        fresh = self._governor.events
        while fresh:
            try:
                event = fresh.popleft()
            except IndexError:  # another thread took it
                return
            self._events.append(event)
            logger.info("%s", event)
