"""How long samples take, and what several threads gain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.crew import Crew, Hand
from nogil_loader.observe.gil import GilMeter, gil_meter

#: Each of the two measurements takes about so long.
SECONDS = 0.5
_LEAST_CALLS, _MOST_CALLS = 2, 200_000
# A share of the GIL that is known less well than this is not worth telling.
_VAGUE = 0.25
# What the meter calls the thread.
_NAME = "worker 0"


@dataclass(frozen=True)
class Speed:
    """Samples of one thread against those of several.

    Attributes:
        threads: How many there were.
        alone: Samples per second of one thread.
        together: Of all of them.
        cpu_alone: CPU seconds of the process per second, with one thread.
        cpu_together: The same with all.
        gil: Share of a sample's time, read alone, at which it holds the GIL; None if that cannot be seen here.
        gil_accuracy: How far chance may have moved it, up or down.
    """

    threads: int
    alone: float
    together: float
    cpu_alone: float
    cpu_together: float
    gil: float | None = None
    gil_accuracy: float = 0.0

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
    calls = max(_LEAST_CALLS, min(_MOST_CALLS, int(SECONDS / max(seconds, 1e-9))))
    with gil_meter() as meter:
        alone = _time(crew, positions, calls, 1, call, meter)
    together = None if alone is None else _time(crew, positions, calls, threads, call)
    if alone is None or together is None:
        return None
    seen = meter.report()
    known = seen.available and seen.samples and seen.accuracy < _VAGUE
    return Speed(
        threads,
        calls / alone[0],
        threads * calls / together[0],
        alone[1],
        together[1],
        min(1.0, seen.by_thread.get(_NAME, 0.0)) if known else None,
        seen.accuracy if known else 0.0,
    )


def _time(
    crew: Crew,
    positions: Sequence[int],
    calls: int,
    threads: int,
    call: Callable[[Hand, int], Any],
    meter: GilMeter | None = None,
) -> tuple[float, float] | None:
    """Return seconds of the wall and share of CPU while each thread makes ``calls`` calls."""
    start = threading.Barrier(threads)
    stuck: list[Hand] = []

    def job(hand: Hand) -> tuple[float, float, float]:
        try:
            start.wait(crew.seconds)
        except threading.BrokenBarrierError:
            return 0.0, 0.0, 0.0
        if meter is not None:
            meter.watch(_NAME)
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
