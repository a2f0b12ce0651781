"""How long samples take, and what several threads gain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.crew import Crew, Hand

# Each of the two measurements takes about so long, if there are samples for it.
_SECONDS = 0.5
_LEAST_CALLS = 2


@dataclass(frozen=True)
class Speed:
    """Samples of one thread against those of several.

    Attributes:
        threads: How many there were.
        alone: Samples per second of one thread.
        together: Of all of them.
        cpu_alone: CPU seconds of the process per second, with one thread.
        cpu_together: The same with all.
    """

    threads: int
    alone: float
    together: float
    cpu_alone: float
    cpu_together: float

    @property
    def gain(self) -> float:
        """How many times as fast several threads are."""
        return self.together / self.alone


def measure(
    crew: Crew, positions: Sequence[int], seconds: float, threads: int, call: Callable[[Hand, int], Any]
) -> Speed | None:
    """Measure.

    Args:
        crew: At least ``threads`` threads.
        positions: What is read, in turn.
        seconds: What one call takes alone, about.
        threads: How many read at once.
        call: Reads one; nothing is looked at that it returns.

    Returns:
        None if a call did not return in time.
    """
    calls = max(_LEAST_CALLS, min(len(positions) * 4, int(_SECONDS / max(seconds, 1e-7))))
    alone = _time(crew, positions, calls, 1, call)
    together = None if alone is None else _time(crew, positions, calls, threads, call)
    if alone is None or together is None:
        return None
    return Speed(threads, calls / alone[0], threads * calls / together[0], alone[1], together[1])


def _time(
    crew: Crew, positions: Sequence[int], calls: int, threads: int, call: Callable[[Hand, int], Any]
) -> tuple[float, float] | None:
    """Return seconds of the wall and share of CPU while each thread makes ``calls`` calls."""
    start = threading.Barrier(threads)
    stuck: list[Hand] = []

    def job(hand: Hand) -> tuple[float, float, float]:
        try:
            start.wait(crew.seconds)
        except threading.BrokenBarrierError:
            return 0.0, 0.0, 0.0
        began, cpu = time.perf_counter(), time.process_time()
        for number in range(calls):
            hand.at = positions[(hand.number + number * threads) % len(positions)], time.monotonic()
            call(hand, hand.at[0])
        hand.at = None
        return began, time.perf_counter(), time.process_time() - cpu

    results = crew.do_all([(hand, job) for hand in crew.hands[:threads]], stuck.extend)
    if stuck or len(results) < threads:
        return None
    wall = max(end for _, end, _ in results.values()) - min(begin for begin, _, _ in results.values())
    cpu = max(spent for _, _, spent in results.values())
    return (wall, cpu / wall) if wall > 0 else None
