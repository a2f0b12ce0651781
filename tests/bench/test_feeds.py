"""Loaders as a measurement sees them."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import pytest

import nogil_loader as nl
from nogil_loader.bench import measure
from nogil_loader.bench.feeds import Load, OurFeed, PeerFeed, Plan, as_read_by_peers
from nogil_loader.bench.measure import Reader
from nogil_loader.bench.subject import Subject
from nogil_loader.errors import DatasetError, LoaderError
from tests.bench.datasets import Broken, Rows
from tests.loading import NoisyBatches, Numbers


def planned(length: int = 10, batch_size: int | None = None, **arguments: Any) -> list[list[Any]]:
    return list(Plan(Subject(Numbers(length), arguments), batch_size, seed=1))


def test_a_plan_has_the_batches_that_the_loader_would_have() -> None:
    assert planned(batch_size=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert planned(batch_size=4, drop_last=True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert planned(5, batch_size=3) == [[0, 1, 2], [3, 4]]
    assert planned(2, batch_size=None) == [[0], [1]]
    assert planned(sampler=[7, 5, 6], batch_size=2) == [[7, 5], [6]]
    assert planned(batch_sampler=[(3, 4), (1,)]) == [[3, 4], [1]]


def test_shuffling_gives_each_epoch_an_order_of_its_own() -> None:
    plan = Plan(Subject(Numbers(50), {"shuffle": True}), 50, seed=1)
    (first,), (second,) = plan, plan
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(Plan(Subject(Numbers(50), {"shuffle": True}), 50, seed=1)) == [first]


def test_samples_are_counted_as_batches_arrive() -> None:
    plan = Plan(Subject(Numbers(10)), 4, seed=0)
    for epoch in range(2):
        for number, _ in enumerate(plan):
            assert plan.samples == 10 * epoch + 4 * number
            plan.arrived()
        plan.check_complete()
    assert plan.samples == 20


def test_batches_that_are_lost_or_come_twice_are_noticed() -> None:
    plan = Plan(Subject(Numbers(10)), 4, seed=0)
    list(plan)
    plan.arrived()
    with pytest.raises(LoaderError, match="ended after 1 of 3 batches"):
        plan.check_complete()
    plan.arrived()
    plan.arrived()
    with pytest.raises(LoaderError, match="batch 3 of the epoch came, and was not planned"):
        plan.arrived()


def test_a_batch_is_fetched_as_the_dataset_likes_it() -> None:
    calls = []

    class Batched(NoisyBatches):
        def __getitems__(self, indices: list[Any]) -> list[Any]:
            calls.append(list(indices))
            return super().__getitems__(indices)[: 2 if 9 in indices else None]

    def keys_of(samples: list[Any]) -> list[Any]:
        return [sample["index"] for sample in samples]

    with pytest.raises(RuntimeError):  # sample_rng() outside a loader: it went through __getitems__
        Load(Batched(10), keys_of)([1, 2])
    assert calls == [[1, 2]]


def test_a_wrong_number_of_samples_is_refused() -> None:
    class Short(Numbers):
        def __getitems__(self, indices: list[Any]) -> list[Any]:
            return indices[1:]

    with pytest.raises(DatasetError, match="asked for 2 samples and returned 1"):
        Load(Short(10), list)([1, 2])


def test_the_sample_that_cannot_be_read_is_known() -> None:
    load = Load(Broken(), list)
    plan = Plan(Subject(Broken()), 10, seed=0)
    feed = PeerFeed(map(load, plan), plan, "one after the other", load)
    assert feed.failed is None
    with pytest.raises(ValueError, match="no such picture"):
        list(feed.epoch())
    assert [feed.failed, feed.delivered()] == [70, 70]


@pytest.mark.parametrize("workers", [0, 2])
def test_our_loader_is_counted_over_all_epochs(workers: int) -> None:
    feed = OurFeed(nl.DataLoader(Rows(25), batch_size=10, num_workers=workers))
    assert (feed.delivered(), feed.totals().waited) == (0, 0.0)
    before = feed.totals()
    for _ in range(2):
        assert len(list(feed.epoch())) == 3
    list(islice(feed.epoch(), 1))
    assert feed.delivered() == 60
    added = feed.totals().since(before)
    assert added.stages["fetch"] > 0
    assert added.since(added).stages["fetch"] == 0
    assert feed.typical().batches == 3
    feed.close()


def test_a_reader_goes_on_with_the_next_epoch() -> None:
    feed = OurFeed(nl.DataLoader(Rows(25), batch_size=10, num_workers=0))
    reader = Reader(feed)
    reader.fill(2, 1e3)
    assert (reader.batches, reader.epochs) == (2, 1)
    reading = reader.read(0.02, workers=2)
    whole, rest = divmod(2 + reading.batches, 3)
    assert reading.samples == 25 * whole + 10 * rest - 20
    assert reading.epochs == whole + (rest > 0) - 1
    assert reading.rate == reading.samples / reading.seconds
    feed.close()


def test_slow_batches_get_more_time_for_some_of_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_MOST_TIMES", math.inf)
    feed = OurFeed(nl.DataLoader(Rows(25), batch_size=10, num_workers=0))
    assert Reader(feed).read(1e-9, workers=2).batches == 8
    feed.close()


def test_a_reader_stops_filling_when_the_time_is_over() -> None:
    feed = OurFeed(nl.DataLoader(Rows(25), batch_size=10, num_workers=0))
    reader = Reader(feed)
    reader.fill(1000, 0.0)
    assert reader.batches == 1
    feed.close()


@pytest.mark.parametrize(("length", "arguments"), [(0, {}), (3, {"drop_last": True})])
def test_an_epoch_without_a_batch_is_no_epoch(length: int, arguments: dict[str, Any]) -> None:
    feed = OurFeed(nl.DataLoader(Rows(length), batch_size=10, num_workers=0, **arguments))
    with pytest.raises(LoaderError, match="an epoch has no batch"):
        Reader(feed).fill(1, 1.0)


def test_samples_that_are_left_out_are_told_of() -> None:
    class Torn:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> int:
            if index in (3, 7):
                raise ValueError("torn")
            return index

    with nl.DataLoader(Torn(), 4, num_workers=0, on_failure=nl.FailurePolicy(skip=10)) as loader:
        feed = OurFeed(loader)
        assert feed.note == ""
        assert sum(len(batch) for batch in feed.epoch()) == feed.delivered() == 18
        assert feed.note == "2 samples were left out, since they raised"


def test_a_dataset_that_asks_for_random_numbers_of_its_own_can_be_read_by_others() -> None:
    class Noise:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> float:
            return float(nl.sample_rng().random())

    with nl.DataLoader(Noise(), batch_size=None, num_workers=0, seed=5) as loader:
        expected = list(loader)
    dataset = as_read_by_peers(Noise(), seed=5)
    assert [dataset[index] for index in range(4)] == expected
    plain = Numbers(4)
    assert as_read_by_peers(plain, seed=5) is plain
