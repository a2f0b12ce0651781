"""What is tuned, what is measured for it, and what is told about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What may be tuned.
Axis = Literal["num_workers", "prefetch_factor"]


@dataclass(frozen=True)
class Setting:
    """How a loader works.

    Attributes:
        num_workers: Threads that may load.
        prefetch_factor: Batches loaded ahead per worker, beside those being loaded.
    """

    num_workers: int
    prefetch_factor: int


def capacity_of(setting: Setting) -> int:
    """Return how many batches may be on their way: those being loaded, and those ahead; one without workers."""
    return max(1, setting.num_workers * (setting.prefetch_factor + 1))


@dataclass(frozen=True)
class Interval:
    """What was measured while one setting was in use.

    Attributes:
        seconds: How long it took.
        samples: What the consumer received meanwhile.
        wait_share: The share of the time that the consumer waited in ``next()``.
        cpu_share: CPUs that the process kept busy (CPU seconds by seconds); None if unknown.
        memory_tight: Whether the governor held the loader back.
    """

    seconds: float
    samples: int
    wait_share: float
    cpu_share: float | None = None
    memory_tight: bool = False

    @property
    def rate(self) -> float:
        """Samples per second; never 0."""
        return max(self.samples, 0.5) / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class TuningEvent:
    """One thing that tuning tried, changed or gave up.

    Attributes:
        at: Seconds of loading before it.
        setting: What it is about: ``"num_workers"`` or ``"prefetch_factor"``.
        before: Its value.
        after: Its value from then on; the same unless it was changed.
        reason: Why, in words.
    """

    at: float
    setting: Axis
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        change = f"{self.before} → {self.after}" if self.before != self.after else f"{self.after}"
        return f"{self.setting} {change} after {self.at:.1f} s: {self.reason}"


def in_words(axis: Axis, value: int) -> str:
    """Return what a value of something that is tuned means."""
    if axis == "num_workers":
        return f"{value} worker{'s' * (value != 1)}"
    return f"{value} batches ahead per worker"


def most_workers(cores: int) -> int:
    """Return how many workers ``num_workers="auto"`` may try on so many cores.

    Threads that wait for a disk or a network take no CPU time, but each of them loads a batch and has others ahead
    of it, which take memory, and all of them share one GIL and the locks of the hand-off. A small machine needs
    dozens as much as a large one to hide the latency of a network, hence 32; storage seldom serves one client
    faster for more than 64 requests at a time.
    """
    return max(cores, min(64, max(32, 4 * cores)))
