"""What the threads of one epoch ask for: may this be loaded, may this go on, and what came of it.

Guarantees of this file:

* While memory is plentiful a ticket costs two comparisons here: see `FreePieces`.
* Whoever has to wait gives its ticket back first, so that what the consumer needs is never in the hands of
  somebody who sleeps. The waiting is the caller's part, which knows what it may hold on to meanwhile.
* Nothing is called under the lock that could run user code: hints are asked for, and batches weighed, outside.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nogil_loader.engine.counsel import Counsel
from nogil_loader.engine.free import FreePieces
from nogil_loader.engine.outcome import UNWEIGHED, Failure, Loaded, Weight
from nogil_loader.engine.ticket import Lease, Ready, Ticket
from nogil_loader.engine.watch import Watch
from nogil_loader.errors import MemoryBudgetError
from nogil_loader.memory.decision import Action, Decision, MemoryStatistics, Shortage
from nogil_loader.memory.estimate import Estimate, Hints
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.peak import PeakMeter
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.source import ReadingSource
from nogil_loader.memory.weigh import owners_of, size_of
from nogil_loader.policies import MemoryPolicy

if TYPE_CHECKING:
    from nogil_loader.engine.run import EpochRun

# Who holds a batch is not noted below this size: it would cost more than the batch.
_WORTH_TRACKING = 64 << 10
# Who has waited asks again by itself; without any pause it would wait for a ticket instead, in seconds.
_SHORTEST_PAUSE = 0.001
_FREE = Decision(Action.ADMIT)


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
        self._free = FreePieces(capacity, policy.interval, clock)
        self._counsel = Counsel(make_governor, source, self._free, rereadable=rereadable, clock=clock)
        self._source = source
        self._warn = warn
        self._clock = clock
        self._meter = PeakMeter()
        self._known_bytes = -1  # of the largest free batch
        self._consumer_waits = False

    # Before loading

    def ask(self, run: EpochRun, lease: Lease, hints: Hints) -> Permit:
        """Whether a ticket may be loaded now. If not, it was given back, and there may be a time to wait."""
        ticket = lease.ticket
        if ticket.samples is not None:
            return _ALL  # whoever has read them has asked
        count = len(ticket.keys)
        if self._free.take(count):
            return _ALL
        said = hints.of(ticket.keys)
        if hints.ignored is not None:
            self._warn(hints.ignored)
        decision = self._counsel.consult(run, lease, lambda now: self._admit(run, ticket, said, now))
        if decision is None:
            return _NONE
        if decision.action is Action.ADMIT:
            return _ALL if decision is _FREE else Permit(count, watch=self._watch(run, ticket.start, lease))
        if decision.action is Action.PRESPLIT:
            run.split(lease, decision.samples)
        elif decision.action is Action.WAIT:
            run.release(lease, quietly=True)
            return Permit(0, max(decision.after, _SHORTEST_PAUSE))
        elif decision.shortage is not None:
            run.fail(lease, self.shortage(decision.shortage, lease), final=True)
        return _NONE

    def ask_to_read(self, run: EpochRun, start: int, count: int) -> Permit:
        """How many of the next ``count`` samples of an iterable may be read."""
        if self._free.take(count):
            return Permit(count)
        decision = self._counsel.consult(run, None, lambda now: self._admit_reading(start, count, now))
        if decision is None:
            return _NONE
        if decision.action is Action.PRESPLIT:
            return self.ask_to_read(run, start, decision.samples)
        if decision.action is Action.ADMIT:
            return Permit(count, watch=None if decision is _FREE else self._watch(run, start, None))
        failure = None if decision.shortage is None else self.shortage(decision.shortage, None)
        return Permit(0, decision.after, failure=failure)

    def _admit(self, run: EpochRun, ticket: Ticket, said: Sequence[int] | None, now: float) -> Decision:
        count = len(ticket.keys)
        alone = ticket.memory_retries > 0
        if self._consumer_waits and ticket.start == run.ledger.awaited:
            self._counsel.governor.starved(
                ticket.start
            )  # it may not have been on the book when the waiting began
        if not alone and self._sets_free(count, said):
            return _FREE
        return self._counsel.governor.admit(ticket.start, count, now, said, alone=alone)

    def _admit_reading(self, start: int, count: int, now: float) -> Decision:
        return _FREE if self._sets_free(count, None) else self._counsel.governor.admit(start, count, now)

    def _sets_free(self, count: int, said: Sequence[int] | None) -> bool:
        bound = self._counsel.governor.bound(count, said)
        return self._free.grant(count, bound, like_others=said is None, limited=not self._source.is_host)

    def _watch(self, run: EpochRun, start: int, lease: Lease | None) -> Watch:
        counsel = self._counsel
        measured = counsel.governor.loads_alone and counsel.estimate.wants_calibration
        # Starting the meter sets back the peak that the system shows for the process: only where there is a limit.
        meter = self._meter if measured and not self._source.is_host else None
        return Watch(self, run, start, lease, meter=meter, known=counsel.estimate.knows_sizes)

    # While loading

    def progress(
        self, run: EpochRun, start: int, lease: Lease | None, sizes: Sequence[int]
    ) -> Decision | None:
        """Report samples; None when the lease is void."""
        return self._counsel.consult(
            run, lease, lambda now: self._counsel.governor.progress(start, sizes, now)
        )

    def read(self, run: EpochRun, start: int, count: int) -> None:
        """Note how many samples a reader has read of what it was permitted to."""
        with run.lock, self._counsel.books() as governor:
            if count:
                governor.shorten(start, count)
            else:
                governor.withdrawn(start, self._clock())

    @property
    def changes(self) -> int:
        """Changes whenever another piece begins or ends, or the consumer lets go of something."""
        return self._counsel.governor.changes

    def calibrate(self, run: EpochRun, peak: int, nbytes: int, changes: int) -> None:
        """Report what loading one sample took at most.

        Args:
            run: The epoch.
            peak: Bytes by which memory rose meanwhile. Less than the sample shows that something else fell.
            nbytes: Bytes of the sample.
            changes: As ``changes`` was before; if it is another now, the peak may be somebody else's.
        """
        with run.lock, self._counsel.books() as governor:
            if governor.changes == changes and peak >= nbytes:
                self._counsel.estimate.calibrate(peak, nbytes)

    def size_up(self, run: EpochRun, start: int, nbytes: int) -> None:
        """Note what one sample takes that was loaded only to know it; its piece is to be asked for anew."""
        with run.lock, self._counsel.books() as governor:
            governor.saw(1, nbytes)
            governor.withdrawn(start, self._clock())

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
        state = self._counsel.statistics()
        place = 0 if failure.offset is None else failure.offset
        error = MemoryBudgetError.refused(
            index=ticket.keys[place] if place < len(ticket.keys) else None,
            samples=len(ticket.keys),
            during=failure.during,
            refusal=failure.describe(),
            needed=self._counsel.estimate.need(1),
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
        self._counsel.loaded += nbytes
        if nbytes < _WORTH_TRACKING:
            # Small, not asked about, and no larger than others: nobody wants to know.
            known = nbytes <= self._known_bytes and not self._counsel.governor.under_way
            return UNWEIGHED if known else Weight(nbytes, nbytes)
        owners = owners_of(loaded.raw)
        if loaded.samples is None:
            return Weight(nbytes, nbytes, owners)
        theirs = {id(owner) for owner, _ in owners_of(loaded.samples)}
        new = sum(size for owner, size in owners if id(owner) not in theirs)
        return Weight(nbytes, size_of(loaded.samples) + new, owners)

    def finished(self, ticket: Ticket, weight: Weight) -> None:
        """Note that a ticket is loaded. Under the lock, before the ledger knows."""
        if not self._counsel.governor.under_way and weight.nbytes <= self._known_bytes:
            return
        with self._counsel.books() as governor:
            booked = governor.finished(ticket.start, weight.nbytes, self._clock(), peak=weight.peak)
            if not booked and weight.nbytes > self._known_bytes:
                self._known_bytes = weight.nbytes
                governor.saw(len(ticket.keys), weight.nbytes)
                self._free.stop()  # its kind may be too large to be free

    def withdrawn(self, ticket: Ticket) -> None:
        """Note that a ticket is not being loaded any more. Under the lock."""
        with self._counsel.books() as governor:
            governor.withdrawn(ticket.start, self._clock())

    def refused(self, ticket: Ticket) -> None:
        """Note that the system refused memory for a ticket. Under the lock."""
        self._free.stop()
        with self._counsel.books() as governor:
            governor.refused(ticket.start, self._clock())

    # The consumer

    def starved(self, run: EpochRun) -> None:
        """Note that the consumer waits. Under the lock."""
        self._consumer_waits = True
        if not self._counsel.governor.under_way:
            return
        head = run.ledger.awaited
        if head is not None:
            with self._counsel.books() as governor:
                governor.starved(head)
            self._counsel.holdings.ring()

    def delivered(self, ready: Ready) -> None:
        """Note that the consumer has a batch. Under the lock."""
        self._consumer_waits = False
        weight, counsel = ready.weight, self._counsel
        if not (counsel.governor.under_way or weight.owners):
            return
        start = ready.ticket.start
        with counsel.books() as governor:
            governor.delivered(start, weight.nbytes if weight.owners else 0)
            if weight.owners:
                counsel.holdings.add(start, weight.owners)
            else:  # what becomes of it cannot be seen
                governor.released(start, sys.maxsize, self._clock())
        counsel.holdings.ring()

    # All the time

    def resize(self, workers: int, capacity: int) -> None:
        """Let so many threads load from here on, and so many pieces be in flight. Under the lock."""
        self._counsel.resize(workers, capacity)

    @property
    def is_slowed(self) -> bool:
        """Whether less may be in flight than there could be."""
        return self._counsel.governor.is_slowed

    @property
    def held_back(self) -> int:
        """How often memory held a piece up so far."""
        return self._counsel.governor.held_back

    @property
    def patience(self) -> float:
        """Seconds that an idle thread may sleep before it should ``look``."""
        return self._counsel.patience

    def look(self, run: EpochRun) -> None:
        """Take a reading if the last one is too old, and give up what has to be; idle threads do this."""
        self._counsel.look(run)

    def wait(self, seconds: float) -> None:
        """Wait for memory to become free, at most so long."""
        self._counsel.holdings.wait(seconds)

    def nudge(self) -> None:
        """Let one of those who wait for memory look again."""
        self._counsel.holdings.ring()

    def close(self) -> None:
        """Wake who waits, and take no part any more; safe from finalisers."""
        self._counsel.close()

    def reading(self) -> MemoryReading | None:
        """Limit and use now, or what was last known of them."""
        return self._counsel.reading()

    @property
    def loaded(self) -> int:
        """Bytes of all batches that were loaded and not given up."""
        return self._counsel.loaded

    def statistics(self) -> MemoryStatistics:
        """A snapshot."""
        return self._counsel.statistics()
