"""What the tests of the bench load; named to it as ``datasets.py:name``."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np

import nogil_loader as nl

HERE = Path(__file__)


def place_of(name: str) -> str:
    """What a command line says for one of these."""
    return f"{HERE}:{name}"


class Rows:
    """Sample ``index`` is an array that begins with the index."""

    def __init__(self, length: int = 100) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return np.array([index, 0.5])


class Broken(Rows):
    """Like `Rows`, but one sample cannot be read."""

    def __getitem__(self, index: Any) -> Any:
        if index == 70:
            raise ValueError("no such picture")
        return super().__getitem__(index)


class Crashing(Rows):
    """Reading it ends the process."""

    def __getitem__(self, index: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class Stuck(Rows):
    """Reading it takes for ever; tells by a file that it has begun."""

    def __getitem__(self, index: Any) -> Any:
        if mark := os.environ.get("NOGIL_LOADER_TEST_MARK"):
            Path(mark).write_text(str(os.getpid()))
        threading.Event().wait()


class Fat(Rows):
    """Needs more memory than the tests give."""

    def __getitem__(self, index: Any) -> Any:
        return np.ones(400_000_000, np.uint8)


class Stream:
    """Can only be iterated."""

    def __iter__(self) -> Any:
        return iter(np.arange(50.0))


def needs_an_argument(path: str) -> Rows:
    """Cannot be called without one."""
    return Rows(len(path))


def raises() -> Rows:
    """Fails before there is a dataset."""
    raise RuntimeError("the disk is not mounted")


def join(samples: list[Any]) -> Any:
    """A collation of one's own."""
    return np.concatenate(samples)


def loader() -> nl.DataLoader:
    """A loader with arguments of its own."""
    return nl.DataLoader(Rows(), batch_size=10, shuffle=True, collate_fn=join, drop_last=True, num_workers=7)


def unpicklable() -> nl.DataLoader:
    """A loader of which no process could be sent a copy: a local class, a lock, a socket and a lambda."""

    class Local(Rows):
        lock = threading.Lock()

        def __init__(self) -> None:
            super().__init__()
            self.ends = socket.socketpair()

    return nl.DataLoader(Local(), batch_size=5, collate_fn=lambda samples: samples)


rows = Rows()
a_list = [np.zeros(3), np.ones(3)]
number = 3
