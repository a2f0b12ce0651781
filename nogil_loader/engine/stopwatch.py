"""How long a thread takes for what.

Guarantees of this file:

* Every ticket's time counts: two looks at the clock. What it consists of is looked at closely where that costs at
  most ``_COST`` of the thread's time. Where tickets take milliseconds that is each of them; where they take
  microseconds, one every few milliseconds, and those after it are taken to consist of the same. While somebody
  listens, all are looked at closely.
* What a ticket takes beyond all expectation, without having been looked at, counts as fetching: it is there that
  the caller's code runs.
* Sums never fall. Counters belong to the thread that writes them; others may read them at any time.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from select import select
from time import perf_counter, sleep, thread_time
from typing import TYPE_CHECKING, NamedTuple

from nogil_loader.engine import listening
from nogil_loader.engine.outcome import Failure, Loaded, Outcome
from nogil_loader.engine.scope import COMPILE, FETCH, MEMORY, SampleScope, current_scope
from nogil_loader.memory.weigh import size_of

if TYPE_CHECKING:
    from nogil_loader.engine.ticket import Ticket

# The share of a thread's time that looking closely may take.
_COST = 0.0015
# What looking at a ticket closely costs, in seconds: clocks, weighing a small batch and looking for waiting
# threads; and what each change of the stage costs. Measured as 10 µs and 0.2 µs; doubled, since machines differ.
_PER_TICKET = 2e-5
_PER_STAGE = 4e-7
# A ticket is beyond expectation from so many times what the last one took that was looked at, and from so many
# seconds: below that the system's own scheduling shows.
_SLOW = 2.0
_SLOW_SECONDS = 2e-4
# Batches whose times are kept for percentiles.
_KEPT = 1000
# How often a thread is looked at that goes on meanwhile. One look takes less than any ticket.
_LOOKS = 5
# Giving the GIL away and taking it again takes 0.5 µs if nobody else wants it, and 7 µs if a thread that waits for
# it has to be woken.
_GIL_WANTED = 3e-6
# The cheapest call that gives the GIL away. Windows refuses to select from nothing, but its sleep(0) is short.
_give_way: Callable[[], object] = partial(select, (), (), (), 0) if os.name == "posix" else partial(sleep, 0)


class _Book(NamedTuple):
    """What is known of where a thread's time went; replaced as a whole, so that nobody reads half of a change.

    Attributes:
        known: Seconds by stage.
        wall: Of how much of the time that is.
        shares: What the rest is taken to consist of.
    """

    known: dict[str, float]
    wall: float
    shares: dict[str, float]

    def extended(self, wall: float) -> defaultdict[str, float]:
        """Seconds by stage if ``wall`` is all there is."""
        found = defaultdict(float, self.known)
        rest = max(0.0, wall - self.wall)
        for stage, share in self.shares.items():
            found[stage] += rest * share
        return found


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
        self.seconds[self._stage or FETCH] += now - self.since
        self.since = now
        self._stage = stage
        self.changes += 1
        for listener in listening.listeners:
            listener.enter(self._worker, stage, now)

    def begin(self, now: float) -> None:
        """Count from here on."""
        self.seconds.clear()
        self.changes = 0
        self.since = now


class Stopwatch:
    """Times what one thread loads in one epoch.

    Whoever loads a ticket writes ``began`` before it. If that is before ``due``, it adds to ``wall``, writes
    ``ended``, counts the ticket and calls ``note_slow`` if it took longer than ``slow``; else it lets ``time`` do
    all that.

    Args:
        worker: The thread's id.
        mark: Told the time after each ticket that was looked at.

    Attributes:
        began: When the latest ticket began.
        ended: When the latest ticket ended; earlier than ``began`` while it is loaded.
        due: When the next ticket is to be looked at closely.
        slow: Seconds from which on a ticket is beyond expectation.
        wall: Seconds that all tickets took.
        tickets: Loaded so far.
        cpu: Seconds of the processor that loading took, extrapolated.
        samples: Loaded, extrapolated.
        nbytes: Of loaded batches, extrapolated.
        asked: How often it was looked whether others wait for the GIL.
        wanted: How often they did.
    """

    def __init__(self, worker: int | str, mark: Callable[[float], object] = lambda now: None) -> None:
        self.worker = worker
        self.began = self.ended = 0.0
        self.due = self.slow = 0.0
        self.wall = 0.0
        self.tickets = 0
        self.cpu = self.samples = self.nbytes = 0.0
        self._cpu_began = 0.0
        self.asked = self.wanted = 0
        self._mark = mark
        self._born = perf_counter()
        self._died: float | None = None
        self._scope: TimedScope | None = None
        self._book = _Book({}, 0.0, {FETCH: 1.0})
        self._apart: defaultdict[str, float] = defaultdict(float)
        self._represented = 0
        self._usual = 0.0
        self._latest: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    # The thread's side

    def scope(self, plain: SampleScope) -> TimedScope:
        """The scope for tickets that are looked at, which is as ``plain`` otherwise."""
        if self._scope is None:
            self._scope = TimedScope(plain, self.worker)
        return self._scope

    def time(self, ticket: Ticket, scope: TimedScope, attempt: Callable[[], Outcome]) -> Outcome:
        """Load a ticket by ``attempt`` in ``scope``, looking at it closely."""
        token = current_scope.set(scope)
        began = self.began
        scope.begin(began)
        for listener in listening.listeners:
            listener.begin(self.worker, ticket, began)
        cpu = thread_time()
        outcome = attempt()
        cpu = thread_time() - cpu
        scope.stage = ""  # adds up the last one
        ended = scope.since
        usual = self._learn(scope, ended - began)
        self.tickets += 1
        weight, self._represented = self.tickets - self._represented, self.tickets
        self.cpu += weight * cpu
        nbytes = 0
        if isinstance(outcome, Loaded):
            nbytes = size_of(outcome.raw)
            self.samples += weight * len(ticket.keys)
            self.nbytes += weight * nbytes
        self._look_for_waiters()
        for listener in listening.listeners:
            word = "loaded" if nbytes or type(outcome) is Loaded else "given back"
            listener.end(self.worker, ticket, nbytes, "failed" if type(outcome) is Failure else word, ended)
        current_scope.reset(token)
        self._mark(ended)
        if type(outcome) is Loaded:
            self._plan_next(scope, usual, weight)
        else:  # it says nothing about batches
            self.due = 0.0
        return outcome

    def _learn(self, scope: TimedScope, seconds: float) -> float:
        """Add up what a ticket consists of, after those since the last one that was looked at.

        Returns:
            Seconds of it without compiling and without waiting for memory.
        """
        known = self._book.extended(self.wall)
        for stage, value in scope.seconds.items():
            known[stage] += value
        usual = {stage: value for stage, value in scope.seconds.items() if stage not in (COMPILE, MEMORY)}
        whole = sum(usual.values())
        shares = {stage: value / whole for stage, value in usual.items()} if whole > 0 else {FETCH: 1.0}
        wall, ended = self.wall + seconds, scope.since
        book = _Book(known, wall, shares)
        # Without a call in between, so that no other thread runs in the middle of it.
        self.wall = wall
        self._book = book
        self.ended = ended
        return whole

    def _plan_next(self, scope: TimedScope, usual: float, weight: int) -> None:
        self._latest.append((usual, weight))
        self._usual = usual
        self.slow = max(_SLOW * usual, _SLOW_SECONDS)
        cost = _PER_TICKET + _PER_STAGE * scope.changes
        self.due = 0.0 if listening.listeners else self.began + cost / _COST

    def _look_for_waiters(self) -> None:
        _give_way()  # after a sleep the first call of anything takes long
        asked = perf_counter()
        _give_way()
        self.asked += 1
        self.wanted += perf_counter() - asked > _GIL_WANTED

    def note_slow(self, seconds: float) -> None:
        """Note that a ticket took ``seconds``, beyond expectation, when nobody looked."""
        self._latest.append((seconds, 1))
        self._represented += 1
        excess = seconds - self._usual
        known, wall, shares = self._book
        self._book = _Book({**known, FETCH: known.get(FETCH, 0.0) + excess}, wall + excess, shares)

    def spend(self, what: str, since: float) -> None:
        """Note what the thread has spent its time on outside of any ticket."""
        now = perf_counter()
        self._apart[what] += now - since
        for listener in listening.listeners:
            listener.span(self.worker, what, since, now)

    def enter(self, stage: str) -> None:
        """Begin something that is all one stage, and no ticket."""
        self._cpu_began = thread_time()
        self.began = perf_counter()
        self._book = self._book._replace(shares={stage: 1.0})
        for listener in listening.listeners:
            listener.enter(self.worker, stage, self.began)

    def leave(self) -> None:
        """End what ``enter`` began."""
        ended = perf_counter()
        self.wall += ended - self.began
        self.ended = ended
        self.cpu += thread_time() - self._cpu_began
        for listener in listening.listeners:
            listener.enter(self.worker, "", ended)

    def end(self) -> None:
        """Note that the thread loads nothing any more, or that what it loads counts no more."""
        if self._died is None:
            self._died = perf_counter()

    # Other threads' side

    def lifetime(self, now: float) -> float:
        """Seconds from the thread's beginning to its end, or to now."""
        return self._until(now) - self._born

    def seconds(self, now: float) -> dict[str, float]:
        """Seconds by stage, and by what was spent outside of tickets, the present ticket included."""
        now = self._until(now)
        for _ in range(_LOOKS):
            wall, began, book = self.wall, self.began, self._book
            under_way = list(self._under_way(now))
            if wall == self.wall and began == self.began:
                break
        found = book.extended(wall)
        for stage, value in [*list(self._apart.items()), *under_way]:
            found[stage] += value
        return found

    def busy(self, now: float) -> float:
        """Seconds that tickets took, the present one included."""
        elapsed = self._until(now) - self.began if self.began > self.ended else 0.0
        return self.wall + max(0.0, elapsed)

    def latest(self) -> list[tuple[float, int]]:
        """What the latest tickets took, in seconds, and for how many each of them stands."""
        latest, pending = list(self._latest), self.tickets - self._represented
        # Those since the last one that was looked at are taken to be as long as that.
        return [*latest, (self._usual, pending)] if latest and pending > 0 else latest

    def _until(self, now: float) -> float:
        return now if self._died is None else min(now, self._died)

    def _under_way(self, now: float) -> Iterator[tuple[str, float]]:
        began, scope = self.began, self._scope
        elapsed = now - began
        if began <= self.ended or elapsed <= 0.0:
            return
        if scope is not None and scope.stage:
            yield from dict(scope.seconds).items()
            yield scope.stage, max(0.0, now - scope.since)
            return
        excess = elapsed - self._usual if 0.0 < self.slow < elapsed else 0.0
        yield FETCH, excess
        for stage, share in self._book.shares.items():
            yield stage, (elapsed - excess) * share
