"""One epoch under way: the ledger behind a lock, and the doorbells of those who wait for it.

The lock is held for a few stores at a time, never while user code or a kernel runs. Waiting is done on
``SimpleQueue`` objects, always with a time limit: unlike conditions and events they may be rung from a
finaliser or a signal handler, even one that interrupts the very thread that holds the lock.

* ``_tickets`` carries one token per planned ticket. A token lost with a killed worker costs ``IDLE_STEP``,
  since waiting workers look at the ledger after every time limit as well.
* ``_news`` wakes the consumer, and only when there is something for it to take.
* ``_room`` wakes the reader of an iterable when a batch was taken.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextvars import Context, copy_context
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nogil_loader.engine import listening
from nogil_loader.engine.ledger import Ledger
from nogil_loader.engine.outcome import UNWEIGHED, Failure, Loaded
from nogil_loader.engine.scope import SampleScope, current_scope
from nogil_loader.engine.ticket import Emptied, Failed, Lease, Ready, Ticket, Verdict
from nogil_loader.engine.timesheet import Timesheet
from nogil_loader.engine.tuning import Setting, capacity_of
from nogil_loader.policies import FailurePolicy

if TYPE_CHECKING:
    from nogil_loader.engine.autotune import Autotune
    from nogil_loader.engine.rations import Rations

# How long the consumer waits before it checks that whoever it waits for is alive. Death without a word is
# noticed within this time.
STEP = 0.05
# How long an idle thread waits before it looks for work that it was not woken for. Such work exists only if
# another thread was killed between planning it and ringing, so this may be long, and idle threads stay quiet.
IDLE_STEP = 0.5


class EpochRun:
    """What the consumer and the workers of one epoch share.

    Args:
        ledger: The epoch's book.
        policy: For deaths that belong to no ticket.
        seed: Of the loader.
        epoch: The epoch's number.
        setting: Threads that load, and how many batches may be ahead.
        rations: Whom threads ask for memory; None if nobody.

    Attributes:
        setting: As it is now.
        capacity: Tickets that may exist at a time.
        lock: Around everything that concerns the ledger, or the ledger and the governor.
        autotune: What changes its size; None for nobody.
        times: Who took how long for what.
    """

    def __init__(
        self,
        ledger: Ledger,
        policy: FailurePolicy,
        *,
        seed: int,
        epoch: int,
        setting: Setting,
        rations: Rations | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.rations = rations
        self.seed = seed
        self.epoch = epoch
        self.setting = setting
        self.capacity = capacity_of(setting)
        self._most_workers = setting.num_workers
        self.pid = os.getpid()
        # Workers, rebuilt ones too, run in copies of what the consumer had set when the epoch began.
        self.context = copy_context()
        # The sample that is being loaded where the consumer is itself user code inside another loader.
        self.outer = current_scope.get()
        self.closed = False
        self.rebuilds = 0
        self.abandoned = 0
        self.autotune: Autotune | None = None
        self.times = Timesheet(epoch, ledger.account)
        self._pace = self.times.pace
        self._ledger = ledger
        self._policy = policy
        self._tickets: SimpleQueue[None] = SimpleQueue()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._consumer_waits = False
        self._reader_waits = False
        self._barren_deaths: Counter[int | str] = Counter()

    # The plan's side

    def plan(self, ticket: Ticket) -> None:
        """Take in a ticket and wake a worker for it."""
        with self.lock:
            self._ledger.plan(ticket)
        self._tickets.put(None)

    def end_plan(self) -> None:
        """Note that nothing more is planned."""
        with self.lock:
            self._ledger.end_plan()
        self._news.put(None)

    def fail_plan(self, start: int, number: int, failure: Failure) -> None:
        """Note that the plan breaks off at position ``start``; what was planned before is delivered first."""
        with self.lock:
            self._ledger.fail_plan(start, number, failure)
        self._news.put(None)

    @property
    def has_room(self) -> bool:
        """Whether another ticket may be planned."""
        return self._ledger.outstanding < self.capacity

    def wait_for_room(self) -> None:
        """Wait up to ``IDLE_STEP`` seconds for the consumer to take a batch."""
        self._reader_waits = True
        if not self.has_room:
            _wait(self._room, IDLE_STEP)
        self._reader_waits = False

    # The workers' side

    def wait_for_ticket(self) -> bool:
        """Wait up to ``IDLE_STEP`` seconds for something to load; False when the time was up."""
        rations = self.rations
        if rations is None:
            return _wait(self._tickets, IDLE_STEP)
        woken = _wait(self._tickets, rations.patience)
        if not woken:
            rations.look(self)
        return woken

    def sit_out(self, seconds: float) -> bool:
        """Wait up to so long for memory to become free; always False, as no ticket came."""
        if self.rations is not None:
            self.rations.wait(seconds)
        return False

    def nudge(self) -> None:
        """Let whoever should have woken by now wake up; called once in a while by a consumer without news.

        CPython's ``SimpleQueue.get`` waits without a limit if another thread takes an item away from it at the
        very end of its time (up to 3.13 at least), until the next item comes.
        """
        if self._tickets.empty():
            self._tickets.put(None)
        if self.rations is not None:
            self.rations.nudge()

    def wake_worker(self) -> None:
        """Let a worker look for a ticket that was planned again."""
        self._tickets.put(None)

    def lease(self, worker: Any) -> Lease | None:
        """Get the next ticket for ``worker``, or None when there is none."""
        if self.closed:
            return None
        with self.lock:
            return self._ledger.lease(worker)

    def finish(self, lease: Lease, loaded: Loaded) -> bool:
        """Hand in a batch; False when it came too late and was thrown away."""
        rations = self.rations
        weight = UNWEIGHED if rations is None else rations.weigh(loaded)
        with self.lock:
            if self.closed or not self._ledger.holds(lease):
                return False
            if rations is not None:
                rations.finished(lease.ticket, weight)
            self._ledger.finish(lease, loaded, weight)
            if self._barren_deaths:
                self._barren_deaths.clear()
            ring = self._consumer_waits and self._ledger.deliverable
            if ring:
                self._consumer_waits = False
        if loaded.part is not None:
            self.wake_worker()  # the rest of it is planned again
        if ring:
            self._news.put(None)
        return True

    def fail(self, lease: Lease, failure: Failure, *, final: bool = False) -> Verdict:
        """Hand in a failure and learn what follows from it."""
        rations, ticket = self.rations, lease.ticket
        failure = self._with_reading(failure)
        with self.lock:
            if self.closed or not self._ledger.holds(lease):
                return Verdict.STALE
            if rations is None:
                verdict = self._ledger.fail(lease, failure, final=final)
            else:
                verdict = self._ledger.fail(lease, failure, final=final, divide=rations.divisible)
                if failure.is_memory and not final:
                    rations.refused(ticket)
                else:
                    rations.withdrawn(ticket)
        self._tell_failure(failure, verdict, batch=ticket.number)
        if verdict is Verdict.RETRY:
            self.wake_worker()  # it may have become two
        self._after(verdict)
        return verdict

    def split(self, lease: Lease, samples: int) -> None:
        """Plan a ticket as two, the first with so many samples."""
        with self.lock:
            self._ledger.split(lease, samples)
        self.wake_worker()
        self.wake_worker()

    def fail_outside_ticket(self, failure: Failure, *, final: bool = False) -> Verdict:
        """Report a death that no ticket was lost with: at start-up, or while idle.

        Each place among the workers may be rebuilt as often in a row as the policy allows for one ticket; a
        batch in between shows that it helps, and starts the counts anew.
        """
        failure = self._with_reading(failure)
        with self.lock:
            if self.closed:
                return Verdict.STALE
            if self._barren_deaths[failure.worker_id] < self._policy.rebuild and not final:
                self._barren_deaths[failure.worker_id] += 1
                verdict = Verdict.REBUILD
            else:
                self._ledger.condemn(failure)
                verdict = Verdict.FATAL
        self._tell_failure(failure, verdict)
        self._after(verdict)
        return verdict

    def release(self, lease: Lease, *, quietly: bool = False) -> None:
        """Take a lease back without blame; ``quietly``, for a caller that wakes somebody later."""
        with self.lock:
            self._ledger.release(lease)
        if not quietly:
            self.wake_worker()

    def leases_of(self, worker: Any) -> list[Lease]:
        """What ``worker`` holds."""
        with self.lock:
            return self._ledger.leases_of(worker)

    def _with_reading(self, failure: Failure) -> Failure:
        """The failure with what the loader's own limits say about memory, not the process's."""
        if self.rations is None or failure.memory is None:
            return failure
        return replace(failure, memory=self.rations.reading() or failure.memory)

    def _tell_failure(self, failure: Failure, verdict: Verdict, **place: int) -> None:
        if listening.listeners:
            told = failure.describe()
            listening.tell(
                "failure", worker=failure.worker_id, error=told, kind=failure.kind, then=verdict.name, **place
            )

    def _after(self, verdict: Verdict) -> None:
        if verdict is Verdict.REBUILD:
            self.rebuilds += 1
        if verdict is Verdict.FATAL:
            self._news.put(None)
        else:
            self._tickets.put(None)

    def resize(self, setting: Setting) -> None:
        """Let so many workers load from here on, and so many batches wait for the consumer."""
        with self.lock:
            self.setting, self.capacity = setting, capacity_of(setting)
            self._most_workers = max(self._most_workers, setting.num_workers)
            if self.rations is not None:
                self.rations.resize(setting.num_workers, self.capacity)

    # The consumer's side

    def peek(self) -> Ready | Emptied | Failed | object | None:
        """The next batch, failure or END; None when there is nothing yet, after which ``wait`` may be called."""
        with self.lock:
            item = self._ledger.peek()
            self._consumer_waits = item is None
            if item is None and self.rations is not None:
                self.rations.starved(self)
        return item

    def deliver(self, item: Ready | Emptied) -> None:
        """Note that the consumer has what ``peek`` returned."""
        # Before the delivery: what is interrupted after it has lost a batch.
        if self._pace.since:
            self._pace.end_wait()
        if listening.listeners and type(item) is Ready:
            for listener in listening.listeners:
                listener.deliver(self.epoch, item.ticket, perf_counter())
        with self.lock:
            if self.rations is not None and type(item) is Ready:
                self.rations.delivered(item)
            self._ledger.deliver(item)
        if self._reader_waits:
            self._room.put(None)

    def wait(self) -> bool:
        """Wait up to ``STEP`` seconds for news; False when the time was up."""
        return _wait(self._news, STEP)

    @property
    def ledger(self) -> Ledger:
        """The book, for reading."""
        return self._ledger

    def is_loading_in(self, scope: SampleScope | None) -> bool:
        """Whether the code that runs in ``scope`` loads a sample of this very epoch, directly or nested."""
        while scope is not None:
            owner = scope.owner
            if owner is self:
                return True
            scope = owner.outer if isinstance(owner, EpochRun) else None
        return False

    def close(self) -> None:
        """End the run and drop what was not delivered; safe from any thread, signal handler or finaliser."""
        self.closed = True
        self.times.end()
        self._ledger.forget()
        if self.rations is not None:
            self.rations.close()
        self.context = Context()
        # A worker that has left may have taken one of these with it.
        for _ in range(self._most_workers + self.rebuilds):
            self._tickets.put(None)
        self._room.put(None)
        self._news.put(None)


def _wait(bell: SimpleQueue[None], seconds: float) -> bool:
    try:
        bell.get(timeout=seconds)
    except Empty:
        return False
    return True
