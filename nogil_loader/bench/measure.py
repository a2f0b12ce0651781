"""One measurement: how many samples come in so many seconds, from a loader that is running already.

The clock starts when the pipeline is full and stops at a batch, so that what is counted was made meanwhile. The
consumer does nothing but ask for the next batch. A dataset that ends before the time does is read again, and
beginning an epoch then counts as it does in training.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from nogil_loader.bench.feeds import Feed
from nogil_loader.errors import LoaderError

# Workers finish in bursts, so a measurement that ends at a batch may have counted one more of each worker or one
# less. Slow batches are given up to so many times the seconds for as many of each worker as this.
_BATCHES_PER_WORKER = 4
_MOST_TIMES = 5.0


@dataclass(frozen=True)
class Reading:
    """What was counted.

    Attributes:
        samples: That came.
        batches: That came.
        seconds: It took.
        cpu_seconds: Of the process and its children meanwhile; None if unknown.
        other_seconds: CPU time of everything else on the machine meanwhile; None if unknown.
        epochs: That were begun meanwhile.
    """

    samples: int
    batches: int
    seconds: float
    cpu_seconds: float | None
    other_seconds: float | None
    epochs: int

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds


class Reader:
    """Reads a feed epoch after epoch.

    Attributes:
        batches: That came so far.
        epochs: That were begun so far.
    """

    def __init__(self, feed: Feed) -> None:
        self.batches = 0
        self.epochs = 0
        self._feed = feed
        self._stream = self._read()

    def _read(self) -> Iterator[None]:
        while True:
            before = self.batches
            self.epochs += 1
            for _ in self._feed.epoch():
                self.batches += 1
                yield
            if self.batches == before:
                raise LoaderError("an epoch has no batch: there are no samples, or too few for a whole batch")

    def fill(self, batches: int, seconds: float) -> None:
        """Read so many batches, but no longer than so many seconds; one at least."""
        until = perf_counter() + seconds
        for _ in self._stream:
            if self.batches >= batches or perf_counter() >= until:
                return

    def read(self, seconds: float, workers: int) -> Reading:
        """Count what comes in so many seconds, or a little longer for the sake of whole batches."""
        least = self.batches + _BATCHES_PER_WORKER * max(1, workers)
        samples, batches, epochs = self._feed.delivered(), self.batches, self.epochs
        own, everybody = cpu_seconds(), busy_seconds()
        start = perf_counter()
        for _ in self._stream:
            elapsed = perf_counter() - start
            if elapsed >= seconds and (self.batches >= least or elapsed >= _MOST_TIMES * seconds):
                break
        elapsed = perf_counter() - start
        used = _added(own, cpu_seconds())
        others = None if used is None else max(0.0, busy_seconds() - everybody - used)
        return Reading(
            self._feed.delivered() - samples,
            self.batches - batches,
            elapsed,
            used,
            others,
            self.epochs - epochs,
        )


def _added(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def cpu_seconds() -> float | None:
    """Return the CPU time of this process and the children that it has now; None if unknown."""
    import psutil

    own = psutil.Process()
    total = 0.0
    try:
        for process in (own, *own.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    except psutil.Error:
        return None
    return total


def busy_seconds() -> float:
    """Return the CPU time of all processes of the machine since it was started."""
    import psutil

    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def peak_bytes() -> int | None:
    """Return the most that this process ever had in memory; None if unknown."""
    import psutil

    with contextlib.suppress(OSError):
        # Not what getrusage says on Linux: that includes the process that this one was forked from.
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)  # kilobytes elsewhere


def used_bytes(children: list[Any]) -> int:
    """Return what this process and these children have in memory; what they share is counted once."""
    import psutil

    own = psutil.Process()
    if not children:
        return int(own.memory_info().rss)
    total = 0
    for process in (own, *children):
        try:
            info = process.memory_full_info()
        except psutil.Error:  # it has ended meanwhile
            continue
        total += getattr(info, "pss", info.uss)
    return total
