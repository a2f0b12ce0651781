"""``num_workers ≥ 1``: worker threads and, for an iterable, its reader, as one epoch's consumer sees them."""

from __future__ import annotations

import time

from nogil_loader.engine.autotune import Autotune
from nogil_loader.engine.pool import WorkerPool
from nogil_loader.engine.reader import Reader, Reading
from nogil_loader.engine.review import Reviewer
from nogil_loader.engine.run import EpochRun


class ThreadCrew:
    """The threads that work for one epoch.

    Args:
        pool: The workers; they start to work for ``run`` here.
        run: The epoch.
        reading: Where the tickets of an iterable come from; gets a thread of its own.
        timeout: Seconds without progress after which the reader counts as stuck; 0 for never.
        reviewer: Looks now and then at how it goes.
        autotune: Changes the number of workers and of batches ahead; None for nobody.
    """

    def __init__(
        self,
        pool: WorkerPool,
        run: EpochRun,
        reading: Reading | None,
        timeout: float,
        *,
        reviewer: Reviewer,
        autotune: Autotune | None = None,
    ) -> None:
        self.pool = pool
        self._run = run
        self._pace = run.times.pace
        self._reviewer = reviewer
        self._autotune = autotune
        self._source = None if reading is None else reading.source
        try:
            pool.serve(run)
            reviewer.begin(self._pace.began)
            if autotune is not None:
                autotune.begin(run)
            self._reader = None if reading is None else Reader(reading, timeout)
        except BaseException:
            # The system gives no more threads; those that it gave have nobody who would ever end them.
            run.close()
            pool.stop()
            raise

    def wait(self) -> None:
        """Wait a bounded time for news, and look after everybody if there are none."""
        now = self._pace.begin_wait()
        self._reviewer.look(self._run, now)
        if self._autotune is not None:
            self._autotune.step(self._run, self.pool, now)
        if not self._run.wait():
            self._run.nudge()
            self.pool.check(self._run)
            if self._reader is not None:
                self._reader.check(time.monotonic())

    @property
    def starting(self) -> bool:
        """Whether a worker is still in a start-up that runs user code."""
        return self.pool.has_start_up and self.pool.starting

    def alive(self) -> int:
        """How many workers are alive."""
        return self.pool.alive()

    def retire(self, seconds: float, *, keep: bool) -> None:
        """End the threads, waiting at most ``seconds``; with ``keep``, only the reader's."""
        if not keep:
            self.stop()
            self.join(seconds)
        elif self._reader is not None:
            self._reader.join(seconds)

    def stop(self) -> None:
        """Tell all threads to end. Only signals; safe from finalisers."""
        self.pool.stop()
        if self._source is not None:
            self._source.close()

    def join(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the threads to end; False when some are still in user code."""
        deadline = time.monotonic() + seconds
        ended = self.pool.join(seconds)
        if self._reader is not None:
            ended = self._reader.join(max(0.0, deadline - time.monotonic())) and ended
        return ended
