"""What the loader's tests share: small datasets, a conductor that orders threads, and readers of streams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

import nogil_loader as nl

# A broken loader would otherwise leave a worker waiting for ever. No passing test spends any of it.
PATIENCE = 20.0


class Numbers:
    """Sample ``index`` is the index itself."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return index


class Noisy(Numbers):
    """Sample ``index`` is the index and three draws of the sample's own generator."""

    def __getitem__(self, index: Any) -> Any:
        return {"index": index, "noise": nl.sample_rng().random(3)}


class NoisyBatches(Noisy):
    """`Noisy`, fetched a whole batch at a time."""

    def __getitem__(self, index: Any) -> Any:
        return {"index": index, "noise": nl.sample_rng(index).random(3)}

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        return [self[index] for index in indices]


class Stream:
    """An iterable of the numbers up to ``length``, new with each ``iter``."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        yield from range(self.length)


class Conductor:
    """Decides which of the threads that wait goes on next, so that a test can play any order of events.

    Args:
        choose: From the keys that wait to the one that goes on.
        crowd: From the keys that went on so far to how many are sure to wait next. The choice is made when
            that many do.
    """

    def __init__(
        self,
        choose: Callable[[list[Hashable]], Hashable],
        crowd: Callable[[list[Hashable]], int] = lambda played: 1,
    ) -> None:
        self._choose = choose
        self._crowd = crowd
        self._change = threading.Condition()
        self._waiting: list[Hashable] = []
        self._over = False
        self.played: list[Hashable] = []

    def wait_for_turn(self, key: Hashable) -> None:
        """Block until the conductor lets ``key`` go on."""
        with self._change:
            self._waiting.append(key)
            self._change.notify_all()
            if not self._change.wait_for(lambda: self._over or key not in self._waiting, PATIENCE):
                raise AssertionError(f"{key!r} was never let go on; waiting: {self._waiting}")

    @contextmanager
    def conducting(self) -> Iterator[None]:
        """Conduct while the block runs."""
        thread = threading.Thread(target=self._conduct, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._change:
                self._over = True
                self._change.notify_all()
            thread.join(PATIENCE)

    def _may_choose(self) -> bool:
        return self._over or len(self._waiting) >= max(1, self._crowd(self.played))

    def _conduct(self) -> None:
        with self._change:
            while not self._over:
                self._change.wait_for(self._may_choose)
                if not self._over:
                    chosen = self._choose(sorted(self._waiting, key=str))
                    self._waiting.remove(chosen)
                    self.played.append(chosen)
                    self._change.notify_all()


class Conducted:
    """Another dataset whose samples are ready in the order that a conductor plays."""

    def __init__(self, dataset: Any, conductor: Conductor) -> None:
        self.dataset = dataset
        self.conductor = conductor

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        self.conductor.wait_for_turn(index)
        return self.dataset[index]


def crowd_of(
    order: list[Any], *, batch_size: int, num_workers: int, capacity: int
) -> Callable[[list[Any]], int]:
    """How many workers are sure to wait in `Conducted`, for an epoch over ``order`` that is being consumed.

    Args:
        order: The dataset's keys in plan order.
        batch_size: Keys per batch.
        num_workers: How many there are.
        capacity: Batches that may exist at a time, counted from the first one that is not ready.
    """
    batches = [set(order[start : start + batch_size]) for start in range(0, len(order), batch_size)]

    def crowd(played: list[Any]) -> int:
        unfinished = [number for number, batch in enumerate(batches) if batch - set(played)]
        return min(
            num_workers, sum(number < unfinished[0] + capacity for number in unfinished) if unfinished else 0
        )

    return crowd


class Counter:
    """Counts in any thread, and lets a test wait for a count."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self.count = 0

    def add(self) -> int:
        """Count one more; return the new count."""
        with self._change:
            self.count += 1
            self._change.notify_all()
            return self.count

    def wait_for(self, count: int) -> None:
        """Block until the count is reached."""
        with self._change:
            assert self._change.wait_for(lambda: self.count >= count, PATIENCE), (
                f"{self.count} instead of {count}"
            )


class MakeLoader(Protocol):
    """Makes a loader; the arguments are the loader's."""

    def __call__(self, dataset: Any, /, *args: Any, **kwargs: Any) -> nl.DataLoader: ...


def frozen(tree: Any) -> Any:
    """Turn a batch into a value that is equal to another only if dtypes, shapes and bits are."""
    if isinstance(tree, dict):
        return {key: frozen(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [frozen(value) for value in tree]
    if hasattr(tree, "numpy"):
        tree = tree.numpy()
    if isinstance(tree, np.ndarray):
        return str(tree.dtype), tree.shape, tree.tobytes()
    return tree


def stream_of(batches: Iterable[Any]) -> list[Any]:
    """Read batches to the end, for comparison bit by bit."""
    return [frozen(batch) for batch in batches]


def samples_of(batches: Iterable[Any]) -> list[Any]:
    """Read batches of plain numbers or strings to the end, as one flat list of Python values."""
    return [value for batch in batches for value in (batch.tolist() if hasattr(batch, "tolist") else batch)]
