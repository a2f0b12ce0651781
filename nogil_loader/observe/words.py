"""Numbers of an epoch as a person writes them, for bars and log messages."""

from __future__ import annotations

from nogil_loader.engine.statistics import Statistics
from nogil_loader.errors import describe_bytes


def share_of_total(done: int, total: int | None) -> str:
    """Return ``12,800/50,000``, or ``12,800`` where the total is unknown."""
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"


def rate(samples_per_second: float) -> str:
    """Return ``1,234/s``; with a decimal below 10."""
    return f"{samples_per_second:,.0f}/s" if samples_per_second >= 10 else f"{samples_per_second:.1f}/s"


def duration(seconds: float) -> str:
    """Return ``0:34`` or ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def notes(statistics: Statistics) -> list[str]:
    """Return what is worth a word beside the count: the wait and memory always, the rest if it is unusual."""
    told = [f"waits for data {statistics.consumer_wait_share:.0%}"]
    memory = statistics.memory
    if memory is not None and memory.parked:
        told.append("held up by memory")
    if 0 < statistics.workers_alive < statistics.num_workers:
        told.append(f"{statistics.workers_alive} of {statistics.num_workers} workers alive")
    for count, what in (
        (statistics.skipped, "skipped"),
        (statistics.rebuilds, "rebuilt"),
        (statistics.abandoned, "abandoned"),
    ):
        if count:
            told.append(f"{count:,} {what}")
    if memory is not None and memory.limit is not None:
        told.append(f"memory {describe_bytes(memory.used)} of {describe_bytes(memory.limit)}")
    return told
