"""A governor that several threads may ask: one round is a reading, a question, and what follows at once.

Guarantees of this file:

* The governor is only called under the run's lock, together with the ledger's transition that belongs to it.
  Readings, garbage collection and the end of large data stay outside.
* A call that is broken off, by an exception from outside, leaves nothing wrong behind: the books of the governor
  cannot be trusted then, so new ones are opened.
* Every change of what may be loaded is logged once.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nogil_loader.engine import listening
from nogil_loader.engine.free import FreePieces
from nogil_loader.engine.holdings import Holdings
from nogil_loader.engine.ticket import Lease
from nogil_loader.memory.decision import Action, Decision, Event, MemoryStatistics
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.governor import Governor
from nogil_loader.memory.pool import pool
from nogil_loader.memory.reading import BUSY, Busy, MemoryReading
from nogil_loader.memory.relief import relieve
from nogil_loader.memory.source import ReadingSource

if TYPE_CHECKING:
    from nogil_loader.engine.run import EpochRun

logger = logging.getLogger("nogil_loader")

# Events kept for `MemoryStatistics`.
_EVENTS = 1000
_GO_ON = Decision(Action.GO_ON)

# Epochs that are loaded at the same time in one process, as for training and for validation, take from the same
# memory: what the others have promised counts as used, and no two of them promise at once.
_live: dict[int, weakref.ref[Counsel]] = {}
_one_process = threading.RLock()


class Counsel:
    """A governor with all that it needs to be asked.

    Args:
        make_governor: Makes who decides, and its estimate; with ``anew=True`` after a call that was broken off.
        source: Where readings come from.
        free: Told of each reading.
        rereadable: Whether batches that were dropped can be loaded again.
        clock: Seconds from any start, never going back.

    Attributes:
        governor: Who decides. To be called within ``books`` or ``consult`` only, but for questions that change
            nothing.
        estimate: The governor's own.
        holdings: What the consumer has.
        loaded: Bytes of all batches that were loaded and not given up.
        patience: Seconds, at most half of one, that an idle thread may sleep before it should ``look``.
    """

    def __init__(
        self,
        make_governor: Callable[..., tuple[Governor, Estimate]],
        source: ReadingSource,
        free: FreePieces,
        *,
        rereadable: bool,
        clock: Callable[[], float],
    ) -> None:
        self.governor, self.estimate = make_governor(anew=False)
        self.holdings = Holdings()
        self.patience = self.governor.patience(clock())
        self._make_governor = make_governor
        self._source = source
        self._free = free
        self._rereadable = rereadable
        self._clock = clock
        self.loaded = 0
        self._unsound = False
        self._size: tuple[int, int] | None = None
        self._looked_at = -1.0
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._tight = self._closed = False
        # Before anybody can ask: a thread that finds another one reading must not take that for "no limit".
        first = source.read()
        self._observe(self.governor, source.latest if first is BUSY else first, clock())
        _live[id(self)] = weakref.ref(self)

    @contextmanager
    def books(self) -> Iterator[Governor]:
        """The governor, for as long as the caller holds the lock.

        Pieces under way are not in books that were opened anew: those that report are given back, the others are
        measured together with what does not belong to the loader.
        """
        if self._unsound:
            self.governor, self.estimate = self._make_governor(anew=True)
            if self._size is not None:
                self.governor.resize(*self._size)
        self._unsound = True
        yield self.governor
        self._unsound = False  # not in a finally clause: an exception is what makes them unsound

    def consult(
        self, run: EpochRun, lease: Lease | None, question: Callable[[float], Decision]
    ) -> Decision | None:
        """Ask the governor, with a fresh reading, and do what it says on the way; None for a void lease."""
        if self._tight:
            pool.trim()
        now = self._clock()
        reading = self._source.read()
        dropped: list[Any] = []
        with run.lock, _one_process:
            if run.closed or (lease is not None and not run.ledger.holds(lease)):
                return None
            with self.books() as governor:
                for gone in self.holdings.collect():
                    governor.released(gone.start, gone.nbytes, now)
                seen = self._observe(governor, reading, now)
                decision = question(now)
            self._revoke(run, (*seen.revoke, *decision.revoke), dropped)
            if decision.relief and decision.action is Action.WAIT and self._rereadable:
                self._revoke(run, run.ledger.spare(), dropped)
        dropped.clear()  # large data end outside of the lock
        if decision.action is Action.WAIT:
            pool.trim()
        if seen.relief or decision.relief:
            relieve()
        self._tell()
        return decision

    def resize(self, workers: int, capacity: int) -> None:
        """Let so many threads load from here on, and so many pieces be in flight; under the run's lock."""
        self._size = workers, capacity
        with self.books() as governor:
            governor.resize(workers, capacity)
        self._free.resize(capacity)

    def look(self, run: EpochRun) -> None:
        """Take a reading if the last one is too old, and give up what has to be."""
        if self._clock() - self._looked_at >= self.patience:
            self.consult(run, None, lambda now: _GO_ON)

    def reading(self) -> MemoryReading | None:
        """Limit and use now, or what was last known of them."""
        reading = self._source.read()
        return reading if isinstance(reading, MemoryReading) else self._source.latest

    def close(self) -> None:
        """Wake who waits, and take no part any more; safe from finalisers."""
        pool.resume(self)
        self.holdings.close()
        self._closed = True
        _live.pop(id(self), None)

    def statistics(self) -> MemoryStatistics:
        """A snapshot; what is used is what the latest reading said."""
        known, latest = self.governor.statistics(), self._source.latest
        used = known.used if latest is None else latest.used
        held = max(0, known.held - self.holdings.let_go)
        if self._closed:  # nothing is under way any more
            known = replace(known, promised=0, loading=0, ready=0, in_flight=0)
        return replace(known, used=used, held=held, events=tuple(self._events))

    def _observe(self, governor: Governor, reading: MemoryReading | Busy | None, now: float) -> Decision:
        if reading is BUSY:
            self.patience = governor.patience(now)
            return _GO_ON
        elsewhere = self._promised_elsewhere() if len(_live) > 1 else 0
        if reading is not None and elsewhere:
            reading = replace(
                reading, used=reading.used + elsewhere, headroom=max(0, reading.headroom - elsewhere)
            )
        seen = governor.observe(reading, now, pool.idle_bytes)
        self._looked_at = now
        self.patience = governor.patience(now)
        self._free.refill(now, governor.allowance(now), self.patience)
        # Idle blocks count as used. They are no worry while half of the memory is free.
        self._tight = reading is not None and reading.used > reading.limit // 2
        if self._tight:
            pool.suspend(self)
        else:
            pool.resume(self)
        return seen

    def _promised_elsewhere(self) -> int:
        others = [other for other in (reference() for reference in list(_live.values())) if other is not None]
        return sum(
            other.governor.promised
            for other in others
            if other is not self and other._source.scope == self._source.scope
        )

    def _revoke(self, run: EpochRun, starts: Sequence[int], dropped: list[Any]) -> None:
        for start in starts:
            ready = run.ledger.revoke(start)
            if ready is not None:
                self.loaded -= ready.weight.nbytes
            dropped.append(ready)
            run.wake_worker()

    def _tell(self) -> None:
        fresh = self.governor.events
        while fresh:
            try:
                event = fresh.popleft()
            except IndexError:  # another thread took it
                return
            self._events.append(event)
            logger.info("memory: %s", event)
            listening.tell("memory", change=str(event), used=event.used, limit=event.limit)
