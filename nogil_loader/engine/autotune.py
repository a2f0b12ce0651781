"""Puts into practice what the tuner says: measures intervals of an epoch, and changes its workers and its queue.

The consumer drives it while it waits for a batch, before anything is taken: a loader that keeps up needs no
tuning, and an interrupt loses nothing. Batches and their order do not depend on any of it.
"""

from __future__ import annotations

import logging
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from nogil_loader.engine import listening
from nogil_loader.engine.tuner import Tuner
from nogil_loader.engine.tuning import Interval, Setting, TuningEvent

if TYPE_CHECKING:
    from nogil_loader.engine.pool import WorkerPool
    from nogil_loader.engine.run import EpochRun

logger = logging.getLogger("nogil_loader")

# Seconds between looks at whether an interval may end. Intervals take 0.3 s and more.
_PERIOD = 0.01
# Epochs up to so many seconds are measured together. In longer ones the first moments, in which threads start, are
# left out.
_SHORT = 2.0


class Autotune:
    """What ``"auto"`` stands for in one loader, over its epochs.

    Args:
        tuner: Who decides.
        most_workers: The most workers that it may decide for.
        period: Seconds between two looks at least.
    """

    def __init__(self, tuner: Tuner, most_workers: int, period: float = _PERIOD) -> None:
        self._tuner = tuner
        self.most_workers = most_workers
        self._period = period
        self._told_at = -1.0
        self._run: EpochRun | None = None
        self._look_at = 0.0
        self._at = self._cpu = self._waited = 0.0
        self._batches = self._samples = self._held_back = 0

    @property
    def setting(self) -> Setting:
        """What is in use now."""
        return self._tuner.setting

    @property
    def events(self) -> tuple[TuningEvent, ...]:
        """What was tried and changed, the oldest first."""
        return self._tuner.events

    def begin(self, run: EpochRun) -> None:
        """Note that an epoch begins. Of several that are loaded at the same time the latest is tuned."""
        carried = self._carry()
        self._run = run
        run.autotune = self
        self._begin_interval(run, perf_counter())
        if carried is None:
            self._tuner.begin_epoch()
            return
        # As if the interval had begun in this epoch, so long ago.
        seconds, waited, batches, samples = carried
        self._at -= seconds
        self._waited -= waited
        self._batches -= batches
        self._samples -= samples

    def step(self, run: EpochRun, pool: WorkerPool, now: float) -> None:
        """Look at how it goes, and change the setting if the tuner says so; called by a consumer that waits."""
        if now < self._look_at or run is not self._run or run.closed:
            return
        self._look_at = now + self._period
        account, seconds = run.ledger.account, now - self._at
        if not self._tuner.enough(account.batches - self._batches, seconds):
            return
        rations = run.rations
        tight = rations is not None and (rations.is_slowed or rations.held_back > self._held_back)
        interval = Interval(
            seconds,
            account.progress.delivered - self._samples,
            min(1.0, (run.times.pace.waited_until(now) - self._waited) / seconds),
            (process_time() - self._cpu) / seconds,
            tight,
        )
        before = self._tuner.setting
        setting = self._tuner.observe(interval)
        if setting != before:
            run.resize(setting)
            pool.resize(setting.num_workers)
        self._tell()
        self._begin_interval(run, perf_counter())

    def _carry(self) -> tuple[float, float, int, int] | None:
        """What was measured in the epoch before this one since the last interval ended; None after a long epoch.

        An epoch that is shorter than an interval would never bring one to its end.
        """
        run = self._run
        pace = None if run is None else run.times.pace
        if run is None or pace is None or pace.ended is None or pace.ended - pace.began > _SHORT:
            return None
        account = run.ledger.account
        return (
            max(0.0, pace.ended - self._at),
            pace.waited - self._waited,
            account.batches - self._batches,
            account.progress.delivered - self._samples,
        )

    def _begin_interval(self, run: EpochRun, now: float) -> None:
        account = run.ledger.account
        self._at, self._cpu, self._waited = now, process_time(), run.times.pace.waited_until(now)
        self._batches, self._samples = account.batches, account.progress.delivered
        self._held_back = 0 if run.rations is None else run.rations.held_back

    def _tell(self) -> None:
        fresh = [event for event in self._tuner.events if event.at > self._told_at]
        for event in fresh:
            self._told_at = event.at
            logger.info("tuning: %s", event)
            listening.tell("tuning", change=str(event))
