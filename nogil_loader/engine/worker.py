"""One worker thread: it leases tickets, loads them and hands in an outcome for each, whatever happens."""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import threading
import traceback
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from nogil_loader.engine.outcome import Loaded
from nogil_loader.engine.panic import catch_panics
from nogil_loader.engine.recipe import Kitchen
from nogil_loader.engine.run import IDLE_STEP, EpochRun
from nogil_loader.engine.scope import SampleScope, current_scope, current_worker
from nogil_loader.engine.ticket import Lease, Verdict

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
        started: Whether start-up is over.
        stage: What part of start-up it is in.
        abandoned: Whether it was given up on; it ends by itself when its user code returns.
        buried: Whether its death has had its consequences.
    """

    def __init__(self, worker_id: int, pool: WorkerPool) -> None:
        self.id = worker_id
        self.lease: Lease | None = None
        self.leased = 0
        self.scope: SampleScope | None = None
        self.started = False
        self.stage = "start-up"
        self.abandoned = False
        self.buried = False
        self.run: EpochRun | None = None
        self._shifts: SimpleQueue[EpochRun | None] = SimpleQueue()
        # A daemon, because interpreter exit must not wait for user code that hangs; the pool joins the others.
        # Only what the thread runs refers to the pool, so when it has ended, nothing but the pool's owner does.
        self._thread = threading.Thread(
            target=catch_panics(
                functools.partial(self._main, pool),
                name=worker_id,
                on_death=lambda death: pool.bury(self, death.__cause__),
            ),
            name=f"nogil_loader-worker-{worker_id}-{next(_serial)}",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        self._thread.start()

    def serve(self, run: EpochRun) -> None:
        """Hand over the next epoch."""
        self.run = run
        self._shifts.put(run)

    def dismiss(self) -> None:
        """Tell the thread to end when it is done with what it does."""
        self._shifts.put(None)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, at most ``seconds``; does nothing in the thread itself."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    @property
    def mark(self) -> object | None:
        """Changes whenever the worker gets on; None while it loads nothing."""
        lease, scope = self.lease, self.scope
        if lease is None or scope is None:
            return None
        return self.leased, scope.offset, scope.stage

    def stack(self) -> str:
        """Where the thread is at this moment, innermost call last."""
        ident = self._thread.ident
        frame = sys._current_frames().get(ident) if ident is not None else None
        return "" if frame is None else "".join(traceback.format_stack(frame))

    # In the thread

    def _main(self, pool: WorkerPool) -> None:
        kitchen: Kitchen | None = None
        while not pool.stopping:
            try:
                run = self._shifts.get(timeout=IDLE_STEP)
            except Empty:
                continue
            if run is None:
                return
            if run.closed:
                continue
            kitchen = run.context.copy().run(self._work, pool, run, kitchen)
            if kitchen is None:
                return
            # Idle workers keep nothing of an epoch alive. A next one may have been handed over already.
            if self.run is run:
                self.run = None
            del run

    def _work(self, pool: WorkerPool, run: EpochRun, kitchen: Kitchen | None) -> Kitchen | None:
        """Serve one epoch; return what start-up made, for the next one, or None to end the worker."""
        # The consumer may itself be user code that another loader runs.
        current_scope.set(None)
        if kitchen is None:
            kitchen = self._start_up(pool, run)
        else:
            current_worker.set(pool.info(self.id, kitchen.dataset, run))
        scope = self.scope = SampleScope(run.seed, run.epoch, run)
        try:
            return kitchen if self._serve(pool, run, kitchen, scope) else None
        finally:
            self.scope = None

    def _start_up(self, pool: WorkerPool, run: EpochRun) -> Kitchen:
        self.stage = "clone_dataset"
        dataset = pool.dataset_for(self.id)
        current_worker.set(pool.info(self.id, dataset, run))
        if pool.worker_init_fn is not None:
            self.stage = "worker_init_fn"
            pool.worker_init_fn(self.id)
        kitchen = pool.recipe.bind(dataset)
        self.started = True
        return kitchen

    def _serve(self, pool: WorkerPool, run: EpochRun, kitchen: Kitchen, scope: SampleScope) -> bool:
        while not run.closed:
            lease = run.lease(self)
            if lease is None:
                continue
            self.leased += 1
            self.lease = lease
            outcome = kitchen.attempt(lease.ticket, scope, self.id)
            self.lease = None
            if isinstance(outcome, Loaded):
                kept = run.finish(lease, outcome.batch)
                # The batch is the consumer's now, and the ticket may hold samples: nothing here may keep them
                # alive while the thread waits for the next ticket.
                del outcome, lease
                if self.abandoned or not (kept or run.closed):
                    return False
                continue
            verdict = run.fail(lease, outcome)
            del outcome, lease
            if verdict is Verdict.RETRY:
                gc.collect()
                continue
            if verdict is Verdict.REBUILD:
                pool.replace(self)
            self.buried = True
            return False
        return True
