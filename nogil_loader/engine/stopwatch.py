"""How long a thread takes for what, measured on as many tickets as cost next to nothing.

Guarantees of this file:

* Timing takes at most ``_COST`` of a thread's time: where a ticket is loaded in microseconds, one of many is timed
  and stands for those before it; where it takes milliseconds, each is. While somebody listens all are.
* Counters belong to the thread that writes them. Others read them at any time, and may be off by one ticket.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from math import ceil
from select import select
from time import perf_counter, sleep, thread_time
from typing import TYPE_CHECKING

from nogil_loader.engine import listening
from nogil_loader.engine.outcome import Failure, Loaded, Outcome
from nogil_loader.engine.scope import COMPILE, SampleScope, current_scope
from nogil_loader.memory.weigh import size_of

if TYPE_CHECKING:
    from nogil_loader.engine.ticket import Ticket

# The share of a thread's time that timing may take. A hand-off of tiny batches takes 20 µs, of which this is 0.05.
_COST = 0.0025
# What timing a ticket costs, in seconds: clocks, weighing a small batch and looking for waiting threads; and what
# each change of the stage costs. Measured as 4 µs and 0.2 µs; doubled, since machines differ.
_PER_TICKET = 8e-6
_PER_STAGE = 4e-7
# Batches whose times are kept for percentiles.
_KEPT = 1000
# Giving the GIL away and taking it again takes 0.5 µs if nobody else wants it, and 7 µs if a thread that waits for
# it has to be woken.
_GIL_WANTED = 3e-6
# The cheapest call that gives the GIL away. Windows refuses to select from nothing, but its sleep(0) is short.
_give_way: Callable[[], object] = partial(select, (), (), (), 0) if os.name == "posix" else partial(sleep, 0)


class TimedScope(SampleScope):
    """A scope that knows how long it was in each stage."""

    __slots__ = ("_stage", "_worker", "changes", "seconds", "since")

    def __init__(self, plain: SampleScope, worker: int | str) -> None:
        self._stage = ""
        self._worker = worker
        self.changes = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.since = perf_counter()
        super().__init__(plain.seed, plain.epoch, plain.owner)

    @property
    def stage(self) -> str:
        """What is being done."""
        return self._stage

    @stage.setter
    def stage(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[self._stage] += now - self.since
        self.since = now
        self._stage = stage
        self.changes += 1
        for listener in listening.listeners:
            listener.enter(self._worker, stage, now)

    def begin(self) -> float:
        """Count from here on, and return the time."""
        self.seconds.clear()
        self.changes = 0
        self.since = now = perf_counter()
        return now


class Stopwatch:
    """Times what one thread loads in one epoch.

    Args:
        worker: The thread's id.
        mark: Told the time after each ticket that was timed.

    Attributes:
        tickets: Loaded so far, timed or not; whoever loads one counts it here, and times it if it is due.
        due: The number of the next ticket to time, counted from 1.
        seconds: By stage, extrapolated to all tickets.
        apart: What was spent outside of tickets: on start-up, and waiting for memory.
        wall: Of loading, the same.
        cpu: Seconds of the processor that loading took, the same.
        samples: Loaded, the same.
        nbytes: Of loaded batches, the same.
        latest: Seconds that the latest timed tickets took.
        asked: How often it was looked whether others wait for the GIL.
        wanted: How often they did.
    """

    def __init__(self, worker: int | str, mark: Callable[[float], object]) -> None:
        self.worker = worker
        self._mark = mark
        self.tickets = 0
        self.due = 1
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.apart: defaultdict[str, float] = defaultdict(float)
        self.wall = 0.0
        self.cpu = 0.0
        self.samples = 0.0
        self.nbytes = 0.0
        self.latest: deque[float] = deque(maxlen=_KEPT)
        self.asked = 0
        self.wanted = 0
        self._represented = 0
        self._born = perf_counter()
        self._ended: float | None = None
        self._scope: TimedScope | None = None

    def end(self) -> None:
        """Note that the thread loads nothing any more."""
        if self._ended is None:
            self._ended = perf_counter()

    def lifetime(self, now: float) -> float:
        """Seconds from the thread's beginning to its end, or to now."""
        return (now if self._ended is None else min(now, self._ended)) - self._born

    def spend(self, what: str, since: float) -> None:
        """Note what the thread has spent its time on outside of any ticket."""
        now = perf_counter()
        self.apart[what] += now - since
        for listener in listening.listeners:
            listener.span(self.worker, what, since, now)

    def enter(self, stage: str) -> float:
        """Enter a stage outside of any ticket, and return the time."""
        now = perf_counter()
        for listener in listening.listeners:
            listener.enter(self.worker, stage, now)
        return now

    def leave(self, stage: str, since: float) -> None:
        """Add up a stage that was entered."""
        now = perf_counter()
        self.seconds[stage] += now - since
        for listener in listening.listeners:
            listener.enter(self.worker, "", now)

    def scope(self, plain: SampleScope) -> TimedScope:
        """The scope for timed tickets, which is as ``plain`` otherwise."""
        if self._scope is None:
            self._scope = TimedScope(plain, self.worker)
        return self._scope

    def time(self, ticket: Ticket, scope: TimedScope, attempt: Callable[[], Outcome]) -> Outcome:
        """Load a ticket by ``attempt`` in ``scope``, and add up what it took."""
        token = current_scope.set(scope)
        began = scope.begin()
        for listener in listening.listeners:
            listener.begin(self.worker, ticket, began)
        cpu = thread_time()
        outcome = attempt()
        cpu = thread_time() - cpu
        scope.stage = ""  # adds up the last one
        ended = scope.since
        loaded = type(outcome) is Loaded
        nbytes = size_of(outcome.raw) if isinstance(outcome, Loaded) else 0
        weight = self.tickets - self._represented
        self._represented = self.tickets
        for stage, seconds in scope.seconds.items():
            self.seconds[stage] += weight * seconds
        wall = ended - began - scope.seconds.get(COMPILE, 0.0)
        self.wall += weight * wall
        self.cpu += weight * min(cpu, wall)
        if loaded:
            self.samples += weight * len(ticket.keys)
            self.nbytes += weight * nbytes
            self.latest.append(wall)
        asked = perf_counter()
        _give_way()
        self.asked += 1
        self.wanted += perf_counter() - asked > _GIL_WANTED
        for listener in listening.listeners:
            word = "loaded" if loaded else "failed" if type(outcome) is Failure else "given back"
            listener.end(self.worker, ticket, nbytes, word, ended)
        current_scope.reset(token)
        self._mark(ended)
        cost = _PER_TICKET + _PER_STAGE * scope.changes
        idle = 1 if listening.listeners else ceil(cost / max(_COST * wall, 1e-9))
        self.due = self.tickets + max(1, idle)
        return outcome

    def under_way(self, now: float) -> dict[str, float]:
        """Seconds by stage of a timed ticket that is being loaded; empty between tickets."""
        scope = self._scope
        if scope is None or not (stage := scope.stage):
            return {}
        seconds = dict(scope.seconds)
        seconds[stage] = seconds.get(stage, 0.0) + max(0.0, now - scope.since)
        return seconds
