"""Datasets with one fault each, as they are met in practice, and datasets without any."""

from __future__ import annotations

import collections
import functools
import gc
import io
import itertools
import os
import random
import sqlite3
import struct
import sys
import tarfile
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nogil_loader as nl

LENGTH = 24
_RECORD = struct.Struct("<q32s")
# A thread that waits for a test that has gone ends by itself.
_PATIENCE = 30.0


def record(index: int) -> bytes:
    return _RECORD.pack(index, bytes([index % 251]) * 32)


def image(index: int) -> np.ndarray:
    return np.random.default_rng(index).integers(256, size=(8, 8, 3), dtype=np.uint8)


class Dataset:
    """Has a length and a folder of its own."""

    length = LENGTH

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return self.length

    def close(self) -> None:
        """Close what was opened, let go of what waits."""


# Handles that have one position


class SharedFile(Dataset):
    """Seeks and reads in a file that all threads share."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        path = folder / "records.bin"
        path.write_bytes(b"".join(record(index) for index in range(self.length)))
        self.file = path.open("rb")

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        self.file.seek(index * _RECORD.size)
        number, payload = _RECORD.unpack(self.file.read(_RECORD.size))
        return {"number": number, "payload": np.frombuffer(payload, np.uint8)}

    def close(self) -> None:
        self.file.close()


class UnbufferedFile(SharedFile):
    """The same without a buffer: each call goes to the system."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file.close()
        self.file = (folder / "records.bin").open("rb", buffering=0)  # type: ignore[assignment]


class LinesByOffset(Dataset):
    """Lines of a text file, found by their offsets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        path = folder / "lines.txt"
        path.write_text("".join(f"{index}," + "x" * (index % 7) + "\n" for index in range(self.length)))
        self.offsets = []
        self.file: Any = path.open("rb")
        while True:
            offset = self.file.tell()
            if not self.file.readline():
                break
            self.offsets.append(offset)

    def __getitem__(self, index: int) -> Any:
        self.file.seek(self.offsets[index])
        return self.file.readline().decode().rstrip()

    def close(self) -> None:
        self.file.close()


class SharedZipMember(Dataset):
    """Seeks and reads in one member of a zip archive, opened once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with zipfile.ZipFile(folder / "data.zip", "w") as archive:
            archive.writestr("records", b"".join(record(index) for index in range(self.length)))
        self.archive = zipfile.ZipFile(folder / "data.zip")
        self.member = self.archive.open("records")

    def __getitem__(self, index: int) -> Any:
        self.member.seek(index * _RECORD.size)
        return _RECORD.unpack(self.member.read(_RECORD.size))[0]

    def close(self) -> None:
        self.member.close()
        self.archive.close()


class SharedTar(Dataset):
    """Members of a tar archive, read through the archive's only file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with tarfile.open(folder / "data.tar", "w") as archive:
            for index in range(self.length):
                info = tarfile.TarInfo(f"{index}.npy")
                data = image(index).tobytes()
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        self.archive = tarfile.open(folder / "data.tar")  # noqa: SIM115 - it stays open
        self.members = self.archive.getmembers()

    def __getitem__(self, index: int) -> np.ndarray:
        member = self.archive.extractfile(self.members[index])
        assert member is not None
        return np.frombuffer(member.read(), np.uint8).reshape(8, 8, 3)

    def close(self) -> None:
        self.archive.close()


class OwnCursor(Dataset):
    """Remembers where it is, and reads from there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.values = np.arange(self.length * 4, dtype=np.int32).reshape(-1, 4)
        self.cursor = 0

    def seek(self, index: int) -> None:
        self.cursor = index

    def read(self) -> Any:
        return self.values[self.cursor].copy()

    def __getitem__(self, index: int) -> Any:
        self.seek(index)
        return self.read()


class Connection(Dataset):
    """A connection of sqlite3 that was made in another thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.connection = sqlite3.connect(folder / "data.db")
        self.connection.execute("create table if not exists t (i integer, v integer)")
        self.connection.executemany("insert into t values (?, ?)", [(i, i * i) for i in range(self.length)])

    def __getitem__(self, index: int) -> int:
        return int(self.connection.execute("select v from t where i = ?", [index]).fetchone()[0])

    def close(self) -> None:
        self.connection.close()


class LazyConnection(Connection):
    """The same, opened at the first call and then used by whoever comes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.connection.commit()
        self.connection.close()
        self.connection = None  # type: ignore[assignment]

    def __getitem__(self, index: int) -> int:
        if self.connection is None:
            self.connection = sqlite3.connect(self.folder / "data.db")  # type: ignore[unreachable]
        return super().__getitem__(index)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # no other thread can close it
            self.connection = None  # type: ignore[assignment]
            gc.collect()  # it is in a circle


class SharedCursor(Connection):
    """One cursor for all threads; the connection allows that."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.connection.commit()
        self.connection.close()
        self.connection = sqlite3.connect(folder / "data.db", check_same_thread=False)
        self.cursor = self.connection.cursor()

    def __getitem__(self, index: int) -> int:
        self.cursor.execute("select v from t where i = ?", [index])
        return int(self.cursor.fetchone()[0])


# Memory that is used again


class ReusedBuffer(Dataset):
    """Decodes into one buffer and returns it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.buffer = np.zeros((8, 8, 3), np.uint8)

    def __getitem__(self, index: int) -> np.ndarray:
        np.copyto(self.buffer, image(index))
        return self.buffer


class CopiedBuffer(ReusedBuffer):
    """Decodes into one buffer and returns a copy: right, but for threads."""

    def __getitem__(self, index: int) -> np.ndarray:
        np.copyto(self.buffer, image(index))
        return self.buffer.copy()


class LargeBuffer(Dataset):
    """A buffer that is filled by code without the GIL."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.buffer = np.zeros(200_000)

    def __getitem__(self, index: int) -> float:
        np.multiply(np.ones(200_000), index, out=self.buffer)
        return float(self.buffer.sum())


class RingOfBuffers(Dataset):
    """Four buffers in turn."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.buffers = itertools.cycle([np.zeros(16, np.int64) for _ in range(4)])

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        buffer = next(self.buffers)
        buffer[:] = index
        return {"x": buffer}


class ThreadsBuffer(Dataset):
    """Each thread has its buffer, and returns it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.local = threading.local()

    def __getitem__(self, index: int) -> Any:
        if not hasattr(self.local, "buffer"):
            self.local.buffer = np.zeros(16, np.int64)
        self.local.buffer[:] = index
        return self.local.buffer


class NormalizedInPlace(Dataset):
    """Returns rows of one array, and changes them each time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rows = np.random.default_rng(0).random((self.length, 8)).astype(np.float32)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        row *= 0.5
        return row


class ViewsWrittenLater(Dataset):
    """Returns views of a window that moves over the data."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.window = np.zeros((10, 4), np.int64)

    def __getitem__(self, index: int) -> Any:
        self.window[index % 10] = index
        return self.window[index % 10]


# State that calls change


class Counter(Dataset):
    """Counts its calls: the samples are right, the count is not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls = 0

    def __getitem__(self, index: int) -> int:
        self.calls += 1
        return index * 3


class CountsByKey(Dataset):
    """Counts by key, with some work between reading and writing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.statistics: dict[str, int] = {"reads": 0}

    def __getitem__(self, index: int) -> int:
        reads = self.statistics["reads"]
        value = sum(range(index))
        self.statistics["reads"] = reads + 1
        return value


class CountsReads(Dataset):
    """Says how often a sample was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads: dict[int, int] = {}

    def __getitem__(self, index: int) -> int:
        self.reads[index] = self.reads.get(index, 0) + 1
        return self.reads[index]


class SmallCache(Dataset):
    """Forgets the oldest of its samples, perhaps the one that somebody has just found in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cache: dict[int, np.ndarray] = {}

    def __getitem__(self, index: int) -> np.ndarray:
        if index in self.cache:
            return self.cache[index]
        if len(self.cache) >= 8:
            self.cache.pop(next(iter(self.cache)))
        self.cache[index] = image(index)
        return self.cache[index]


class LastOne(Dataset):
    """Keeps the last sample, in two attributes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.last = -1
        self.value: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.last != index:
            self.last = index
            self.value = image(index)
        return self.value


class GoesOverCache(Dataset):
    """Goes over a dict that another thread makes longer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.recent: dict[int, int] = {}

    def __getitem__(self, index: int) -> int:
        self.recent[index] = index
        for key in self.recent:
            if key == -1:
                break
        if len(self.recent) > 12:
            self.recent = {}
        return index


class ParametersOnSelf(Dataset):
    """A transform that keeps what it has drawn."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.row = np.arange(64)
        self.top = 0

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.top = int(nl.sample_rng().integers(32))
        return self.row[self.top : self.top + 8], self.row[self.top : self.top + 8]


class LazyHandle(Dataset):
    """Opens its file at the first call, in two steps."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        path = folder / "lazy.bin"
        path.write_bytes(bytes(range(self.length)))
        self.fd: int | None = None
        self.size: int | None = None

    def __getitem__(self, index: int) -> int:
        if self.fd is None:
            self.fd = os.open(self.folder / "lazy.bin", os.O_RDONLY)
            self.size = os.fstat(self.fd).st_size
        assert self.size is not None, "not initialised"
        if index >= self.size:
            raise IndexError(index)
        return os.pread(self.fd, 1, index)[0]


class OpenedTwice(SharedFile):
    """Opens its file at the first call, in whichever thread that is, and reads under a lock."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file.close()
        self.file = None  # type: ignore[assignment]
        self.lock = threading.Lock()

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = (self.folder / "records.bin").open("rb")  # type: ignore[unreachable]
        with self.lock:
            return super().__getitem__(index)


class LazyIndex(Dataset):
    """Builds its index at the first call, where others can see it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.index: dict[int, int] | None = None

    def __getitem__(self, index: int) -> int:
        if self.index is None:
            self.index = {}
            for key in range(self.length):
                self.index[key] = key * 7
        return self.index[index]


class LazyReader(Dataset):
    """The reader inside opens its file at the first call; the dataset itself holds nothing but the reader."""

    class Reader:
        def __init__(self, path: Path) -> None:
            self.path = path
            self.offsets: list[int] = []

        def offset(self, index: int) -> int:
            if not self.offsets:
                for key in range(LENGTH):
                    self.offsets.append(key * 2)
            return self.offsets[index]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reader = self.Reader(folder / "lazy.bin")

    def __getitem__(self, index: int) -> int:
        return self.reader.offset(index)


class SharedGenerator(Dataset):
    """Takes the next of a generator, whatever the index."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.numbers = self.endless()

    def endless(self) -> Iterator[int]:
        number = 0
        while True:
            number += 1
            yield number

    def __getitem__(self, index: int) -> int:
        return next(self.numbers)


class Tokenizer:
    """Refuses a second thread, as objects made in Rust do."""

    def __init__(self) -> None:
        self.borrowed = False

    def encode(self, text: str) -> list[int]:
        if self.borrowed:
            raise RuntimeError("Already borrowed")
        self.borrowed = True
        try:
            return [ord(letter) for letter in text]
        finally:
            self.borrowed = False


class SharedTokenizer(Dataset):
    """All threads use one tokenizer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tokenizer = Tokenizer()

    def __getitem__(self, index: int) -> list[int]:
        return self.tokenizer.encode(f"sample {index:03}")


class Sleeper(Dataset):
    """Keeps its index on itself while it waits for a disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.wanted = 0

    def __getitem__(self, index: int) -> int:
        self.wanted = index
        time.sleep(0.0005)
        return self.wanted * 5


class GlobalVariable(Dataset):
    """Keeps its index in the module."""

    def __getitem__(self, index: int) -> int:
        global _current
        _current = index
        return _twice()


_current = 0


def _twice() -> int:
    return _current * 2


class ThreadDependent(Dataset):
    """A value that depends on who reads."""

    def __getitem__(self, index: int) -> int:
        return index * 1000 + threading.get_ident() // 4096 % 1000


class MainThreadDependent(Dataset):
    """A value that is another one in the main thread."""

    def __getitem__(self, index: int) -> int:
        return index if threading.current_thread() is threading.main_thread() else -index - 1


# Random numbers


class NumpyRandom(Dataset):
    def __getitem__(self, index: int) -> np.ndarray:
        return np.random.rand(3)


class PythonRandom(Dataset):
    def __getitem__(self, index: int) -> Any:
        return image(index)[:, ::-1] if random.random() < 0.5 else image(index)


class TorchRandom(Dataset):
    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.rand(3)


class SeedsNumpy(Dataset):
    """Seeds the global generator with its index: reproducible, but for threads."""

    def __getitem__(self, index: int) -> np.ndarray:
        np.random.seed(index)
        return np.random.rand(4)


class OwnGenerator(Dataset):
    """Draws from a generator of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> float:
        return float(self.rng.random())


class Clock(Dataset):
    """Says when it was asked."""

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, time.perf_counter()


# Samples that fail


class Damaged(Dataset):
    def __getitem__(self, index: int) -> int:
        if index in (3, 17):
            raise ValueError(f"sample {index} is damaged")
        return index


class UsedUp(Dataset):
    def __getitem__(self, index: int) -> int:
        return next(iter(range(index, index + (index != 5))))


class Quits(Dataset):
    def __getitem__(self, index: int) -> int:
        if index == 7:
            sys.exit("no more samples")
        return index


class Hangs(Dataset):
    """Waits for what never comes, until the test lets it go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.never = threading.Event()

    def __getitem__(self, index: int) -> int:
        if index == 11:
            self.never.wait(_PATIENCE)
        return index

    def close(self) -> None:
        self.never.set()


class Deadlocks(Dataset):
    """Takes two locks, in an order that depends on the index."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.locks = threading.Lock(), threading.Lock()
        self.over = threading.Event()

    def take(self, lock: threading.Lock) -> None:
        ends = time.monotonic() + _PATIENCE
        while not self.over.is_set() and time.monotonic() < ends:
            if lock.acquire(timeout=0.05):
                return
        raise TimeoutError("nobody has let go of the lock")

    def __getitem__(self, index: int) -> int:
        first, second = self.locks if index % 2 else self.locks[::-1]
        self.take(first)
        try:
            self.take(second)
            try:
                return index * 11
            finally:
                second.release()
        finally:
            first.release()

    def close(self) -> None:
        self.over.set()


class WaitsForAnother(Dataset):
    """Waits for a thread that comes second while it holds what that one needs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()
        self.inside = 0
        self.go = threading.Event()

    def __getitem__(self, index: int) -> int:
        self.inside += 1
        is_alone = self.inside == 1
        try:
            if not is_alone:
                self.go.wait(_PATIENCE)
            return index + sum(range(5))
        finally:
            self.inside -= 1

    def close(self) -> None:
        self.go.set()


# Samples that do not fit together


class Ragged(Dataset):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"tokens": np.arange(3 + index % 5), "label": index % 2}


class RaggedLists(Dataset):
    def __getitem__(self, index: int) -> list[int]:
        return list(range(2 + index % 3))


class RaggedImages(Dataset):
    def __getitem__(self, index: int) -> np.ndarray:
        return np.zeros((8, 8 + index % 2, 3), np.uint8)


class MixedDtypes(Dataset):
    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(4, index, np.float32 if index % 4 else np.float64)


class MixedKinds(Dataset):
    def __getitem__(self, index: int) -> Any:
        return {"x": index} if index % 9 else {"x": str(index)}


class MissingKeys(Dataset):
    def __getitem__(self, index: int) -> dict[str, int]:
        return {"x": index} if index == 4 else {"x": index, "y": 1}


class Nones(Dataset):
    def __getitem__(self, index: int) -> Any:
        return {"x": index, "mask": None if index == 6 else np.zeros(2)}


class HeavyTail(Dataset):
    def __getitem__(self, index: int) -> bytes:
        return bytes(1_000_000 if index == 21 else 100)


# More than __getitem__


class WrongOrder(Dataset):
    """Sorts the indices, as a file is fastest read."""

    def __getitem__(self, index: int) -> int:
        return index * 2

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in sorted(indices)]


class WrongLength(Dataset):
    """Answers repeated indices once."""

    def __getitem__(self, index: int) -> int:
        return index * 2

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in dict.fromkeys(indices)]


class OtherValues(Dataset):
    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(3, index, np.float32)

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        return list(np.repeat(np.asarray(indices), 3).reshape(-1, 3))


class SharedBatchBuffer(Dataset):
    """Fetches batches into one buffer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.buffer: list[np.ndarray] = []

    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(3, index)

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        self.buffer = [self[index] for index in indices]
        return list(self.buffer)


class TooLong(Dataset):
    """Promises samples that are not there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.values = list(range(self.length - 4))

    def __getitem__(self, index: int) -> int:
        return self.values[index]


class TooShort(TooLong):
    """Has samples that nobody asks for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.values = list(range(self.length + 9))


class WrongHint(Dataset):
    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(1000, index)

    def nbytes(self, index: int) -> int:
        return 100


class FailingHint(WrongHint):
    def nbytes(self, index: int) -> int:
        raise OSError("no such header")


# Iterables


class Stream:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Any]:
        yield from range(20)

    def close(self) -> None: ...


class FailingStream(Stream):
    def __iter__(self) -> Iterator[Any]:
        for number in range(20):
            if number == 9:
                raise OSError("the connection was lost")
            yield number


class ReusingStream(Stream):
    def __iter__(self) -> Iterator[Any]:
        buffer = np.zeros(4)
        for number in range(20):
            buffer[:] = number
            yield buffer


class OnceOnly(Stream):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.numbers = iter(range(20))

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return next(self.numbers)


class OneIterator(OnceOnly):
    def __iter__(self) -> Iterator[int]:
        yield from self.numbers


class LyingStream(Stream):
    def __len__(self) -> int:
        return 25


#: Each fault with the kinds of finding of which one has to come up. Those marked as errors make the exit code 1.
FAULTS: dict[Callable[[Path], Any], set[str]] = {
    SharedFile: {"differs"},
    UnbufferedFile: {"differs"},
    LinesByOffset: {"differs"},
    SharedZipMember: {"differs", "raises-in-threads"},
    SharedTar: {"differs", "raises-in-threads"},
    OwnCursor: {"differs"},
    Connection: {"thread-bound"},
    LazyConnection: {"thread-bound"},
    SharedCursor: {"differs", "raises-in-threads"},
    ReusedBuffer: {"overwritten"},
    CopiedBuffer: {"differs"},
    LargeBuffer: {"differs"},
    RingOfBuffers: {"overwritten"},
    ThreadsBuffer: {"overwritten"},
    NormalizedInPlace: {"overwritten", "changes"},
    ViewsWrittenLater: {"overwritten"},
    Counter: {"lost-update"},
    CountsByKey: {"lost-update"},
    CountsReads: {"lost-update"},
    SmallCache: {"raises-in-threads"},
    LastOne: {"differs"},
    GoesOverCache: {"raises-in-threads"},
    ParametersOnSelf: {"differs"},
    LazyHandle: {"raises-in-threads"},
    OpenedTwice: {"opened-twice"},
    LazyIndex: {"raises-in-threads"},
    LazyReader: {"raises-in-threads"},
    SharedGenerator: {"raises-in-threads", "changes"},
    SharedTokenizer: {"raises-in-threads"},
    Sleeper: {"differs"},
    GlobalVariable: {"differs"},
    ThreadDependent: {"depends-on-thread"},
    MainThreadDependent: {"depends-on-thread"},
    NumpyRandom: {"random-global"},
    PythonRandom: {"random-global"},
    SeedsNumpy: {"differs"},
    OwnGenerator: {"random-own"},
    Clock: {"changes"},
    Damaged: {"raises"},
    UsedUp: {"raises"},
    Quits: {"raises"},
    Hangs: {"hangs"},
    Deadlocks: {"deadlock"},
    WaitsForAnother: {"hangs-in-threads", "deadlock"},
    Ragged: {"ragged"},
    RaggedLists: {"ragged"},
    RaggedImages: {"ragged"},
    MixedDtypes: {"dtypes"},
    MixedKinds: {"structure"},
    MissingKeys: {"structure"},
    Nones: {"none"},
    HeavyTail: {"heavy-tail"},
    WrongOrder: {"batches"},
    WrongLength: {"batches"},
    OtherValues: {"batches"},
    SharedBatchBuffer: {"differs"},
    TooLong: {"length"},
    TooShort: {"length"},
    WrongHint: {"hint"},
    FailingHint: {"hint"},
    FailingStream: {"raises"},
    ReusingStream: {"overwritten"},
    OnceOnly: {"not-repeatable"},
    OneIterator: {"not-repeatable"},
    LyingStream: {"length"},
}

TORCH_FAULTS: dict[Callable[[Path], Any], set[str]] = {TorchRandom: {"random-global"}}

#: What is no fault of the data, so that the exit code stays 0.
HARMLESS = {
    "changes",
    "random-global",
    "random-own",
    "ragged",
    "dtypes",
    "structure",
    "none",
    "heavy-tail",
    "hint",
    "not-repeatable",
    "opened-twice",
}


# Datasets without a fault


class Locked(SharedFile):
    """A file that all threads share, one at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()

    def __getitem__(self, index: int) -> Any:
        with self.lock:
            return super().__getitem__(index)


class ByPosition(SharedFile):
    """The same file, read without its position."""

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return os.pread(self.file.fileno(), _RECORD.size, index * _RECORD.size)


class FilePerSample(Dataset):
    """A file for each sample."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for index in range(self.length):
            np.save(folder / f"{index}.npy", image(index))

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return np.load(self.folder / f"{index}.npy"), index


class Encoded(Dataset):
    """Images that Pillow decodes from memory."""

    def __init__(self, folder: Path) -> None:
        from PIL import Image

        super().__init__(folder)
        self.files = []
        for index in range(self.length):
            sink = io.BytesIO()
            Image.fromarray(image(index)).save(sink, "PNG")
            self.files.append(sink.getvalue())

    def __getitem__(self, index: int) -> dict[str, Any]:
        from PIL import Image

        with Image.open(io.BytesIO(self.files[index])) as opened:
            return {"image": np.asarray(opened.convert("RGB")), "label": index % 3}


class FilePerThread(SharedFile):
    """Each thread opens the file for itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file.close()
        self.local = threading.local()
        self.opened: list[Any] = []

    def __getitem__(self, index: int) -> Any:
        if not hasattr(self.local, "file"):
            self.local.file = (self.folder / "records.bin").open("rb")
            self.opened.append(self.local.file)
        self.local.file.seek(index * _RECORD.size)
        return _RECORD.unpack(self.local.file.read(_RECORD.size))[0]

    def close(self) -> None:
        for file in self.opened:
            file.close()


class LazyUnderLock(Dataset):
    """Builds an index at the first call, under a lock, and shows it when it is complete."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()
        self.index: dict[int, int] | None = None

    def __getitem__(self, index: int) -> int:
        if self.index is None:
            with self.lock:
                if self.index is None:
                    self.index = {key: key * 7 for key in range(self.length)}
        return self.index[index]


class CachesForever(Dataset):
    """A cache that only grows: two threads may compute one sample twice, to the same end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cache: dict[int, np.ndarray] = {}

    def __getitem__(self, index: int) -> np.ndarray:
        if index not in self.cache:
            self.cache[index] = image(index)
        return self.cache[index].copy()


class CountsUnderLock(Dataset):
    """Counts what it finds in its cache, under a lock that it lets go of while it reads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lock = threading.Lock()
        self.hits = self.misses = 0
        self.cache: collections.OrderedDict[int, Any] = collections.OrderedDict()

    def __getitem__(self, index: int) -> Any:
        with self.lock:
            if index in self.cache:
                self.hits += 1
                return self.cache[index].copy()
            self.misses += 1
        value = image(index)
        with self.lock:
            self.cache[index] = value
            if len(self.cache) > 8:
                self.cache.popitem(last=False)
        return value.copy()


class Memoised(Dataset):
    """Functions that remember."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.scale = 3

    @functools.cached_property
    def table(self) -> tuple[int, ...]:
        return tuple(index * self.scale for index in range(self.length))

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def square(index: int) -> int:
        return index * index

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self.table[index], self.square(index)


class PoolOfHandles(SharedFile):
    """Takes a free handle, or opens one more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.free = collections.deque([self.file])
        self.opened = [self.file]

    def __getitem__(self, index: int) -> Any:
        try:
            file = self.free.pop()
        except IndexError:
            file = (self.folder / "records.bin").open("rb")
            self.opened.append(file)
        try:
            file.seek(index * _RECORD.size)
            return _RECORD.unpack(file.read(_RECORD.size))[0]
        finally:
            self.free.append(file)

    def close(self) -> None:
        for file in self.opened:
            file.close()


class Noisy(Dataset):
    """Random numbers as they should be."""

    def __getitem__(self, index: int) -> np.ndarray:
        return nl.sample_rng().random(5, dtype=np.float32)


class NoisyBatches(Noisy):
    """The same for whole batches, with a size hint."""

    def __getitem__(self, index: int) -> np.ndarray:
        return nl.sample_rng(index).random(5, dtype=np.float32)

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        return [self[index] for index in indices]

    def nbytes(self, index: int) -> int:
        return 20


class SharedZip(Dataset):
    """Members of one archive: zipfile guards its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with zipfile.ZipFile(folder / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for index in range(self.length):
                archive.writestr(str(index), bytes([index]) * 100)
        self.archive = zipfile.ZipFile(folder / "data.zip")

    def __getitem__(self, index: int) -> bytes:
        return self.archive.read(str(index))

    def close(self) -> None:
        self.archive.close()


class Temporary(Dataset):
    """Decodes by way of a file of its own in each call."""

    def __getitem__(self, index: int) -> Any:
        with tempfile.TemporaryFile(dir=self.folder) as file:
            np.save(file, image(index))
            file.seek(0)
            return np.load(file)


class Lines(Dataset):
    def __getitem__(self, index: int) -> str:
        return f"line {index}"


class GoodStream(Stream):
    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[Any]:
        for number in range(20):
            yield {"number": number, "image": image(number)}


def _arrays(folder: Path) -> Any:
    return nl.ArrayDataset(np.arange(120).reshape(40, 3), np.arange(40))


def _mapper(folder: Path) -> Any:
    return nl.Mapper(list(range(40)), lambda value: np.full(3, value))


GOOD: list[Callable[[Path], Any]] = [
    Locked,
    ByPosition,
    FilePerSample,
    Encoded,
    FilePerThread,
    LazyUnderLock,
    CachesForever,
    CountsUnderLock,
    Memoised,
    PoolOfHandles,
    Noisy,
    NoisyBatches,
    SharedZip,
    Temporary,
    Lines,
    GoodStream,
    _arrays,
    _mapper,
    lambda folder: [np.full(4, index) for index in range(30)],
    lambda folder: {key: ord(key) for key in "abcdefgh"},
    lambda folder: range(50),
    lambda folder: np.arange(60).reshape(20, 3),
]
