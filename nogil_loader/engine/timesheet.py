"""Who of an epoch's threads took how long for what, and when the consumer got its batches."""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nogil_loader.engine.account import Account
from nogil_loader.engine.pace import Pace
from nogil_loader.engine.scope import COLLATE, COMPILE, CONVERT, FETCH, MEMORY, READER, TRANSFORM
from nogil_loader.engine.statistics import Percentiles, StageSeconds, WorkerCpu
from nogil_loader.engine.stopwatch import Stopwatch

if TYPE_CHECKING:
    from nogil_loader.engine.ticket import Progress

# Stages as statistics call them.
_NAMES = {
    FETCH: "fetch",
    TRANSFORM: "transform",
    COLLATE: "collate",
    CONVERT: "convert",
    COMPILE: "compile",
    MEMORY: "memory",
    "start_up": "start_up",
}


class Timesheet:
    """The times of one epoch.

    Args:
        epoch: For those who listen.
        account: What the consumer has.

    Attributes:
        pace: The consumer's side.
    """

    def __init__(self, epoch: int, account: Account) -> None:
        self.pace = Pace(epoch, account)
        self._stopwatches: list[Stopwatch] = []
        self._inline: Stopwatch | None = None

    def stopwatch(self, worker: int | str, *, inline: bool = False) -> Stopwatch:
        """Begin to time a thread; with ``inline``, the consumer's own."""
        stopwatch = Stopwatch(worker, self.pace.mark)
        if inline:
            self._inline = stopwatch
        self._stopwatches.append(stopwatch)
        return stopwatch

    def report(self, done: Progress) -> dict[str, Any]:
        """Return fields of `Statistics`.

        Args:
            done: What the consumer has.
        """
        pace = self.pace
        now = perf_counter() if pace.ended is None else pace.ended
        seconds = now - pace.began
        watches = list(self._stopwatches)
        samples = sum(each.samples for each in watches)
        weighed = sum(each.nbytes for each in watches)
        stages, inline = _stages(watches, now), self._inline
        return {
            "seconds": seconds,
            "nbytes": round(weighed / samples * done.delivered) if samples else 0,
            "samples_per_second": done.delivered / seconds if seconds > 0 else 0.0,
            "recent_samples_per_second": pace.recent_rate(now, done.delivered),
            "stages": stages,
            "batch_seconds": Percentiles.of(value for each in watches for value in list(each.latest)),
            "wait_seconds": Percentiles.of(inline.latest if inline else pace.latest_waits()),
            "consumer_wait": stages.total - stages.idle if inline else pace.waited_until(now),
            "cpu": _cpu(watches),
        }

    def end(self) -> None:
        """Note that the epoch is over; safe from finalisers."""
        self.pace.end()


def _stages(watches: list[Stopwatch], now: float) -> StageSeconds:
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in watches:
        mine: defaultdict[str, float] = defaultdict(float)
        for known in (dict(each.seconds), dict(each.apart), each.under_way(now)):
            for stage, value in known.items():
                if stage in _NAMES:
                    mine[_NAMES[stage]] += value
        if each.worker != READER:  # nobody waits for a reader that is ahead
            # What is left. The sum of estimates may exceed what they are parts of.
            mine["idle"] = max(0.0, each.lifetime(now) - sum(mine.values()))
        for name, value in mine.items():
            seconds[name] += value
    return StageSeconds(**seconds)


def _cpu(watches: list[Stopwatch]) -> WorkerCpu | None:
    wall = sum(each.wall for each in watches)
    if wall <= 0.0:
        return None
    asked = sum(each.asked for each in watches)
    wanted = sum(each.wanted for each in watches)
    return WorkerCpu(sum(each.cpu for each in watches) / wall, wanted / asked if asked else 0.0)
