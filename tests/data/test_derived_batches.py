"""Datasets made from datasets that fetch in batches fetch in batches too, and lose nothing by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.data import (
    ArrayDataset,
    Concat,
    Mapper,
    Sampled,
    Shuffled,
    Subset,
    Window,
    Zip,
    batched_fetch,
    batched_stream,
)
from nogil_loader.errors import DatasetError
from tests.data.models import Batched, Forwarding, OneByOne, OneTooFew, double, every_kind
from tests.naming import told


def test_the_batched_fetch_passes_through_in_one_call() -> None:
    for place in range(len(every_kind(Batched("abc")))):
        inner = Batched("abc")
        dataset = every_kind(inner)[place]
        fetch = batched_fetch(dataset)
        assert fetch is not None, dataset
        fetch([1, 0])
        assert len(inner.asked) == 1, dataset


@pytest.mark.parametrize("inner", [[1, 2, 3], OneByOne([1, 2, 3]), ArrayDataset(np.arange(3))], ids=told)
def test_there_is_no_batched_fetch_where_nothing_is_gained(inner: Any) -> None:
    for dataset in every_kind(inner):
        assert batched_fetch(dataset) is None, dataset
        assert batched_stream(dataset) is None, dataset


def test_d26_datasets_inside_are_not_bypassed_either() -> None:
    class Augmented(Batched):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10

    for inner in (Augmented([1, 2, 3]), Forwarding(Batched([-10, -20, -30]))):
        assert [inner[place] for place in range(3)] == [10, 20, 30]
        for dataset in every_kind(inner) if isinstance(inner, Augmented) else [Subset(inner, [0])]:
            assert batched_fetch(dataset) is None, dataset


@pytest.mark.parametrize("kind", [Mapper, Subset])
def test_d26_a_subclass_of_ours_that_overrides_getitem_alone_wins(kind: Any) -> None:
    class Negated(kind):
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)

    dataset = Negated(Batched([1, 2]), double if kind is Mapper else [0, 1])
    for name in ("__getitems__", "stream", "take"):
        assert batched_fetch(dataset, name) is None
    assert list(Concat([dataset])) == list(dataset)


def test_d26_a_dataset_that_returns_too_few_is_caught_at_any_depth() -> None:
    for dataset in every_kind(OneTooFew("abc")):
        fetch = batched_fetch(dataset)
        assert fetch is not None
        with pytest.raises(
            DatasetError, match=r"OneTooFew.__getitems__ was asked for \d samples and returned \d"
        ):
            fetch([1, 0])


def test_the_function_of_a_mapper_runs_when_its_sample_is_drawn() -> None:
    done: list[int] = []
    dataset = Zip(Concat([Subset(Mapper(Batched([5, 6, 7]), lambda sample: done.append(sample)), [2, 1, 0])]))
    assert dataset.stream is not None
    drawn = dataset.stream([0, 1])
    assert done == []
    next(drawn)
    assert done == [7]
    next(drawn)
    assert done == [7, 6]


@pytest.mark.parametrize("error", [StopIteration, IndexError, GeneratorExit])
def test_an_exception_in_the_function_never_looks_like_the_end(error: type[BaseException]) -> None:
    def fail(sample: int) -> int:
        if sample == 2:
            raise error
        return sample

    for dataset in (Mapper([1, 2, 3], fail), Concat([Mapper([1, 2, 3], fail)])):
        with pytest.raises((RuntimeError, error)):
            list(dataset)
    batched = Mapper(Batched([1, 2, 3]), fail)
    for wrapped in (
        batched,
        Concat([batched]),
        Zip(batched, batched),
        Window(batched, 3),
        Subset(batched, [1]),
    ):
        fetch = batched_fetch(wrapped)
        assert fetch is not None
        with pytest.raises((RuntimeError, error)):
            fetch(range(len(wrapped)))


def test_take_passes_through_a_choice_of_rows() -> None:
    rows = ArrayDataset(x=np.arange(12).reshape(6, 2))
    for dataset in (
        Subset(rows, [5, 3, 3, -1]),
        Shuffled(rows, 1),
        Sampled(rows, 4, seed=1),
        Subset(Shuffled(rows, 1), [1, 0, 2]),
    ):
        take = batched_fetch(dataset, "take")
        assert take is not None
        expected = np.stack([dataset[index]["x"] for index in (-1, 0, 2)])
        assert np.array_equal(take([-1, 0, 2])["x"], expected)
        with pytest.raises(IndexError, match=rf"of length {len(dataset)}"):
            take([0, 6])
    assert batched_fetch(Subset([1], [0]), "take") is None
    assert batched_fetch(Mapper(rows, double), "take") is None
