"""A machine of any size to load in: its memory is what is alive of the samples made on it.

Each sample is an array whose end is noticed, so what a probe of this machine reads is what the loader and the
consumer hold at that moment: nothing is simulated but the size of the machine and its neighbours.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy

KB = 1000
MB = 1000 * KB


class Machine:
    """Memory with a limit.

    Args:
        limit: Bytes; may be changed while running.

    Attributes:
        others: Bytes that neighbours use.
        peak: The most that was used at once.
        readings: How often it was asked.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.others = 0
        self.peak = 0
        self.readings = 0
        self._alive = 0
        self._lock = threading.RLock()  # an array may end while another one is counted

    @property
    def used(self) -> int:
        return self.others + self._alive

    def probe(self) -> MemoryReading:
        self.readings += 1
        return MemoryReading.of(self.limit, self.used, "machine")

    def policy(self, **fields: Any) -> MemoryPolicy:
        """The default policy on this machine, which does not wait long for what will not come."""
        return MemoryPolicy(
            probe=self.probe, **({"stall": 0.3, "scratch": 0.0, "tune_malloc": False} | fields)
        )

    def make(self, index: int, nbytes: int) -> np.ndarray:
        """A sample: its index, then as many bytes as it has."""
        sample = np.zeros(max(1, nbytes // 8), np.int64)
        sample[0] = index
        with self._lock:
            self._alive += sample.nbytes
            self.peak = max(self.peak, self.used)
        weakref.finalize(sample, self._free, sample.nbytes).atexit = False
        return sample

    def _free(self, nbytes: int) -> None:
        with self._lock:
            self._alive -= nbytes


class Files:
    """A dataset of samples of given sizes.

    Args:
        machine: Where they are loaded.
        sizes: Bytes of each.
        trap: Called with each index before its sample is made.
    """

    def __init__(
        self, machine: Machine, sizes: Sequence[int], trap: Callable[[int], object] = lambda index: None
    ) -> None:
        self.machine = machine
        self.sizes = sizes
        self.trap = trap

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> np.ndarray:
        self.trap(index)
        return self.machine.make(index, self.sizes[index])


class HintedFiles(Files):
    """The same, whose sizes are known beforehand."""

    def nbytes(self, index: int) -> int:
        return self.sizes[index]


class FileBatches(Files):
    """The same, fetched a batch at a time."""

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        return [self[index] for index in indices]


class FileStream:
    """The same as an iterable."""

    def __init__(
        self, machine: Machine, sizes: Sequence[int], trap: Callable[[int], object] = lambda index: None
    ) -> None:
        self._files = Files(machine, sizes, trap)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self._files[index] for index in range(len(self._files)))


KINDS: dict[str, Callable[..., Any]] = {
    "samples": Files,
    "hinted": HintedFiles,
    "batches": FileBatches,
    "stream": FileStream,
}


def told(batch: Sequence[np.ndarray]) -> list[int]:
    """The indices of a batch's samples."""
    return [int(sample[0]) for sample in batch]
