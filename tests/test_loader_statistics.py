"""Statistics of real epochs: where the time went, who waited for whom, and that the sums agree."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.engine.statistics import Statistics
from tests.loading import PATIENCE, Numbers, Stream

WORKERS = (0, 2)


class Sleepy(Numbers):
    """Reading a sample takes two milliseconds, in which the thread needs no processor."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return np.full(1000, index, np.float32)


class SleepyStream(Stream):
    def __iter__(self) -> Iterator[Any]:
        for index in range(self.length):
            time.sleep(0.002)
            yield np.full(1000, index, np.float32)


def statistics_of(loader: nl.DataLoader) -> Statistics:
    iterator = iter(loader)
    for _ in iterator:
        pass
    return iterator.statistics()


@pytest.mark.parametrize("workers", WORKERS)
def test_reading_is_found_where_it_is_and_the_consumer_waited_for_it(workers: int) -> None:
    told = statistics_of(nl.DataLoader(Sleepy(60), 10, num_workers=workers))
    assert told.stages.fetch >= 60 * 0.002
    assert told.stages.fetch > 0.8 * told.stages.busy
    assert told.cpu is not None
    assert told.cpu.share < 0.8
    assert told.bottleneck == "loader"
    assert told.consumer_wait_share > 0.5
    assert told.sentence().startswith("The loader holds the consumer up: the consumer waits for data ")
    assert told.batch_seconds is not None
    assert told.batch_seconds.p50 >= 10 * 0.002
    assert told.wait_seconds is not None
    assert told.wait_seconds.count == 6
    assert told.nbytes == 60 * 4000
    assert told.samples_per_second == pytest.approx(60 / told.seconds)


def test_a_reader_of_an_iterable_fetches() -> None:
    told = statistics_of(nl.DataLoader(SleepyStream(40), 10, num_workers=2))
    assert told.stages.fetch >= 40 * 0.002
    assert told.stages.idle <= 2 * told.seconds


@pytest.mark.parametrize("workers", WORKERS)
def test_a_consumer_that_takes_its_time_leaves_workers_idle(workers: int) -> None:
    iterator = iter(nl.DataLoader(Numbers(40), 4, num_workers=workers, prefetch_factor=1))
    for _ in iterator:
        time.sleep(0.01)  # it trains
    told = iterator.statistics()
    assert told.stages.idle > 0.8 * told.stages.total
    assert told.bottleneck == "consumer"
    assert "keeps up" in told.sentence()


def test_the_stages_of_all_workers_are_the_time_there_was() -> None:
    told = statistics_of(nl.DataLoader(Sleepy(60), 5, num_workers=3))
    assert told.stages.total == pytest.approx(3 * told.seconds, rel=0.15)


def test_a_batch_under_way_counts_before_it_is_there() -> None:
    """A snapshot in the middle of the first batch says where the time goes, not that workers are idle."""
    reading, leave = threading.Event(), threading.Event()

    class Held(Numbers):
        def __getitem__(self, index: int) -> int:
            reading.set()
            assert leave.wait(PATIENCE)
            return index

    with nl.DataLoader(Held(4), 4, num_workers=1) as loader:
        iterator = iter(loader)
        assert reading.wait(PATIENCE)
        began = iterator.statistics()
        time.sleep(0.05)  # what is measured is time itself
        told = iterator.statistics()
        leave.set()
        assert told.stages.fetch - began.stages.fetch >= 0.05
        assert told.queue.loading == 1
        assert list(next(iterator)) == [0, 1, 2, 3]


def test_the_queue_is_counted_and_never_above_its_capacity() -> None:
    with nl.DataLoader(Numbers(100), 1, num_workers=2, prefetch_factor=3) as loader:
        iterator = iter(loader)
        seen = [iterator.statistics().queue for _ in iterator]
    assert {queue.capacity for queue in seen} == {8}
    assert all(queue.planned + queue.loading + queue.ready <= 8 for queue in seen)


def test_start_up_and_transforms_and_the_conversion_have_stages_of_their_own() -> None:
    images = nl.ArrayDataset(np.zeros((64, 32, 32, 3), np.uint8))
    loader = nl.DataLoader(
        images,
        8,
        num_workers=2,
        transform=nl.transforms.Compose([nl.transforms.Normalize(0.5, 0.5)]),
        worker_init_fn=lambda worker: time.sleep(0.01),
    )
    told = statistics_of(loader)
    assert told.stages.start_up >= 2 * 0.01
    assert told.stages.transform > 0.0
    assert told.stages.fetch < 0.1 * told.stages.transform  # the kernel reads the arrays itself


@pytest.mark.parametrize("workers", WORKERS)
def test_after_the_end_a_snapshot_does_not_change_any_more(workers: int) -> None:
    iterator = iter(nl.DataLoader(Sleepy(10), 5, num_workers=workers, memory="off"))
    list(iterator)
    first = iterator.statistics()
    time.sleep(0.01)  # it must not count
    second = iterator.statistics()
    assert (first.seconds, first.consumer_wait) == (second.seconds, second.consumer_wait)
    assert first.stages.busy == second.stages.busy


def test_blocks_of_memory_that_are_used_again_are_counted() -> None:
    rows = np.zeros((12, 1 << 20), np.float32)
    with nl.DataLoader(rows, 2, num_workers=1) as loader:
        before = loader.statistics().buffers_reused
        iterator = iter(loader)
        for batch in iterator:
            del batch
        told = iterator.statistics()
    assert told.buffers_made > 0
    assert told.buffers_reused > before


def test_samples_that_are_left_out_are_not_delivered() -> None:
    class Torn(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 5:
                raise ValueError("torn")
            return index

    told = statistics_of(nl.DataLoader(Torn(20), 4, num_workers=2, on_failure=nl.FailurePolicy(skip=1)))
    assert (told.planned, told.delivered, told.skipped, told.batches) == (20, 19, 1, 5)


@pytest.mark.parametrize("workers", WORKERS)
def test_bytes_are_those_of_every_batch_however_fast_and_different_they_are(workers: int) -> None:
    class Uneven(Numbers):
        def __getitem__(self, index: int) -> Any:
            return np.zeros(100_000 if index % 97 == 5 else 1, np.uint8)

    truth = sum(100_000 if index % 97 == 5 else 1 for index in range(2000))
    assert statistics_of(nl.DataLoader(Uneven(2000), 1, num_workers=workers)).nbytes == truth
    with nl.DataLoader(Uneven(2000), 1, num_workers=workers) as loader:
        iterator = iter(loader)
        taken = sum(next(iterator).nbytes for _ in range(300))
        assert iterator.statistics().nbytes == pytest.approx(taken, rel=0.3)
