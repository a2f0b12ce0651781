"""What a loader says about itself while it works: that its workers wait for the GIL, and what helps."""

from __future__ import annotations

import logging

from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.snapshot import snapshot
from nogil_loader.engine.statistics import Statistics

logger = logging.getLogger("nogil_loader")

# Seconds of an epoch before it is judged, and between two judgements.
_PERIOD = 5.0
# What a load looks like that the GIL holds up, seen with two to eight workers in pure Python: the consumer waits,
# threads that load are off the processor half of the time or more, others wait for the GIL at the end of nearly
# every batch, and all workers together keep one processor busy. Threads that wait for disks keep less than one
# busy, and kernels that run without the GIL more.
_CONSUMER_WAITS = 0.3
_OFF_PROCESSOR = 0.4
_WANTED = 0.5
_ONE_PROCESSOR = (0.7, 1.2)


def waits_for_gil(told: Statistics) -> bool:
    """Whether the workers of an epoch wait for the GIL most of the time."""
    if told.num_workers < 2 or told.cpu is None or told.seconds <= 0.0:
        return False
    least, most = _ONE_PROCESSOR
    processors = told.cpu.share * told.stages.busy / told.seconds
    return (
        told.consumer_wait_share >= _CONSUMER_WAITS
        and told.cpu.share <= 1.0 - _OFF_PROCESSOR
        and told.cpu.gil_wanted >= _WANTED
        and least <= processors <= most
    )


class Reviewer:
    """Looks at the epochs of one loader now and then, and says once what is to be said."""

    def __init__(self) -> None:
        self._told = False
        self._look_at = 0.0

    def begin(self, now: float) -> None:
        """Note that an epoch begins; many short ones are looked at together."""
        self._look_at = self._look_at or now + _PERIOD

    def look(self, run: EpochRun, now: float) -> None:
        """Judge an epoch if it is time to; called by a consumer that waits."""
        if now >= self._look_at:
            self._look_at = now + _PERIOD
            self.review(snapshot(run))

    def review(self, told: Statistics) -> None:
        """Judge how an epoch goes."""
        if self._told or not waits_for_gil(told) or told.cpu is None:
            return
        self._told = True
        stages = told.stages
        slowest = max(("fetch", "transform", "collate"), key=lambda name: getattr(stages, name))
        # Logged, not warned of: who turns warnings into errors does not mean this loop to end.
        logger.warning(
            "%d workers take turns at the GIL: while they load, each of them runs %.0f %% of the time, most of it "
            "in %s. Fewer workers would do as well. What makes more of them useful is code that releases the GIL: "
            "declared transforms (transform=…), a dataset that reads whole batches (__getitems__), decoders and "
            "numpy on large arrays; or a free-threaded Python",
            *(told.num_workers, 100 * told.cpu.share, slowest),
        )
