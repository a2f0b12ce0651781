"""Datasets made from datasets: each reads like the same thing done to lists."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from tests.data.models import Batched, OneByOne, Unsized, double, every_kind
from tests.naming import told

SOURCES: list[Callable[[Sequence[Any]], Any]] = [
    list,
    tuple,
    OneByOne,
    Batched,
    lambda values: ArrayDataset(np.array(values, np.int64)),
    lambda values: Subset(Batched(values), range(len(values))),
]
sources = st.sampled_from(SOURCES)
values = st.lists(st.integers(-1000, 1000), max_size=12)


def plain(sample: Any) -> Any:
    """A sample without numpy's types, to be compared with what lists give."""
    if isinstance(sample, (list, tuple)):
        return type(sample)(plain(part) for part in sample)
    return int(sample) if isinstance(sample, np.integer) else sample


def assert_reads_like(dataset: Any, model: list[Any], data: st.DataObject) -> None:
    """The dataset has the samples of the model, by every way of reading it."""
    assert len(dataset) == len(model)
    assert [plain(sample) for sample in dataset] == model
    indices = data.draw(st.lists(st.integers(-len(model), len(model) - 1), max_size=6)) if model else []
    expected = [model[index] for index in indices]
    assert [plain(dataset[index]) for index in indices] == expected
    assert [plain(dataset[np.int64(index)]) for index in indices] == expected
    for name in ("__getitems__", "stream"):
        fetch = batched_fetch(dataset, name)
        if fetch is not None:
            assert [plain(sample) for sample in fetch(indices)] == expected
    for outside in (len(model), -len(model) - 1):
        with pytest.raises(IndexError):
            dataset[outside]


@given(sources, values, st.data())
def test_a_mapper_reads_like_a_mapped_list(source: Any, values: list[int], data: st.DataObject) -> None:
    assert_reads_like(Mapper(source(values), double), [2 * value for value in values], data)


@given(sources, values, st.data())
def test_a_subset_reads_like_a_list_of_chosen_items(
    source: Any, values: list[int], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(-len(values), len(values) - 1), max_size=8)) if values else []
    given_as = data.draw(st.sampled_from([chosen, tuple(chosen), np.array(chosen, np.int32), iter(chosen)]))
    assert_reads_like(Subset(source(values), given_as), [values[i] for i in chosen], data)


@given(sources, values, st.integers(0, 2**64 - 1), st.data())
def test_a_shuffled_dataset_is_a_permutation_that_depends_on_the_seed_alone(
    source: Any, values: list[int], seed: int, data: st.DataObject
) -> None:
    order = list(Shuffled(range(len(values)), seed))
    assert sorted(order) == list(range(len(values)))
    assert_reads_like(Shuffled(source(values), seed), [values[place] for place in order], data)


@given(sources, values.filter(bool), st.integers(0, 20), st.integers(0, 2**64 - 1), st.data())
def test_a_sampled_dataset_is_a_draw_that_depends_on_the_seed_alone(
    source: Any, values: list[int], size: int, seed: int, data: st.DataObject
) -> None:
    places = list(Sampled(range(len(values)), size, seed=seed))
    assert len(places) == size
    assert_reads_like(Sampled(source(values), size, seed=seed), [values[place] for place in places], data)
    fewer = min(size, len(values))
    different = list(Sampled(range(len(values)), fewer, replacement=False, seed=seed))
    assert len(set(different)) == fewer
    model = [values[place] for place in different]
    assert_reads_like(Sampled(source(values), fewer, replacement=False, seed=seed), model, data)


@given(st.lists(st.tuples(sources, values), min_size=1, max_size=4), st.data())
def test_a_concatenation_reads_like_added_lists(
    parts: list[tuple[Any, list[int]]], data: st.DataObject
) -> None:
    datasets = [source(values) for source, values in parts]
    assert_reads_like(Concat(datasets), [value for _, values in parts for value in values], data)


@given(st.lists(st.tuples(sources, values), min_size=1, max_size=3), st.data())
def test_a_zip_reads_like_zipped_lists(parts: list[tuple[Any, list[int]]], data: st.DataObject) -> None:
    datasets = [source(values) for source, values in parts]
    model = list(zip(*(values for _, values in parts), strict=False))
    assert_reads_like(Zip(*datasets, strict=False), model, data)


@given(sources, values, st.integers(1, 5), st.integers(1, 6), st.booleans(), st.data())
def test_a_window_reads_like_slices_of_a_list(
    source: Any, values: list[int], size: int, stride: int, drop_last: bool, data: st.DataObject
) -> None:
    model = []
    for start in range(0, len(values), stride):
        window = values[start : start + size]
        if len(window) == size or not drop_last:
            model.append(window)
        if start + size >= len(values):
            break
    assert_reads_like(Window(source(values), size, stride, drop_last), model, data)


@given(values, st.data())
def test_datasets_nest_to_any_depth(values: list[int], data: st.DataObject) -> None:
    source = data.draw(sources)
    inner = Concat([Mapper(source(values), double), values])
    model = [2 * value for value in values] + values
    order = list(Shuffled(range(len(model)), 5))
    model = [model[place] for place in order]
    windows = [model[start : start + 2] for start in range(0, len(model) - 1, 2)]
    nested = Zip(Window(Shuffled(inner, 5), 2, 2), Mapper(Window(Shuffled(inner, 5), 2, 2), sum))
    assert_reads_like(nested, [(window, sum(window)) for window in windows], data)


def test_d25_keys_of_any_kind_pass_through_unchanged() -> None:
    by_name = {"cat.jpg": 1, "dog.jpg": 2, ("shard", 3): 3}
    assert Mapper(by_name, double)["dog.jpg"] == 4
    assert Mapper(by_name, double)["shard", 3] == 6
    assert Mapper(Unsized(), len)["abc"] == 3
    subset = Subset(by_name, [("shard", 3), "cat.jpg"])
    assert list(subset) == [3, 1]
    assert list(Shuffled(subset, 1)) in ([1, 3], [3, 1])
    identities = {139: "a", 285: "b"}
    assert list(Subset(identities, [285, 139])) == ["b", "a"], "integer keys need not be positions"
    assert list(Subset(identities, np.array([285, 139]))) == ["b", "a"]


def test_keys_reach_the_dataset_as_plain_integers() -> None:
    seen = []

    class Nosy:
        def __getitem__(self, key: Any) -> Any:
            seen.append(type(key))
            return key

    assert list(Subset(Nosy(), np.array([5, 2**40]))) == [5, 2**40]
    assert list(Subset(Nosy(), [2**63, 2**80])) == [2**63, 2**80]
    assert set(seen) == {int}


@pytest.mark.parametrize(
    "combine", [Shuffled, lambda d: Sampled(d, 1), lambda d: Concat([d]), Zip, lambda d: Window(d, 1)]
)
def test_what_needs_positions_refuses_a_mapping_at_once_and_says_what_to_do(combine: Any) -> None:
    with pytest.raises(TypeError, match=r"by key.*Subset\(mapping, list\(mapping\)\)"):
        combine({"a": 1})
    with pytest.raises(TypeError, match="does not tell its length"):
        combine(Unsized())


@pytest.mark.parametrize("inner", [[1, 2, 3], OneByOne([1, 2, 3]), Batched([1, 2, 3])], ids=told)
def test_copies_read_the_same_samples(inner: Any) -> None:
    for dataset in every_kind(inner):
        for other in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
            assert list(other) == list(dataset)
            assert repr(other) == repr(dataset)
        # Using it leaves nothing behind that cannot be copied.
        assert pickle.dumps(dataset) == pickle.dumps(pickle.loads(pickle.dumps(dataset)))


def test_d09_any_number_of_threads_may_read_every_dataset_at_the_same_time() -> None:
    # A list as source has no state, so whatever gets mixed up would be the wrapper's own.
    datasets = [*every_kind(list(range(64))), *every_kind(ArrayDataset(np.arange(64)))]
    datasets += every_kind(Subset(Batched(list(range(64))), range(64)))
    expected = [list(dataset) for dataset in datasets]
    readers = 8
    barrier = threading.Barrier(readers)
    wrong: list[Any] = []

    def read(reader: int) -> None:
        order = random.Random(reader)
        barrier.wait()
        try:
            for _ in range(30):
                for dataset, samples in zip(datasets, expected, strict=True):
                    indices = [order.randrange(-len(samples), len(samples)) for _ in range(8)]
                    got = [dataset[index] for index in indices]
                    fetch = batched_fetch(dataset)
                    also = fetch(indices) if fetch is not None else got
                    right = [samples[index] for index in indices]
                    if got != right or also != right:
                        wrong.append((dataset, indices, got, also))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
