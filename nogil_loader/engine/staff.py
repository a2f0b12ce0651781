"""Who works for a loader: makes the crew of each epoch and keeps threads from one epoch to the next."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nogil_loader.engine.autotune import Autotune
from nogil_loader.engine.inline import InlineCrew
from nogil_loader.engine.pool import WorkerPool
from nogil_loader.engine.reader import Reading
from nogil_loader.engine.recipe import Recipe
from nogil_loader.engine.review import Reviewer
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.threaded import ThreadCrew


@dataclass
class Staff:
    """A loader's arguments about its workers, and what they left for the next epoch.

    Attributes:
        dataset: What they read.
        recipe: How they make batches of it.
        num_workers: Threads to begin with; 0 for the consumer's own.
        worker_init_fn: Called in each new worker thread with its id.
        clone_dataset: True for a deep copy per worker, or a callable from worker id to a dataset.
        timeout: Seconds without progress after which a worker is given up on; 0 for never.
        persistent: Keep threads and copies of the dataset after a completed epoch.
        autotune: What changes the number of threads; None for nobody.
    """

    dataset: Any
    recipe: Recipe
    num_workers: int
    worker_init_fn: Callable[[int], object] | None
    clone_dataset: bool | Callable[[int], Any]
    timeout: float
    persistent: bool
    autotune: Autotune | None = None
    _reviewer: Reviewer = field(default_factory=Reviewer, init=False, repr=False)
    _spare: WorkerPool | None = field(default=None, init=False, repr=False)
    _inline: list[Any] = field(default_factory=list, init=False, repr=False)

    def crew(self, run: EpochRun, reading: Reading | None) -> InlineCrew | ThreadCrew:
        """Let somebody work for an epoch.

        Raises:
            LoaderError: Not a single thread could be started.
        """
        if self.num_workers == 0:
            return InlineCrew(self._inline_dataset, self.recipe, run, reading)
        return ThreadCrew(
            self._take_pool(run.setting.num_workers),
            run,
            reading,
            self.timeout,
            reviewer=self._reviewer,
            autotune=self.autotune,
        )

    def keep(self, crew: InlineCrew | ThreadCrew) -> bool:
        """Keep the threads of a completed epoch for the next one; False when they are not wanted."""
        if not self.persistent or not isinstance(crew, ThreadCrew) or self._spare is not None:
            return False
        self._spare = crew.pool
        return True

    def stop(self) -> None:
        """Tell threads that were kept to end. Only signals; safe from finalisers."""
        self._dismiss()

    def close(self, seconds: float) -> None:
        """End threads that were kept and let go of copies of the dataset; waits at most ``seconds``."""
        self._inline.clear()
        spare = self._dismiss()
        if spare is not None and spare.pid == os.getpid():
            spare.join(seconds)

    def _dismiss(self) -> WorkerPool | None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.stop()
        return spare

    def _take_pool(self, count: int) -> WorkerPool:
        spare, self._spare = self._spare, None
        if spare is not None and spare.reusable and (self.autotune is None or len(spare.workers) == count):
            return spare
        if spare is not None:
            spare.stop()
        return WorkerPool(
            count,
            self.dataset,
            self.recipe,
            worker_init_fn=self.worker_init_fn,
            clone_dataset=self.clone_dataset,
            timeout=self.timeout,
            most_workers=None if self.autotune is None else self.autotune.most_workers,
        )

    def _inline_dataset(self) -> Any:
        if not callable(self.clone_dataset):
            return self.dataset
        if not self._inline:
            self._inline.append(self.clone_dataset(0))
        return self._inline[0] if self.persistent else self._inline.pop()
