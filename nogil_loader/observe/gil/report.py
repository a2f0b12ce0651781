"""What the GIL meter saw, in numbers, in a sentence, and what to do about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nogil_loader.observe.gil.roster import OTHER_THREADS, Counts, Tally

#: The stage of a loader's thread between two tickets, and of the thread that a meter was started in.
HAND_OFF: Final = "hand-off"
CONSUMER: Final = "consumer"
#: What the threads that load are called, with their number.
WORKER: Final = "worker "

# Two threads that run nothing but Python wait for half of their time. From a little less on, another worker gains
# nothing, and the one that is there not much.
_MUCH_WAITING = 0.4
# For a share of a half, the worst: 1.96 standard deviations of independent looks, which are 0.5 / sqrt(n).
_HALF_WIDTH = 1.96 * 0.5


@dataclass(frozen=True)
class GilReport:
    """What was seen in a period of time. Shares are of 1.

    Attributes:
        available: Whether anything could be seen; if not, shares are ``nan`` and mappings empty.
        reason: Why not. If only the waiting could not be seen, why that.
        seconds: How long was watched.
        samples: How often was looked.
        late: Share of these looks that came more than 0.2 ms late, since the processors were busy.
        held: Share of the time at which any thread had the GIL.
        by_stage: The same by stage of the loaders' threads (``"fetch"``, ``"transform"``, ``"collate"`` …,
            ``"hand-off"`` between two batches), ``"consumer"``, and what other threads were called. Adds up to
            ``held``.
        by_thread: The same by thread: ``"worker 0"`` …, ``"consumer"``, ``"other threads"``. Adds up to ``held``.
        waiting: By thread the share of its time at which it slept because others had the GIL; None if that cannot
            be seen here. A thread that is awake and waits for a processor does not count, so where more threads
            want to run than there are processors, more of them may want the GIL than is told.
        waiting_by_stage: By stage of the loaders' threads the share of its time at which they waited for the GIL.
        workers_waiting: The share of their time at which the workers waited for it, all together.
        accuracy: Half the width of an interval around each share of the time; the true one is outside in 5 of 100
            cases at most. It is what chance does with so many looks, and all late ones on top.
        waiting_accuracy: The same for ``workers_waiting``.
    """

    available: bool
    reason: str = ""
    seconds: float = 0.0
    samples: int = 0
    late: float = 0.0
    held: float = math.nan
    by_stage: dict[str, float] = field(default_factory=dict)
    by_thread: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] | None = None
    waiting_by_stage: dict[str, float] | None = None
    workers_waiting: float | None = None
    accuracy: float = math.nan
    waiting_accuracy: float = math.nan

    def sentence(self) -> str:
        """Say it in words."""
        if not self.available:
            return f"The GIL was not watched: {self.reason}."
        if not self.samples:
            return "The GIL was watched too briefly to say anything."
        parts = ", ".join(f"{name} {_percent(share)}" for name, share in self.by_stage.items())
        told = (
            f"The GIL was held for {_percent(self.held)} of {self.seconds:.1f} s (±{_percent(self.accuracy)})"
        )
        told += f": {parts}." if parts else "."
        if self.workers_waiting is not None:
            told += f" The workers waited for it for {_percent(self.workers_waiting)} of their time."
        return told

    def advice(self) -> str:
        """Say what to do; empty if the workers have the GIL when they want it, or nobody knows."""
        if self.workers_waiting is None or self.workers_waiting < _MUCH_WAITING:
            return ""
        stage, share = next(iter(self.by_stage.items()), ("", 0.0))
        told = "The workers wait for the GIL most of the time, so more of them will load nothing faster."
        if stage in (CONSUMER, OTHER_THREADS):
            told += f" It is held by {'the thread that takes the batches' if stage == CONSUMER else stage}"
            told += f" for {_percent(share)} of the time: look there first."
        elif stage:
            told += f" Most of the time it is held {'by' if stage in self.by_thread else 'in'} {stage}."
        return (
            f"{told} Run less Python per sample: compiled transforms (nogil_loader.transforms, "
            "@nogil_loader.kernel) need no GIL, __getitems__ fetches a whole batch in one call, and a Python "
            "without a GIL (free-threaded, 3.13t or newer) has nothing to wait for. Workers in processes of their "
            "own would help, and are not available in this release."
        )

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.sentence(), self.advice())))


def make_report(counts: Counts, seconds: float, *, waits: bool, reason: str) -> GilReport:
    """Return what follows from counts.

    Args:
        counts: The counts.
        seconds: In how many seconds.
        waits: Whether it was looked for waiting threads.
        reason: Why it was not.
    """
    samples, tallies = counts.samples, counts.tallies
    if not samples:
        return GilReport(True, reason, seconds)
    by_stage, by_thread = Counter[str](), Counter[str]()
    for (name, stage), tally in tallies.items():
        by_stage[stage] += tally.held
        by_thread[name] += tally.held
    by_stage[OTHER_THREADS] += counts.others
    by_thread[OTHER_THREADS] += counts.others
    late = counts.late / samples
    report = GilReport(
        available=True,
        reason=reason,
        seconds=seconds,
        samples=samples,
        late=late,
        held=sum(by_thread.values()) / samples,
        by_stage=_shares(by_stage, samples),
        by_thread=_shares(by_thread, samples),
        accuracy=_accuracy(samples, late),
    )
    return replace(report, **_waiting(tallies, late)) if waits else report


def _waiting(tallies: Mapping[tuple[str, str], Tally], late: float) -> dict[str, Any]:
    waits, seen = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (name, stage), tally in tallies.items():
        groups = [("thread", name)]
        if name.startswith(WORKER):
            groups += [("stage", stage), ("workers", "")]
        for group in groups:
            waits[group] += tally.waits
            seen[group] += tally.seen
    shares = {group: waits[group] / count for group, count in seen.items() if count}
    workers = ("workers", "")
    return {
        "waiting": {name: share for (kind, name), share in shares.items() if kind == "thread"},
        "waiting_by_stage": {name: share for (kind, name), share in shares.items() if kind == "stage"},
        "workers_waiting": shares.get(workers),
        "waiting_accuracy": _accuracy(seen[workers], late) if seen[workers] else math.nan,
    }


def _accuracy(samples: int, late: float) -> float:
    return min(1.0, _HALF_WIDTH / math.sqrt(samples) + late)


def _shares(counts: Mapping[str, int], samples: int) -> dict[str, float]:
    """Return shares, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return {name: count / samples for name, count in ordered if count}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
