"""A machine of any size to load in: its memory is what is alive of the samples made on it.

Each sample is an array whose end is noticed, so what a probe of this machine reads is what the loader and the
consumer hold at that moment: nothing is simulated but the size of the machine, its neighbours and its time.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from nogil_loader import sample_rng
from nogil_loader.engine.rations import Rations
from nogil_loader.memory.pool import pool
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.policies import MemoryPolicy
from tests.faults.traps import PATIENCE

KB = 1000
MB = 1000 * KB


class Machine:
    """Memory with a limit.

    Args:
        limit: Bytes; may be changed while running.
        buffers: Whether the blocks of the loader's pool count as well, where large batches are.

    Attributes:
        others: Bytes that neighbours use.
        peak: The most that was used at once.
        readings: How often it was asked.
    """

    def __init__(self, limit: int, *, buffers: bool = False) -> None:
        if buffers:
            gc.collect()  # what would end later would make room
            pool.trim()
        self._foreign = pool.mapped_bytes if buffers else None
        self.limit = limit
        self.others = 0
        self.peak = 0
        self.readings = 0
        self._alive = 0
        self._lock = threading.RLock()  # an array may end while another one is counted
        self._asked = threading.Condition()

    @property
    def used(self) -> int:
        blocks = 0 if self._foreign is None else pool.mapped_bytes - self._foreign
        return self.others + self._alive + blocks

    def probe(self) -> MemoryReading:
        with self._asked:
            self.readings += 1
            self._asked.notify_all()
        return MemoryReading.of(self.limit, self.used, "machine")

    def be_asked(self, times: int = 5) -> None:
        """Wait for so many further readings, as threads take them that wait for memory."""
        with self._asked:
            goal = self.readings + times
            assert self._asked.wait_for(lambda: self.readings >= goal, PATIENCE), "nobody asks"

    def policy(self, **fields: Any) -> MemoryPolicy:
        """The default policy on this machine, which does not wait long for what will not come."""
        chosen: dict[str, Any] = {"probe": self.probe, "stall": 0.3, "scratch": 0.0, "tune_malloc": False}
        return MemoryPolicy(**(chosen | fields))

    def make(self, index: int, nbytes: int, draw: int = 0) -> np.ndarray:
        """A sample: its index, a number drawn for it, then as many bytes as it has."""
        sample = self.count(np.zeros(max(2, nbytes // 8), np.int64))
        sample[:2] = index, draw
        return sample

    def copy(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A collation that copies: samples and batch exist at once."""
        return [self.count(np.array(sample)) for sample in samples]

    def stack(self, samples: Sequence[np.ndarray]) -> np.ndarray:
        """The same, to one array."""
        return self.count(np.stack(samples))

    def count(self, array: np.ndarray) -> np.ndarray:
        """Count an array from here to its end."""
        with self._lock:
            self._alive += array.nbytes
            self.peak = max(self.peak, self.used)
        weakref.finalize(array, self._free, array.nbytes).atexit = False
        return array

    def _free(self, nbytes: int) -> None:
        with self._lock:
            self._alive -= nbytes


class Clock:
    """The usual clock, of which time can be left out, for everything that the loader decides by the time."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let some time have passed."""
        self._skipped += seconds

    def install(self, patch: pytest.MonkeyPatch) -> Clock:
        """Let the epochs that begin from here on go by it."""
        patch.setitem(Rations.__init__.__kwdefaults__, "clock", self)  # type: ignore[arg-type]
        return self


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
        return self.machine.make(index, self.sizes[index], int(sample_rng(index).integers(1 << 60)))


class HintedFiles(Files):
    """The same, whose sizes are known beforehand."""

    def nbytes(self, index: int) -> Any:
        return self.sizes[index]


class ToldFiles(Files):
    """The same, of whose sizes anything may be said.

    Args:
        say: From an index to what is said of its size.
    """

    def __init__(
        self,
        machine: Machine,
        sizes: Sequence[int],
        trap: Callable[[int], object] = lambda index: None,
        *,
        say: Callable[[int], Any],
    ) -> None:
        super().__init__(machine, sizes, trap)
        self.nbytes = say


class FileBatches(Files):
    """The same, fetched a batch at a time."""

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        return [self[index] for index in indices]


class FileStream:
    """The same as an iterable."""

    def __init__(
        self, machine: Machine, sizes: Sequence[int], trap: Callable[[int], object] = lambda index: None
    ) -> None:
        self.machine = machine
        self.sizes = sizes
        self.trap = trap

    def __iter__(self) -> Iterator[np.ndarray]:
        for index, nbytes in enumerate(self.sizes):
            self.trap(index)
            # Not a sum of two lines: a local variable would hold the sample while the next one is made.
            yield self.machine.make(index, nbytes, index * 7919)


KINDS: dict[str, Callable[..., Any]] = {
    "samples": Files,
    "hinted": HintedFiles,
    "batches": FileBatches,
    "stream": FileStream,
}


def told(batch: Iterable[np.ndarray]) -> list[int]:
    """The indices of a batch's samples."""
    return [int(sample[0]) for sample in batch]


def drawn(batch: Iterable[np.ndarray]) -> list[tuple[int, int]]:
    """The indices of a batch's samples, and the number that was drawn for each."""
    return [(int(sample[0]), int(sample[1])) for sample in batch]


class Consumer:
    """Consumes in a thread of its own, for tests in which the consumer has to wait.

    Args:
        batches: What to consume.

    Attributes:
        got: The batches' indices.
        error: What ended it, None for the end of the epoch.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.got: list[list[int]] = []
        self.error: BaseException | None = None
        self._batches = iter(batches)
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        try:
            for batch in self._batches:
                self.got.append(told(batch))
                del batch  # not to be held while the next one is awaited
        except BaseException as error:
            self.error = error

    @property
    def indices(self) -> list[int]:
        return [index for batch in self.got for index in batch]

    def join(self) -> Consumer:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the consumer hangs"
        return self
