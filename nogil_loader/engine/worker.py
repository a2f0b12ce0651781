"""One worker thread: it leases tickets, loads them and hands in an outcome for each, whatever happens.

A thread is a root for the garbage collector, and what a worker works with, the dataset and ``collate_fn``, is
user code that may well lead back to the loader or its iterator. So while a thread waits, it holds nothing but
weak references to all that; only while it loads does it hold the worker itself. A loader that nobody uses any
more is collected with its idle threads, in whatever circles it is referred to (G8).
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nogil_loader.engine.launch import LAUNCH_SECONDS, launch
from nogil_loader.engine.outcome import GivenBack, Loaded
from nogil_loader.engine.panic import catch_panics
from nogil_loader.engine.recipe import Kitchen
from nogil_loader.engine.run import IDLE_STEP, EpochRun
from nogil_loader.engine.scope import COMPILE, MEMORY, SampleScope, WorkerInfo, current_scope, current_worker
from nogil_loader.engine.stacks import stack_of
from nogil_loader.engine.stopwatch import Stopwatch
from nogil_loader.engine.ticket import Lease, Verdict
from nogil_loader.engine.watch import Watch
from nogil_loader.errors import DeadWorkerError
from nogil_loader.memory.relief import relieve

if TYPE_CHECKING:
    from nogil_loader.engine.pool import WorkerPool

_serial = itertools.count()


class Worker:
    """A thread with an id, and what others may see of it.

    Attributes:
        id: From 0; a rebuilt worker has the id of the one it replaces.
        lease: What it is loading.
        leased: How many leases it has had.
        scope: Which sample it is at.
        watch: Reports to the governor what it loads, where that has to be done.
        launched: Whether ``start`` has returned.
        started: Whether start-up is over.
        pause: Seconds to wait for memory before it looks for a ticket again.
        stage: What part of start-up it is in.
        abandoned: Whether it was given up on; it ends by itself when its user code returns.
        leaving: Whether it is one too many, and ends when it has loaded what it is loading.
        buried: Whether its death has had its consequences.
    """

    def __init__(self, worker_id: int, pool: WorkerPool) -> None:
        self.id = worker_id
        self.lease: Lease | None = None
        self.leased = 0
        self.scope: SampleScope | None = None
        self.watch: Watch | None = None
        self._born = time.monotonic()
        self._unclaimed = [True]
        self.pause = 0.0
        self.launched = False
        self.started = False
        self.stage = "start-up"
        self.abandoned = False
        self.leaving = False
        self.buried = False
        self._pool = weakref.ref(pool)
        self._kitchen: Kitchen | None = None
        self._stopwatch: Stopwatch | None = None
        self._info: WorkerInfo | None = None
        self._shifts: SimpleQueue[EpochRun | None] = SimpleQueue()
        me = weakref.ref(self)
        # A daemon, because interpreter exit must not wait for user code that hangs; the pool joins the others.
        self._thread = threading.Thread(
            target=catch_panics(
                partial(_live, me, self._shifts),
                name=worker_id,
                on_death=partial(_die, me),
            ),
            name=f"nogil_loader-worker-{worker_id}-{next(_serial)}",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread, unless somebody else is at it.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        try:
            self._unclaimed.pop()  # in one step, so that of several threads only one goes on
        except IndexError:
            return
        launch(self._thread)
        self.launched = True

    def serve(self, run: EpochRun) -> None:
        """Hand over the next epoch."""
        self._shifts.put(run)

    def leave(self) -> None:
        """Tell the thread to end after its ticket, also in the middle of an epoch."""
        self.leaving = True
        self.dismiss()

    def dismiss(self) -> None:
        """Tell the thread to end when it is done with what it does."""
        self._shifts.put(None)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def is_dead(self) -> bool:
        """Whether the thread has ended, or should long have started."""
        if self._thread.is_alive():
            return False
        return self.launched or time.monotonic() - self._born > LAUNCH_SECONDS

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, at most ``seconds``; does nothing in the thread itself."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    @property
    def pool(self) -> WorkerPool | None:
        """The pool that it belongs to, None when that is gone."""
        return self._pool()

    @property
    def mark(self) -> object | None:
        """Changes whenever the worker gets on; None while it loads nothing, compiles, or waits for memory."""
        lease, scope = self.lease, self.scope
        if lease is None or scope is None or (self.watch is not None and self.watch.waiting):
            return None
        if scope.stage == COMPILE:
            return None
        return self.leased, scope.offset, scope.stage

    def stack(self) -> str:
        """Where the thread is at this moment, innermost call last."""
        return stack_of(self._thread)

    # In the thread

    def begin(self, run: EpochRun) -> None:
        """Get ready for an epoch; the first one includes start-up."""
        self.scope = SampleScope(run.seed, run.epoch, run)
        self._stopwatch = run.times.stopwatch(self.id)
        current_scope.set(self.scope)
        pool = self.pool
        if pool is None:
            return
        if self._kitchen is None:
            began = perf_counter()
            self._kitchen = self._start_up(pool, run)
            self._stopwatch.spend("start_up", began)
        else:
            self._info = self._describe(pool, run, self._kitchen.dataset)

    def note_pause(self, since: float) -> None:
        """Note a wait for memory that ends now."""
        if self._stopwatch is not None:
            self._stopwatch.spend(MEMORY, since)

    def end_time(self) -> None:
        """Note that the thread loads nothing any more in this epoch."""
        if self._stopwatch is not None:
            self._stopwatch.end()

    def _start_up(self, pool: WorkerPool, run: EpochRun) -> Kitchen:
        self.stage = "clone_dataset"
        dataset = pool.dataset_for(self.id)
        self._info = self._describe(pool, run, dataset)
        if pool.worker_init_fn is not None:
            self.stage = "worker_init_fn"
            token = current_worker.set(self._info)
            try:
                pool.worker_init_fn(self.id)
            finally:
                current_worker.reset(token)
        kitchen = pool.recipe.bind(dataset)
        self.started = True
        return kitchen

    def _describe(self, pool: WorkerPool, run: EpochRun, dataset: Any) -> WorkerInfo:
        return WorkerInfo(self.id, pool.most_workers, (run.seed + self.id) % 2**64, dataset)

    def load_next(self, run: EpochRun) -> bool:
        """Load a ticket if there is one; False when the worker is to end."""
        if self.leaving:
            self.end_time()
            run.wake_worker()  # another one; what woke this one may have been a ticket
            return False
        kitchen, scope, stopwatch = self._kitchen, self.scope, self._stopwatch
        lease = run.lease(self)
        if lease is None or kitchen is None or scope is None or stopwatch is None:
            return kitchen is not None
        self.leased += 1
        self.lease = lease
        watch = None
        if run.rations is not None:
            permit = run.rations.ask(run, lease, kitchen.hints)
            watch = self.watch = permit.watch
            if not permit.samples:
                self.lease = None
                self.pause = permit.pause
                return not self.abandoned
        token = current_worker.set(self._info)
        began = stopwatch.began = perf_counter()
        if began < stopwatch.due:
            outcome = kitchen.attempt(lease.ticket, scope, self.id, watch)
            ended = perf_counter()
            stopwatch.wall += ended - began
            stopwatch.ended = ended
            stopwatch.tickets += 1
            if ended - began > stopwatch.slow:
                stopwatch.note_slow(ended - began)
        else:
            timed = self.scope = stopwatch.scope(scope)
            outcome = stopwatch.time(
                lease.ticket, timed, partial(kitchen.attempt, lease.ticket, timed, self.id, watch)
            )
            self.scope = scope
        current_worker.reset(token)
        if os.getpid() != run.pid:
            return False  # the child of a fork in user code that came back here; there is nobody it works for
        self.lease = self.watch = None
        if isinstance(outcome, Loaded):
            run.finish(lease, outcome)
            return not self.abandoned
        if isinstance(outcome, GivenBack):
            run.release(lease)
            return not self.abandoned
        verdict = run.fail(lease, outcome, final=outcome.kind == "shortage")
        if verdict is Verdict.RETRY:
            del outcome
            relieve()
            return True
        pool = self.pool
        if verdict is Verdict.REBUILD and pool is not None:
            pool.replace(self)
        self.buried = True
        return False


def _live(me: weakref.ref[Worker], shifts: SimpleQueue[EpochRun | None]) -> None:
    """What the thread runs: one epoch after the other."""
    while True:
        try:
            run = shifts.get(timeout=IDLE_STEP)
        except Empty:
            if not _is_wanted(me):
                return
            continue
        if run is None or not run.context.copy().run(_serve, me, run):
            return
        del run


def _is_wanted(me: weakref.ref[Worker]) -> bool:
    worker = me()
    pool = None if worker is None else worker.pool
    return pool is not None and not pool.stopping


def _serve(me: weakref.ref[Worker], run: EpochRun) -> bool:
    """Load tickets of one epoch until it is closed; False when the worker is to end."""
    worker = me()
    if worker is None:
        return False
    if not run.closed:
        worker.begin(run)
    while not run.closed:
        pause, worker.pause = worker.pause, 0.0
        del worker
        began = perf_counter() if pause else 0.0
        woken = run.sit_out(pause) if pause else run.wait_for_ticket()
        worker = me()
        if worker is not None and pause:
            worker.note_pause(began)
        if worker is None or not (worker.load_next(run) or run.closed):
            return False
        if not woken and not _is_wanted(me):
            return False
    worker.scope = None
    worker.end_time()
    return not (worker.abandoned or worker.buried)


def _die(me: weakref.ref[Worker], death: DeadWorkerError) -> None:
    worker = me()
    pool = None if worker is None else worker.pool
    if worker is not None and pool is not None:
        pool.bury(worker, death.__cause__)
