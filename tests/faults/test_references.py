"""Samples, batches or frames stay in memory after the epoch they belong to was left (G8)."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Collection
from typing import Any

import pytest

from nogil_loader import DataLoader, DeadWorkerError, FailurePolicy
from tests.faults.traps import PATIENCE, WORKERS


class Sample:
    """Something that can be looked after by a weak reference and that nobody copies."""


class Tracked:
    """Remembers each sample that it made, those included that a failing call held as local variables."""

    def __init__(self, length: int, bad: Collection[int] = (), *, once: bool = False) -> None:
        self.length = length
        self.bad = bad
        self.once = once
        self.given: list[weakref.ref[Sample]] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Sample:
        sample = Sample()
        self.given.append(weakref.ref(sample))
        self.maybe_fail(index)
        return sample

    def maybe_fail(self, index: int) -> None:
        if index in self.bad:
            if self.once and isinstance(self.bad, set):
                self.bad.remove(index)
            raise ValueError(index)

    def alive(self) -> int:
        return sum(reference() is not None for reference in self.given)


class TrackedBatches(Tracked):
    def __getitems__(self, indices: list[int]) -> list[Sample]:
        return [self[index] for index in indices]


class TrackedStream(Tracked):
    __getitem__ = None  # type: ignore[assignment]

    def __iter__(self) -> Any:
        for index in range(self.length):
            sample = Sample()
            self.given.append(weakref.ref(sample))
            self.maybe_fail(index)
            yield sample
            del sample


KINDS = [Tracked, TrackedBatches, TrackedStream]


def settle(dataset: Tracked, most: int = 0) -> int:
    """How many samples live once threads that were told to let go have done so."""
    deadline = threading.Event()
    for _ in range(200):
        gc.collect()
        if dataset.alive() <= most:
            break
        deadline.wait(0.02)  # bounded; only ever used up by a leak
    return dataset.alive()


def loader_of(dataset: Tracked, workers: int, **arguments: Any) -> DataLoader:
    return DataLoader(dataset, batch_size=4, num_workers=workers, collate_fn=list, **arguments)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["close", "del", "loader", "break"])
def test_an_epoch_that_is_left_keeps_no_sample(end: str, kind: type[Tracked], workers: int) -> None:
    dataset = kind(100)
    loader = loader_of(dataset, workers)
    iterator: Any = iter(loader)
    if end == "break":
        for _ in iterator:
            break
        del _, iterator
    else:
        next(iterator)
        if end == "close":
            iterator.close()
        elif end == "loader":
            loader.close()
        else:
            del iterator
    assert settle(dataset) == 0
    assert dataset.given


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_complete_epoch_keeps_no_sample_though_loader_and_iterator_live(
    kind: type[Tracked], workers: int
) -> None:
    dataset = kind(40)
    loader = loader_of(dataset, workers)
    iterator = iter(loader)
    assert sum(len(batch) for batch in iterator) == 40
    assert settle(dataset) == 0
    assert loader.statistics().delivered == 40


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_delivered_batch_is_the_consumers_alone(kind: type[Tracked], workers: int) -> None:
    dataset = kind(4)
    iterator = iter(loader_of(dataset, workers))
    batch: Any = next(iterator)
    assert dataset.alive() == 4
    del batch
    assert settle(dataset) == 0
    iterator.close()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_loader_that_is_closed_keeps_no_sample(kind: type[Tracked], workers: int) -> None:
    dataset = kind(40, {11})
    loader = loader_of(dataset, workers)
    iterator = iter(loader)
    with pytest.raises(DeadWorkerError) as caught:
        for _ in iterator:
            del _
    # The traceback of the error leads to frames that hold samples; closing lets go of them.
    loader.close()
    del caught
    assert settle(dataset) == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_loader_that_is_rebuilt_keeps_no_sample(kind: type[Tracked], workers: int) -> None:
    dataset = kind(40, {11})
    loader = loader_of(dataset, workers)

    def train() -> None:
        try:
            for _ in loader:
                pass
        except DeadWorkerError:
            return
        pytest.fail("nothing died")

    train()
    loader.rebuild()
    assert settle(dataset) == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_failures_that_were_made_good_keep_no_sample(kind: type[Tracked], workers: int) -> None:
    bad = {3, 11, 12}
    dataset = kind(40, bad, once=True)
    loader = loader_of(dataset, workers, on_failure="rebuild")
    iterator = iter(loader)
    assert sum(len(batch) for batch in iterator) == 40
    assert bad == set()
    assert settle(dataset) == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [Tracked, TrackedBatches])
def test_skip_records_keep_no_sample(kind: type[Tracked], workers: int) -> None:
    dataset = kind(40, {3, 11})
    loader = loader_of(dataset, workers, on_failure=FailurePolicy(skip=2))
    assert sum(len(batch) for batch in loader) == 38
    assert len(loader.skipped) == 2
    assert settle(dataset) == 0


@pytest.mark.parametrize("workers", WORKERS)
def test_skip_records_of_groups_and_chains_keep_no_sample(workers: int) -> None:
    class Groups(Tracked):
        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            if index == 3:
                self._fail(sample)
            return sample

        def _fail(self, kept: Sample) -> None:
            errors: list[Exception] = []
            for text in ("first", "second"):
                try:
                    self._one(text, kept)
                except ValueError as error:
                    errors.append(error)
            try:
                raise ExceptionGroup("several", errors)
            except ExceptionGroup:
                raise KeyError("while handling") from None

        def _one(self, text: str, kept: Sample) -> None:
            also_kept = kept
            raise ValueError(text, also_kept is kept)

    dataset = Groups(8)
    loader = loader_of(dataset, workers, on_failure=FailurePolicy(skip=1))
    assert sum(len(batch) for batch in loader) == 7
    assert len(loader.skipped) == 1
    assert settle(dataset) == 0


def test_the_late_result_of_a_stuck_worker_is_let_go_of() -> None:
    go_on = threading.Event()

    class Sticks(Tracked):
        stuck = False

        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            if index == 5 and not self.stuck:
                self.stuck = True
                assert go_on.wait(PATIENCE)
            return sample

    dataset = Sticks(8)
    loader = loader_of(dataset, 1, timeout=0.2, on_failure="rebuild")
    iterator = iter(loader)
    assert sum(len(batch) for batch in iterator) == 8
    go_on.set()
    assert settle(dataset) == 0
    loader.close()


@pytest.mark.parametrize("workers", WORKERS)
def test_the_dataset_itself_is_let_go_of_with_the_loader(workers: int) -> None:
    dataset: Any = Tracked(40)
    gone = weakref.ref(dataset)
    loader: Any = loader_of(dataset, workers)
    assert sum(len(batch) for batch in loader) == 40
    iterator: Any = iter(loader)
    next(iterator)
    del dataset, loader, iterator
    pause = threading.Event()
    for _ in range(200):
        gc.collect()
        if gone() is None:
            break
        pause.wait(0.02)
    assert gone() is None
