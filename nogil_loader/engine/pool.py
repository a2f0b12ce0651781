"""The worker threads of one epoch at a time: started, watched, replaced, stopped.

Everything here is bounded in time and safe to call from any thread. ``stop`` only signals, so finalisers may
call it; ``join`` waits, with a limit.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nogil_loader.engine import listening
from nogil_loader.engine.outcome import Failure
from nogil_loader.engine.recipe import Recipe
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.ticket import Verdict
from nogil_loader.engine.watchdog import Watchdog
from nogil_loader.engine.worker import Worker
from nogil_loader.errors import LoaderError, describe_exception
from nogil_loader.memory.reading import read_memory

logger = logging.getLogger("nogil_loader")

# Stuck threads cannot be ended, each keeps its stack and its sample: give up once this many per worker hang.
ABANDONED_PER_WORKER = 2
# What interpreter exit grants to workers that are still in user code, all together.
_EXIT_SECONDS = 1.0

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool:
    """``num_workers`` threads that serve one `EpochRun` after the other.

    Args:
        num_workers: 1 or more.
        dataset: What the workers read.
        recipe: How they make batches of it.
        worker_init_fn: Called in each new worker with its id.
        clone_dataset: True for a deep copy per worker, or a callable from worker id to a dataset; both run in
            the worker's thread, so that what is bound to a thread is made in the right one.
        timeout: Seconds without progress after which a worker is given up on; 0 for never.
        most_workers: How many threads there may ever be, if their number changes.

    Attributes:
        most_workers: What user code in a worker is told that there are, so that ids stay below.
    """

    def __init__(
        self,
        num_workers: int,
        dataset: Any,
        recipe: Recipe,
        *,
        worker_init_fn: Callable[[int], object] | None = None,
        clone_dataset: bool | Callable[[int], Any] = False,
        timeout: float = 0.0,
        most_workers: int | None = None,
    ) -> None:
        self.recipe = recipe
        self.worker_init_fn = worker_init_fn
        self.most_workers = num_workers if most_workers is None else most_workers
        self.stopping = False
        self.pid = os.getpid()
        self._dataset = dataset
        self._clone_dataset = clone_dataset
        self._watchdog: Watchdog[Worker] = Watchdog(timeout)
        self._lock = threading.Lock()
        self._run: EpochRun | None = None
        self._abandoned: list[Worker] = []
        self._leaving: list[Worker] = []
        # Imports what a dying worker needs for its report. Killed in the middle of an import, it would leave the
        # import lock held.
        read_memory()
        self.workers = [Worker(worker_id, self) for worker_id in range(num_workers)]
        _pools.add(self)

    # What workers ask for

    def dataset_for(self, worker_id: int) -> Any:
        """The dataset that this worker reads."""
        if callable(self._clone_dataset):
            return self._clone_dataset(worker_id)
        return copy.deepcopy(self._dataset) if self._clone_dataset else self._dataset

    # The life of an epoch

    def serve(self, run: EpochRun) -> None:
        """Let every worker work for ``run``.

        Raises:
            LoaderError: Not a single thread could be started.
        """
        with self._lock:
            self._run = run
            # One may have been killed while it had nothing to do, with nothing lost.
            self.workers = [
                Worker(worker.id, self) if worker.is_dead() else worker for worker in self.workers
            ]
            workers = list(self.workers)
            for worker in workers:
                worker.serve(run)
        self._start(workers, run)

    def resize(self, count: int) -> None:
        """Let so many workers work for the present epoch and the next ones; others leave after their ticket.

        If the system gives fewer threads, there are fewer.
        """
        with self._lock:
            run = self._run
            if self.stopping or run is None or run.closed:
                return
            leaving = self.workers[count:]
            fresh = [Worker(worker_id, self) for worker_id in range(len(self.workers), count)]
            self._leaving = [*self._leaving, *leaving]
            self.workers = [*self.workers[:count], *fresh]
            for worker in fresh:
                worker.serve(run)
        for worker in leaving:
            worker.leave()
            run.wake_worker()
        self._start(fresh, run)
        for worker in fresh:
            self._dismiss_if_late(worker)

    def _start(self, workers: Sequence[Worker], run: EpochRun) -> None:
        for worker in workers:
            try:
                worker.start()
            except RuntimeError as error:
                told = describe_exception(error)
                if worker.id == 0:
                    raise LoaderError(
                        f"not one of {len(workers)} worker threads could be started ({told}): the limit of "
                        f"threads is reached, see ulimit -u and pids.max of the control group. num_workers=0 "
                        f"needs none"
                    ) from error
                # As text: a log record must not keep the traceback and its frames alive.
                logger.warning("going on with %d of %d workers: %s", worker.id, len(self.workers), told)
                with self._lock:
                    del self.workers[worker.id :]
                run.setting = replace(run.setting, num_workers=worker.id)
                return

    @property
    def starting(self) -> bool:
        """Whether a worker is still in its start-up."""
        return any(not worker.started and not worker.buried for worker in self.workers)

    @property
    def has_start_up(self) -> bool:
        """Whether start-up runs user code, so that its failure has to come before the first batch."""
        return self.worker_init_fn is not None or self._clone_dataset is not False

    @property
    def reusable(self) -> bool:
        """Whether another epoch may be served."""
        return (
            not self.stopping
            and self.pid == os.getpid()
            and all(worker.is_alive() and not worker.buried for worker in self.workers)
        )

    def alive(self) -> int:
        """How many workers are alive."""
        return sum(worker.is_alive() and not worker.abandoned for worker in self.workers)

    def check(self, run: EpochRun) -> None:
        """Notice who died without a word and who is stuck; called by the consumer while it waits."""
        with self._lock:
            leaving = self._leaving
            # Those that are gone are looked at once more below, for what they may have left behind.
            self._leaving = [worker for worker in leaving if not worker.is_dead()]
            workers = [*self.workers, *leaving]
        for worker in workers:
            if worker.abandoned and not run.ledger.dead:
                self.replace(worker)  # an interrupt came before that was done
            elif not worker.buried and worker.is_dead():
                self.bury(worker, None)
        marks = [(worker, worker.mark) for worker in workers if not worker.buried]
        for worker in self._watchdog.stuck(time.monotonic(), marks):
            self._give_up(worker, run)

    def bury(self, worker: Worker, cause: BaseException | None) -> None:
        """Draw the consequences of a worker's death outside of loading; at most once per worker."""
        run = self._run
        if worker.buried or worker.abandoned or run is None or run.closed:
            return
        failure = Failure(
            worker_id=worker.id,
            cause=cause,
            kind="vanished" if cause is None else "raised",
            during="" if worker.started else worker.stage,
            offset=worker.scope.offset if worker.scope is not None else None,
            memory=read_memory(),
        )
        leases = run.leases_of(worker)
        verdicts = [run.fail(lease, failure) for lease in leases]
        if not (leases or worker.leaving):
            verdicts.append(run.fail_outside_ticket(failure))
        if Verdict.REBUILD in verdicts or Verdict.RETRY in verdicts:
            self.replace(worker)
        worker.buried = True

    def replace(self, worker: Worker) -> None:
        """Put a fresh worker in the place of a dead or stuck one.

        In one piece with ``serve``: whoever is in place when an epoch is handed out gets it, and whoever comes
        later gets the one that is under way. Starting the thread is left out of that piece, since it waits.
        """
        with self._lock:
            run = self._run
            worker.end_time()
            if self.stopping or run is None or worker not in self.workers:
                return
            fresh = self.workers[worker.id] = Worker(worker.id, self)
            fresh.serve(run)
        listening.tell("rebuild", worker=worker.id)
        try:
            fresh.start()
        except RuntimeError as error:
            fresh.buried = True
            run.fail_outside_ticket(Failure(worker.id, error, during="start-up"), final=True)
            return
        logger.info("worker %d is rebuilt", worker.id)
        self._dismiss_if_late(fresh)

    def _dismiss_if_late(self, fresh: Worker) -> None:
        # ``stop`` takes no lock, so it may not have seen this one.
        if self.stopping:
            fresh.dismiss()

    def _give_up(self, worker: Worker, run: EpochRun) -> None:
        lease, scope = worker.lease, worker.scope
        if lease is None or scope is None:
            return
        failure = Failure(
            worker_id=worker.id,
            kind="stuck",
            during=scope.stage,
            offset=scope.offset,
            stack=worker.stack(),
            memory=read_memory(),
        )
        self._abandoned = [other for other in self._abandoned if other.is_alive()]
        full = len(self._abandoned) >= ABANDONED_PER_WORKER * len(self.workers)
        worker.abandoned = True
        verdict = run.fail(lease, failure, final=full)
        if verdict is Verdict.STALE and worker.lease is not lease:
            worker.abandoned = False  # it got on in this very moment
            return
        self._abandoned.append(worker)
        run.abandoned += 1
        listening.tell("abandoned", worker=worker.id)
        if verdict is not Verdict.FATAL:
            self.replace(worker)
        worker.buried = True

    # The end

    def stop(self) -> None:
        """Tell all workers to end. Only signals; safe from finalisers."""
        self.stopping = True
        for worker in [*self.workers, *self._leaving]:
            worker.dismiss()

    def join(self, seconds: float) -> bool:
        """Wait for the workers to end, ``seconds`` in all; False when some are still in user code."""
        deadline = time.monotonic() + seconds
        # Without the lock: a signal handler may close what it interrupts.
        workers = [*self.workers, *self._leaving]
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        return not any(worker.is_alive() for worker in workers)


def _shut_down() -> None:
    """At interpreter exit: end all workers, so that no thread meets a half-gone interpreter."""
    pools = [pool for pool in _pools if pool.pid == os.getpid()]
    for pool in pools:
        if pool._run is not None:
            pool._run.close()
        pool.stop()
    deadline = time.monotonic() + _EXIT_SECONDS
    for pool in pools:
        pool.join(max(0.0, deadline - time.monotonic()))


atexit.register(_shut_down)
