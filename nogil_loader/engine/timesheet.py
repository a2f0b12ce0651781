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
        self._prepared = 0.0
        self._final: StageSeconds | None = None

    def stopwatch(self, worker: int | str, *, inline: bool = False) -> Stopwatch:
        """Begin to time a thread; with ``inline``, the consumer's own."""
        stopwatch = Stopwatch(worker, self.pace.mark)
        if inline:
            self._inline = stopwatch
        self._stopwatches.append(stopwatch)
        return stopwatch

    def prepare(self, since: float) -> None:
        """Note that the consumer has waited for kernels, which were compiled before anything was loaded."""
        seconds = perf_counter() - since
        self._prepared += seconds
        self.pace.waited += seconds

    def report(self, done: Progress) -> dict[str, Any]:
        """Return fields of `Statistics`.

        Args:
            done: What the consumer has.
        """
        pace, inline = self.pace, self._inline
        now = perf_counter() if pace.ended is None else pace.ended
        seconds = now - pace.began
        watches = list(self._stopwatches)
        samples = sum(each.samples for each in watches)
        weighed = sum(each.nbytes for each in watches)
        stages = self._stages(watches, now) if self._final is None else self._final
        if pace.ended is not None:  # what threads finish afterwards is not the epoch's any more
            self._final = stages
        reads = any(each.worker == READER for each in watches)
        waited = pace.waited_until(now) if inline is None else stages.total - stages.idle
        if inline is None or reads:
            waits = Percentiles.of(pace.latest_waits())
        else:
            waits = Percentiles.weighted(inline.latest())
        return {
            "seconds": seconds,
            "nbytes": round(weighed / samples * done.delivered) if samples else 0,
            "samples_per_second": done.delivered / seconds if seconds > 0 else 0.0,
            "recent_samples_per_second": pace.recent_rate(now, done.delivered),
            "stages": stages,
            "batch_seconds": Percentiles.weighted([pair for each in watches for pair in each.latest()]),
            "wait_seconds": waits,
            "consumer_wait": min(waited, seconds),
            "cpu": _cpu(watches, now),
        }

    def end(self) -> None:
        """Note that the epoch is over; safe from finalisers."""
        self.pace.end()

    def _stages(self, watches: list[Stopwatch], now: float) -> StageSeconds:
        sums: defaultdict[str, float] = defaultdict(float)
        sums["compile"] += self._prepared
        read = 0.0
        for each in watches:
            mine = each.seconds(now)
            for stage, value in mine.items():
                sums[_NAMES.get(stage, "fetch")] += value
            if each.worker == READER:
                read += sum(mine.values())
            else:
                sums["idle"] += max(0.0, each.lifetime(now) - sum(mine.values()))
        if self._inline is not None:  # one thread does all of it
            sums["idle"] = max(0.0, sums["idle"] - read)
        return StageSeconds(**sums)


def _cpu(watches: list[Stopwatch], now: float) -> WorkerCpu | None:
    known = [each for each in watches if each.asked or each.worker == READER]
    wall, asked = sum(each.busy(now) for each in known), sum(each.asked for each in known)
    if wall <= 0.0 or not asked:
        return None
    share = min(1.0, sum(each.cpu for each in known) / wall)
    return WorkerCpu(share, sum(each.wanted for each in known) / asked)
