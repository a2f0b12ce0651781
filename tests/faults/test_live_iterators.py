"""Two iterators of one loader share a queue or a position; several threads, or next() itself, call next().

Each iterator is an epoch of its own with workers of its own. Calls from several threads share one epoch's
batches out among them.
"""

from __future__ import annotations

import itertools
import signal
import threading
from typing import Any

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError, LoaderError, catch_panics, sample_rng
from nogil_loader.testing import sample_scope
from tests.faults.traps import (
    KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Stream,
    Trap,
    cut,
    indices,
    make,
    raises,
    stream,
    until_death,
)


def shuffled(kind: str, workers: int, **arguments: Any) -> DataLoader:
    shuffle = None if kind == "stream" else True
    return DataLoader(make(kind, 20), batch_size=3, shuffle=shuffle, seed=8, num_workers=workers, **arguments)


def epochs(kind: str, count: int) -> list[list[list[list[float]]]]:
    loader = shuffled(kind, 0)
    return [stream(loader) for _ in range(count)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_b25_two_iterators_advanced_alternately_are_two_epochs(kind: str, workers: int) -> None:
    first, second = epochs(kind, 2)
    loader = shuffled(kind, workers)
    a, b = iter(loader), iter(loader)
    pairs = list(itertools.zip_longest(a, b))
    assert stream(pair[0] for pair in pairs) == first
    assert stream(pair[1] for pair in pairs) == second


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_b25_a_loader_can_be_zipped_with_itself(kind: str, workers: int) -> None:
    first, second = epochs(kind, 2)
    loader = shuffled(kind, workers)
    pairs = list(zip(loader, loader, strict=True))
    assert stream(a for a, _ in pairs) == first
    assert stream(b for _, b in pairs) == second


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_b25_an_iterator_left_half_way_is_not_in_the_way_of_the_next(kind: str, workers: int) -> None:
    first, second = epochs(kind, 2)
    loader = shuffled(kind, workers)
    a = iter(loader)
    begun = [next(a) for _ in range(3)]
    assert stream(loader) == second
    assert stream([*begun, *a]) == first


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_b25_an_iterator_outlives_the_name_of_its_loader(kind: str, workers: int) -> None:
    assert stream(iter(shuffled(kind, workers))) == epochs(kind, 1)[0]


@pytest.mark.parametrize("workers", WORKERS)
def test_b25_the_death_of_one_iterator_leaves_the_other_alive(workers: int) -> None:
    with sample_scope(seed=6, epoch=0, index=5):
        draw_of_the_first_epoch = sample_rng().random()

    def fail(index: int) -> None:
        if sample_rng(index).random() == draw_of_the_first_epoch:
            raise ValueError(index)

    loader = DataLoader(Samples(10, Trap(fail, at={5})), seed=6, num_workers=workers)
    a, b = iter(loader), iter(loader)
    batches, _ = until_death(a)
    assert batches == cut(10, 1)[:5]
    assert [indices(batch) for batch in b] == cut(10, 1)


@pytest.mark.parametrize("workers", WORKERS)
def test_b25_closing_one_iterator_leaves_the_other_alive(workers: int) -> None:
    loader = shuffled("samples", workers)
    a, b = iter(loader), iter(loader)
    next(a)
    a.close()
    a.close()
    with pytest.raises(LoaderError, match="closed"):
        next(a)
    assert stream(b) == epochs("samples", 2)[1]


@pytest.mark.parametrize("workers", WORKERS)
def test_closing_the_loader_closes_all_its_iterators_and_it_can_be_used_again(workers: int) -> None:
    loader = shuffled("samples", workers)
    iterators = [iter(loader) for _ in range(3)]
    with loader:
        for iterator in iterators:
            next(iterator)
    for iterator in iterators:
        with pytest.raises(LoaderError, match="closed"):
            next(iterator)
    assert stream(loader) == epochs("samples", 4)[3]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_several_threads_share_the_batches_of_one_iterator(kind: str, workers: int) -> None:
    length = 400
    iterator = iter(DataLoader(make(kind, length), num_workers=workers))
    received: list[list[list[int]]] = [[] for _ in range(5)]
    deaths: list[BaseException] = []
    barrier = threading.Barrier(5, timeout=PATIENCE)

    def consume(mine: list[list[int]]) -> None:
        barrier.wait()
        for batch in iterator:
            mine.append(indices(batch))  # noqa: PERF401 - visible while it goes on

    threads = [
        threading.Thread(target=catch_panics(consume, on_death=deaths.append), args=[mine])
        for mine in received
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert deaths == []
    assert all(mine == sorted(mine) for mine in received)
    assert sorted(itertools.chain(*received)) == cut(length, 1)


@pytest.mark.parametrize("workers", WORKERS)
def test_several_threads_all_hear_of_a_death(workers: int) -> None:
    iterator = iter(DataLoader(Samples(40, Trap(raises(ValueError), at={20})), num_workers=workers))
    deaths: list[BaseException] = []
    threads = [
        threading.Thread(target=catch_panics(list, on_death=deaths.append), args=[iterator]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert [type(death.__cause__) for death in deaths] == [DeadWorkerError] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_that_waits_hears_when_another_thread_closes_the_iterator(kind: str) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def block(index: int) -> None:
        loading.set()
        assert go_on.wait(PATIENCE)

    iterator = iter(DataLoader(make(kind, 4, Trap(block, at={0})), num_workers=1))
    heard: list[BaseException] = []
    consumer = threading.Thread(target=catch_panics(next, on_death=heard.append), args=[iterator])
    consumer.start()
    assert loading.wait(PATIENCE)
    iterator.close()
    consumer.join(PATIENCE)
    go_on.set()
    assert not consumer.is_alive()
    (error,) = heard
    assert isinstance(error.__cause__, LoaderError)
    assert "closed" in str(error)


def test_next_from_within_next_without_workers_is_refused() -> None:
    class Curious(Samples):
        def __getitem__(self, index: int) -> np.ndarray:
            if index == 2:
                next(iterator)
            return super().__getitem__(index)

    iterator = iter(DataLoader(Curious(4), num_workers=0))
    batches, death = until_death(iterator)
    assert batches == [[0], [1]]
    assert isinstance(death.__cause__, RuntimeError)
    assert "its own next()" in str(death.__cause__)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.timeout(20)
def test_next_from_within_ones_own_worker_is_refused(workers: int) -> None:
    class Curious(Samples):
        def __getitem__(self, index: int) -> np.ndarray:
            if index == 2:
                next(iterator)
            return super().__getitem__(index)

    iterator = iter(DataLoader(Curious(4), num_workers=workers))
    batches, death = until_death(iterator)
    assert batches == [[0], [1]]
    assert isinstance(death.__cause__, RuntimeError)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_next_from_a_signal_handler_within_next_is_refused() -> None:
    heard: list[str] = []

    def handler(number: int, frame: Any) -> None:
        try:
            next(iterator)
        except RuntimeError as error:
            heard.append(str(error))

    def interrupt(index: int) -> None:
        if index == 1:
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        iterator = iter(DataLoader(Samples(3, interrupt), num_workers=0))
        assert [indices(batch) for batch in iterator] == cut(3, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(heard) == 1
    assert "its own next()" in heard[0]


@pytest.mark.parametrize("outer", WORKERS)
@pytest.mark.parametrize("inner", WORKERS)
def test_a_dataset_may_read_from_a_loader_of_its_own(outer: int, inner: int) -> None:
    class Nested:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> np.ndarray:
            loader = DataLoader(Samples(4), batch_size=2, num_workers=inner, seed=index)
            return np.stack(list(loader))

    batches = list(DataLoader(Nested(), batch_size=2, num_workers=outer))
    assert [batch.shape for batch in batches] == [(2, 2, 2, 2)] * 3


@pytest.mark.parametrize("outer", WORKERS)
@pytest.mark.parametrize("inner", WORKERS)
def test_a_death_in_a_nested_loader_is_the_cause_of_the_outer_death(outer: int, inner: int) -> None:
    error = OSError("inner")

    class Nested:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            list(DataLoader(Samples(4, Trap(raises(error), at={3} if index == 4 else {})), num_workers=inner))
            return index

    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(Nested(), batch_size=2, num_workers=outer))
    assert caught.value.index == 4
    assert isinstance(caught.value.__cause__, DeadWorkerError)
    assert caught.value.__cause__.index == 3
    assert caught.value.__cause__.__cause__ is error


@pytest.mark.parametrize("outer", WORKERS)
@pytest.mark.parametrize("inner", WORKERS)
def test_a_shared_inner_loader_serves_an_outer_one(outer: int, inner: int) -> None:
    inside = DataLoader(Samples(12), batch_size=2, num_workers=inner)

    class Batches:
        def __iter__(self) -> Any:
            return iter(inside)

    assert [indices(batch[0]) for batch in DataLoader(Batches(), num_workers=outer)] == cut(12, 2)
    assert [indices(batch[0]) for batch in DataLoader(Batches(), num_workers=outer)] == cut(12, 2)


@pytest.mark.parametrize("workers", [1, 4])
def test_b22_a_generator_is_read_by_one_thread_only(workers: int) -> None:
    readers: set[int] = set()

    class Generated:
        def __iter__(self) -> Any:
            for index in range(100):
                readers.add(threading.get_ident())
                yield index

    received = [
        int(value) for batch in DataLoader(Generated(), batch_size=7, num_workers=workers) for value in batch
    ]
    assert received == list(range(100))
    assert len(readers) == 1


@pytest.mark.parametrize("policy", ["raise", "rebuild", "skip"])
@pytest.mark.parametrize("workers", WORKERS)
def test_b22_the_same_generator_for_each_epoch_is_an_error_in_the_second(workers: int, policy: str) -> None:
    class OneShot:
        def __init__(self) -> None:
            self.generator = iter(range(10))

        def __iter__(self) -> Any:
            return self.generator

    loader = DataLoader(OneShot(), batch_size=5, num_workers=workers, on_failure=policy)
    assert [batch.tolist() for batch in loader] == cut(10, 5)
    with pytest.raises(DeadWorkerError, match="same iterator"):
        list(loader)


@pytest.mark.parametrize("workers", WORKERS)
def test_b22_two_live_epochs_of_an_iterable_have_an_iterator_each(workers: int) -> None:
    dataset = Stream(10)
    loader = DataLoader(dataset, num_workers=workers)
    a, b = iter(loader), iter(loader)
    assert [indices(x) + indices(y) for x, y in zip(a, b, strict=True)] == [[i, i] for i in range(10)]
    assert dataset.opened == 2
