"""Datasets that fail on purpose: where, how often and with what is said beforehand."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError, sample_rng

#: How a dataset may be read, each with its own path through the engine.
KINDS = ("samples", "batches", "stream")
MAP_KINDS = ("samples", "batches")
WORKERS = (0, 1, 3)

# Bounds what only a defect makes long; every wait in these tests ends by an event or a barrier.
PATIENCE = 20.0

Spring = Callable[[int], object]


class Trap:
    """Springs at chosen indices.

    Args:
        spring: Called with the index; raises, kills, blocks …
        at: The indices.
        times: How often it springs at each of them; None for always.
    """

    def __init__(self, spring: Spring, at: Collection[int], *, times: int | None = None) -> None:
        self.visits: Counter[int] = Counter()
        self._spring = spring
        self._at = frozenset(at)
        self._times = times
        self._lock = threading.Lock()

    def __call__(self, index: int) -> None:
        if index not in self._at:
            return
        with self._lock:
            self.visits[index] += 1
            disarmed = self._times is not None and self.visits[index] > self._times
        if not disarmed:
            self._spring(index)

    def disarm(self) -> None:
        self._at = frozenset()


def safe(index: int) -> None:
    """No trap at all."""


def raises(error: BaseException | type[BaseException]) -> Spring:
    """Raise this very exception, or a new one of this class."""

    def spring(index: int) -> None:
        raise error

    return spring


def killed(error: type[BaseException] = SystemExit) -> Spring:
    """Let the thread be killed from outside, as ``PyThreadState_SetAsyncExc`` does it."""

    def spring(index: int) -> None:
        kill(threading.get_ident(), error)
        for _ in range(10_000_000):
            pass
        pytest.fail("the asynchronous exception did not come")

    return spring


def kill(ident: int | None, error: type[BaseException] = SystemExit) -> None:
    assert strike(ident, error)


def strike(ident: int | None, error: type[BaseException] = SystemExit) -> bool:
    """Kill a thread that may be about to end by itself; False if it has ended."""
    assert ident is not None
    found: int = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error))
    return found == 1


def kill_for_good(thread: threading.Thread, wake: Callable[[], object] = lambda: None) -> None:
    """Kill a thread, again if it survives: an exception that strikes in a finaliser is ignored by Python.

    ``wake`` is called as well, since a thread that waits inside a C function dies only when it comes out.
    """
    deadline = time.monotonic() + PATIENCE
    while thread.is_alive():
        assert time.monotonic() < deadline, f"{thread.name} survives being killed"
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        )
        wake()
        thread.join(1.0)


class Samples:
    """Sample ``index`` is ``[index, draw]``, where the draw is the sample's own random number."""

    def __init__(self, length: int, trap: Spring = safe) -> None:
        self.length = length
        self.trap = trap

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> np.ndarray:
        self.trap(index)
        return np.array([index, sample_rng(index).random()])


class Batches(Samples):
    """The same, fetched a batch at a time."""

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        return [self[index] for index in indices]


class Stream:
    """The same as an iterable, opened as often as asked for."""

    def __init__(self, length: int, trap: Spring = safe) -> None:
        self.length = length
        self.trap = trap
        self.opened = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        self.opened += 1
        for index in range(self.length):
            self.trap(index)
            yield np.array([index, index / 3])


def make(kind: str, length: int, trap: Spring = safe) -> Any:
    """A dataset of one of the ``KINDS``."""
    return {"samples": Samples, "batches": Batches, "stream": Stream}[kind](length, trap)


def indices(batch: Any) -> list[int]:
    """The indices in a batch."""
    return [int(index) for index in batch[:, 0]]


def stream(batches: Iterable[Any]) -> list[list[list[float]]]:
    """Everything in an epoch, indices and draws."""
    return [batch.tolist() for batch in batches]


def cut(length: int, size: int) -> list[list[int]]:
    """The batches of an epoch without shuffling."""
    return [list(range(start, min(start + size, length))) for start in range(0, length, size)]


def until_death(loader: DataLoader | Iterator[Any]) -> tuple[list[list[int]], DeadWorkerError]:
    """The batches up to the error that ends the epoch, and the error."""
    batches: list[list[int]] = []
    try:
        batches.extend(indices(batch) for batch in loader)
    except DeadWorkerError as error:
        return batches, error
    pytest.fail(f"the epoch ended as if it were complete, after {batches}")
