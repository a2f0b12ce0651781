"""Loads whose share of the GIL is known from what they did in the very same run.

Bounds, not a number: a processor may be taken away between two clocks. Where no other thread wants the GIL, it is
held for at least the time between the clocks around a section that holds it; else for the time that a sleep with
it was asked for. It is free for at least the time that a sleep without it was asked for.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from nogil_loader.engine import listening
from nogil_loader.observe.gil import GilReport

# For what takes milliseconds; no passing test spends any of it.
PATIENCE = 20.0

_WITH_GIL = ctypes.PyDLL(None)
_WITHOUT_GIL = ctypes.CDLL(None)


def enter(worker: int | str, stage: str) -> None:
    """Do what a loader's thread does when it enters a stage."""
    for listener in listening.listeners:
        listener.enter(worker, stage, perf_counter())


def open_calls() -> list[str]:
    """The files about system calls of threads that this process has open."""
    folder = Path("/proc/self/fd")
    found = []
    for name in os.listdir(folder):
        try:
            target = os.readlink(folder / name)
        except FileNotFoundError:  # the file that lists the files
            continue
        if target.endswith("/syscall"):
            found.append(target)
    return found


def run_threads(*targets: Callable[[], None]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def sleep_with_gil(seconds: float) -> None:
    """Sleep, and let no other thread run Python meanwhile."""
    _WITH_GIL.usleep(round(seconds * 1e6))


def sleep_without_gil(seconds: float) -> None:
    _WITHOUT_GIL.usleep(round(seconds * 1e6))


def spin(seconds: float) -> None:
    """Run Python."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


class Ledger:
    """Adds up what loads did.

    Attributes:
        held: Seconds at least for which the GIL was held, by whatever name.
        free: Seconds at least for which it was free.
    """

    def __init__(self) -> None:
        self.held: defaultdict[str, float] = defaultdict(float)
        self.free = 0.0
        self._lock = threading.Lock()

    def hold(self, name: str, seconds: float, how: Callable[[float], None] = sleep_with_gil) -> None:
        """Hold the GIL when nobody else wants it."""
        began = perf_counter()
        how(seconds)
        self.held[name] += perf_counter() - began

    def contend(self, name: str, seconds: float) -> None:
        """Hold the GIL when others want it too."""
        sleep_with_gil(seconds)
        with self._lock:
            self.held[name] += seconds

    def leave(self, seconds: float) -> None:
        """Leave the GIL free; only one thread of the process may be doing anything."""
        sleep_without_gil(seconds)
        self.free += seconds

    def bounds(self, report: GilReport, name: str | None = None) -> tuple[float, float]:
        """Return the lowest and the highest share that is possible, of all or of one name."""
        total = sum(self.held.values())
        own = total if name is None else self.held[name]
        unknown = report.seconds - total - self.free
        return own / report.seconds, (own + unknown) / report.seconds

    def check(self, report: GilReport, share: float, name: str | None = None) -> None:
        """Assert that a share lies within its bounds.

        Chance may do twice what the report states, which happens in one of 10,000 runs at most.
        """
        low, high = self.bounds(report, name)
        margin = 2 * report.accuracy
        assert low - margin <= share <= high + margin, (low, share, high, report)
