"""Each iter() is a new, complete epoch; len() tells how many batches it has."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from itertools import chain
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.engine.statistics import Progress, Statistics
from tests.loading import PATIENCE, Conducted, Conductor, Noisy, Numbers, Stream, samples_of, stream_of

WORKERS = (0, 1, 2, 5)


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("length", [0, 1, 2, 9, 10, 11])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 100])
@pytest.mark.parametrize("drop_last", [False, True])
def test_len_is_the_number_of_batches_that_come(
    num_workers: int, length: int, batch_size: int, drop_last: bool
) -> None:
    with nl.DataLoader(
        Numbers(length), batch_size, num_workers=num_workers, drop_last=drop_last, shuffle=True
    ) as loader:
        for _ in range(2):
            batches = list(loader)
            assert len(batches) == len(loader)
            sizes = [len(batch) for batch in batches]
            rest = [length % batch_size] if length % batch_size and not drop_last else []
            assert sizes == [batch_size] * (length // batch_size) + rest
            delivered = samples_of(batches)
            assert len(set(delivered)) == len(delivered) == sum(sizes)
            assert set(delivered) <= set(range(length))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batch_size_none_hands_samples_through_as_they_are(num_workers: int) -> None:
    samples = [
        object(),
        None,
        np.arange(3),
        "text",
        (1, 2),
        ValueError("a value, not an error"),
        StopIteration(),
    ]
    with nl.DataLoader(samples, None, num_workers=num_workers) as loader:
        assert len(loader) == len(samples)
        assert all(came is kept for came, kept in zip(loader, samples, strict=True))
        loader_with_fn = nl.DataLoader(
            range(5), None, num_workers=num_workers, collate_fn=lambda sample: sample * 2
        )
        assert list(loader_with_fn) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("num_workers", WORKERS)
def test_drop_last_leaves_out_the_end_of_the_order_and_every_sample_gets_its_turn(num_workers: int) -> None:
    with (
        nl.DataLoader(
            Numbers(10), 4, shuffle=True, drop_last=True, num_workers=num_workers, seed=0
        ) as loader,
        nl.DataLoader(Numbers(10), 4, shuffle=True, num_workers=num_workers, seed=0) as whole,
    ):
        seen: set[int] = set()
        for _ in range(8):
            kept = samples_of(loader)
            assert kept == samples_of(whole)[:8]
            seen |= set(kept)
        assert seen == set(range(10))


@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize(
    "dataset", [[], Numbers(0), np.empty((0, 3)), Stream(0)], ids=lambda it: type(it).__name__
)
def test_an_empty_dataset_is_an_empty_epoch(dataset: Any, num_workers: int) -> None:
    with nl.DataLoader(dataset, 4, num_workers=num_workers) as loader:
        for epoch in range(2):
            iterator = iter(loader)
            assert list(iterator) == []
            with pytest.raises(StopIteration):
                next(iterator)
            assert iterator.statistics().epoch == epoch


@pytest.mark.parametrize("num_workers", [0, 3])
def test_d18_epochs_have_orders_of_their_own_and_set_epoch_reproduces_one(num_workers: int) -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Noisy(30), 4, shuffle=True, seed=0, num_workers=num_workers)

    with make() as loader:
        epochs = [stream_of(loader) for _ in range(3)]
    assert all(epochs[one] != epochs[other] for one, other in [(0, 1), (1, 2), (0, 2)])
    with make() as loader:
        loader.set_epoch(1)
        assert [stream_of(loader) for _ in range(2)] == epochs[1:]
        loader.set_epoch(0)
        assert stream_of(loader) == epochs[0]
        for epoch in (2, 2, 1):
            loader.set_epoch(epoch)
            assert stream_of(loader) == epochs[epoch]


def test_set_epoch_may_be_called_while_an_epoch_runs_and_concerns_the_next_one() -> None:
    with nl.DataLoader(Noisy(30), 4, shuffle=True, seed=0, num_workers=2) as loader:
        epochs = [stream_of(loader) for _ in range(4)]
        loader.set_epoch(0)
        running = iter(loader)
        first = stream_of([next(running)])
        loader.set_epoch(3)
        assert first + stream_of(running) == epochs[0]
        assert stream_of(loader) == epochs[3]


@pytest.mark.parametrize("epoch", [np.int64(3), 2**40, 2**64 - 1])
def test_epochs_of_any_size_work(epoch: Any) -> None:
    with nl.DataLoader(Noisy(6), 2, shuffle=True, seed=0, num_workers=2) as loader:
        loader.set_epoch(epoch)
        first = stream_of(loader)
        assert loader.statistics().epoch == int(epoch)
        loader.set_epoch(epoch)
        assert stream_of(loader) == first


@pytest.mark.parametrize("num_workers", WORKERS)
def test_b25_two_live_iterators_are_two_epochs_that_do_not_mix(num_workers: int) -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Noisy(17), 3, shuffle=True, seed=2, num_workers=num_workers)

    with make() as loader:
        first, second = (stream_of(loader) for _ in range(2))
    with make() as loader:
        one, other = iter(loader), iter(loader)
        pairs = list(zip(one, other, strict=True))
        assert stream_of(batch for batch, _ in pairs) == first
        assert stream_of(batch for _, batch in pairs) == second
    with make() as loader:
        pairs = list(zip(loader, loader, strict=True))
        assert stream_of(batch for _, batch in pairs) == second
    with make() as loader:
        half = iter(loader)
        begun = stream_of([next(half), next(half)])
        assert stream_of(loader) == second
        assert begun + stream_of(half) == first


def test_b25_nested_loops_over_one_loader_are_an_epoch_each() -> None:
    with nl.DataLoader(Numbers(4), 2, num_workers=2) as loader:
        pairs = [(outer.tolist(), inner.tolist()) for outer in loader for inner in loader]
    assert pairs == [([0, 1], [0, 1]), ([0, 1], [2, 3]), ([2, 3], [0, 1]), ([2, 3], [2, 3])]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterator_that_has_ended_stays_ended(num_workers: int) -> None:
    with nl.DataLoader(Numbers(3), num_workers=num_workers) as loader:
        iterator = iter(loader)
        assert len(list(iterator)) == 3
        for _ in range(3):
            with pytest.raises(StopIteration):
                next(iterator)
        assert iter(iterator) is iterator
        assert len(list(loader)) == 3


def test_several_threads_may_share_an_iterator_and_divide_the_batches() -> None:
    with nl.DataLoader(Numbers(200), 1, num_workers=3) as loader:
        iterator = iter(loader)
        shares: list[list[int]] = [[] for _ in range(4)]
        barrier = threading.Barrier(4)

        def consume(share: list[int]) -> None:
            barrier.wait()
            share.extend(samples_of(iterator))

        threads = [threading.Thread(target=consume, args=[share]) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(chain.from_iterable(shares)) == list(range(200))
    assert all(share == sorted(share) for share in shares)


@pytest.mark.parametrize(
    ("num_workers", "iterable"), [(0, False), (0, True), (1, False), (1, True), (3, False), (3, True)]
)
def test_next_from_within_its_own_next_is_an_error_and_not_a_hang(num_workers: int, iterable: bool) -> None:
    class Greedy(Numbers):
        def __getitem__(self, index: Any) -> Any:
            assert begun.wait(PATIENCE)
            return next(iterator)

    class GreedyStream(Stream):
        def __iter__(self) -> Any:
            assert begun.wait(PATIENCE)
            yield next(iterator)

    begun = threading.Event()
    with nl.DataLoader(GreedyStream(4) if iterable else Greedy(4), num_workers=num_workers) as loader:
        iterator = iter(loader)
        begun.set()
        with pytest.raises(nl.DeadWorkerError, match=r"next\(\) was called") as caught:
            next(iterator)
        assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_may_ask_the_loader_it_works_for(num_workers: int) -> None:
    class Curious:
        def __len__(self) -> int:
            return 6

        def __iter__(self) -> Any:
            for index in range(6):
                answers.append((len(loader), loader.seed, loader.state_dict()["seed"]))
                yield index

    answers: list[Any] = []
    with nl.DataLoader(Numbers(6), 2, sampler=Curious(), num_workers=num_workers, seed=5) as loader:
        assert samples_of(loader) == list(range(6))
    assert answers == [(3, 5, 5)] * 6


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_a_dataset_may_close_the_loader_it_works_for(num_workers: int) -> None:
    class Closing(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 3:
                loader.close()
            return index

    loader = nl.DataLoader(Closing(20), 1, num_workers=num_workers)
    with pytest.raises(nl.LoaderError, match="closed"):
        list(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_progress_and_statistics_count_what_was_delivered(num_workers: int) -> None:
    with nl.DataLoader(Numbers(10), 4, num_workers=num_workers) as loader:
        with iter(loader) as iterator:
            assert iterator.progress() == Progress(0, 10)
            next(iterator)
            assert (iterator.progress().items_processed, iterator.progress().items_total) == (4, 10)
            assert iterator.statistics().workers_alive == num_workers
            list(iterator)
            assert iterator.progress().items_processed == 10
        done = loader.statistics()
        assert (done.epoch, done.planned, done.delivered, done.batches) == (0, 10, 10, 3)
        assert (done.skipped, done.rebuilds, done.abandoned) == (0, 0, 0)


def test_progress_does_not_count_what_drop_last_leaves_out() -> None:
    with nl.DataLoader(Numbers(10), 4, num_workers=1, drop_last=True) as loader:
        iterator = iter(loader)
        assert iterator.progress().items_total == 8
        list(iterator)
        assert iterator.progress() == Progress(8, 8)


def test_a_batch_is_not_kept_by_the_loader_once_the_consumer_lets_go_of_it() -> None:
    class Tracked:
        pass

    def collate(samples: list[Any]) -> Tracked:
        return Tracked()

    for num_workers in (0, 2):
        with nl.DataLoader(Numbers(6), 1, num_workers=num_workers, collate_fn=collate) as loader:
            iterator = iter(loader)
            for _ in range(6):
                reference = weakref.ref(next(iterator))
                assert reference() is None


def test_g9_a_batch_belongs_to_the_consumer() -> None:
    data = np.arange(24.0).reshape(12, 2)
    samples = list(data)
    for dataset in (data, samples, nl.ArrayDataset(data)):
        with nl.DataLoader(dataset, 3, num_workers=2) as loader:
            kept: list[Any] = []
            for batch in loader:
                assert batch.flags.writeable
                batch += 100
                assert not any(np.shares_memory(batch, other) for other in [*kept, data])
                kept.append(batch)
        assert (np.concatenate(kept) == np.arange(24.0).reshape(12, 2) + 100).all()
        assert (data == np.arange(24.0).reshape(12, 2)).all()


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("prefetch_factor", [1, 2, 4])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_no_more_is_loaded_ahead_than_workers_and_prefetch_factor_allow(
    num_workers: int, prefetch_factor: int, in_order: bool
) -> None:
    class Watched(Numbers):
        def __init__(self, length: int) -> None:
            super().__init__(length)
            self.taken = 0
            self.begun: list[int] = []

        def __getitem__(self, index: Any) -> Any:
            self.begun.append(index)
            assert len(self.begun) - self.taken <= num_workers * (prefetch_factor + 1), "ran ahead"
            return index

    dataset = Watched(80)
    with nl.DataLoader(
        dataset, 1, num_workers=num_workers, prefetch_factor=prefetch_factor, in_order=in_order
    ) as loader:
        for batch in loader:
            # Counted late rather than early: what a batch makes room for may begin while it is returned.
            dataset.taken += len(batch)
    assert sorted(dataset.begun) == list(range(80))


def test_f07_unordered_delivery_gives_ready_batches_first_and_each_sample_once() -> None:
    slow = threading.Event()

    class OneIsSlow(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 0:
                assert slow.wait(20)
            return index

    with nl.DataLoader(OneIsSlow(30), 1, num_workers=3, in_order=False) as loader:
        iterator = iter(loader)
        first = [int(next(iterator)[0]) for _ in range(29)]
        assert sorted(first) == list(range(1, 30))
        slow.set()
        assert samples_of(iterator) == [0]


def test_f07_ordered_delivery_waits_for_the_slow_sample() -> None:
    slow = threading.Event()
    loaded = threading.Semaphore(0)

    class OneIsSlow(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 0:
                assert slow.wait(20)
            loaded.release()
            return index

    with nl.DataLoader(OneIsSlow(12), 1, num_workers=3) as loader:
        iterator = iter(loader)
        # All that may be loaded beside the slow one is; only then is it let go.
        for _ in range(3 * 3 - 1):
            assert loaded.acquire(timeout=20)
        slow.set()
        assert samples_of(iterator) == list(range(12))


@pytest.mark.parametrize("num_workers", [1, 4])
def test_f07_unordered_delivery_is_exact_whatever_gets_ready_first(num_workers: int) -> None:
    for seed in range(5):
        conductor = Conductor(random.Random(seed).choice)
        with (
            conductor.conducting(),
            nl.DataLoader(
                Conducted(Numbers(21), conductor), 2, num_workers=num_workers, in_order=False, shuffle=True
            ) as loader,
        ):
            batches = [batch.tolist() for batch in loader]
        assert sorted(map(len, batches)) == [1] + [2] * 10
        assert sorted(chain.from_iterable(batches)) == list(range(21))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_closed_loader_can_be_iterated_again(num_workers: int) -> None:
    with nl.DataLoader(Numbers(8), 2, num_workers=num_workers) as loader:
        iterator = iter(loader)
        next(iterator)
        loader.close()
        loader.close()
        with pytest.raises(nl.LoaderError, match="closed"):
            next(iterator)
        assert samples_of(loader) == list(range(8))


def test_the_len_of_a_loader_may_be_asked_at_any_time() -> None:
    class Counted(Numbers):
        asked = 0

        def __len__(self) -> int:
            Counted.asked += 1
            return super().__len__()

        def __getitem__(self, index: Any) -> Any:
            return index

    loader = nl.DataLoader(Counted(10), 3, num_workers=0)
    iterator = iter(loader)
    next(iterator)
    assert len(loader) == 4
    list(iterator)
    assert len(loader) == 4


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", [Numbers, Stream])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_finished_epoch_leaves_no_reference_that_only_the_garbage_collector_finds(
    dataset: type, num_workers: int, persistent_workers: bool
) -> None:
    gc.collect()
    gc.disable()
    try:
        data = dataset(6)
        loader = nl.DataLoader(data, 2, num_workers=num_workers, persistent_workers=persistent_workers)
        for _ in range(2):
            for _batch in loader:
                pass
        loader.close()
        references = weakref.ref(data), weakref.ref(loader)
        del data, loader
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataset_may_change_its_length_between_epochs(num_workers: int, shuffle: bool) -> None:
    samples = list("abcd")
    with nl.DataLoader(samples, 2, shuffle, num_workers=num_workers, seed=0) as loader:
        assert (len(loader), sorted(samples_of(loader))) == (2, list("abcd"))
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        samples += "efg"
        assert len(loader) == 4
        assert len(samples_of(iterator)) == 2  # the epoch that is under way is the one that was planned
        assert sorted(samples_of(loader)) == list("abcdefg")
        with pytest.raises(nl.ResumeError) as caught:
            loader.load_state_dict(state)
        assert caught.value.field == "length"
        del samples[3:]
        assert sorted(samples_of(loader)) == list("abc")


@pytest.mark.parametrize("num_workers", [0, 3])
def test_the_loaders_statistics_are_those_of_its_latest_epoch(num_workers: int) -> None:
    with nl.DataLoader(Numbers(10), 4, num_workers=num_workers) as loader:
        assert loader.statistics() == Statistics(num_workers=num_workers, prefetch_factor=2)
        first = iter(loader)
        next(first)
        assert loader.statistics().delivered == first.statistics().delivered == 4
        assert loader.statistics().workers_alive == num_workers
        second = iter(loader)
        assert loader.statistics().epoch == second.statistics().epoch == 1
        assert loader.statistics().delivered == 0
        assert first.statistics().delivered == 4
        list(second)
    assert loader.statistics().workers_alive == 0
