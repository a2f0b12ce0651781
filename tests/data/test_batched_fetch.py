"""The batched fetch of a dataset, and when it must not be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import (
    ArrayDataset,
    BatchSource,
    Subset,
    batched_fetch,
    batched_stream,
    stream_samples,
)
from nogil_loader.errors import DatasetError
from tests.data.models import Batched, Forwarding, OneByOne, OneTooFew


def test_the_batched_fetch_of_a_dataset_is_found() -> None:
    fetch = batched_fetch(Batched("abc"))
    assert fetch is not None
    assert fetch([2, 0]) == ["c", "a"]
    assert batched_fetch(OneByOne("abc")) is None
    assert batched_fetch([1, 2]) is None


def test_d26_a_subclass_that_overrides_getitem_alone_wins_over_the_inherited_batched_fetch() -> None:
    class Augmented(Batched):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10

    class Deeper(Augmented):
        pass

    for cls in (Augmented, Deeper):
        assert batched_fetch(cls([1, 2])) is None
        assert list(stream_samples(cls([1, 2]), [1, 0])) == [20, 10]


def test_d26_a_mixin_that_overrides_getitem_wins_over_the_class_after_it() -> None:
    class Augment:
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10  # type: ignore[misc]

    class Augmented(Augment, Batched):
        pass

    assert batched_fetch(Augmented([1])) is None


def test_a_subclass_that_overrides_both_is_fetched_in_batches() -> None:
    class Both(Batched):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [sample * 10 for sample in super().__getitems__(indices)]

    fetch = batched_fetch(Both([1, 2]))
    assert fetch is not None
    assert fetch([1]) == [20]


def test_d26_a_wrapper_that_forwards_attributes_is_not_bypassed() -> None:
    wrapper = Forwarding(Batched([1, 2]))
    assert wrapper.__getitems__([0]) == [1], "the trap is set"
    assert batched_fetch(wrapper) is None
    assert list(stream_samples(wrapper, [0, 1])) == [-1, -2]


def test_a_method_set_on_the_object_itself_counts() -> None:
    dataset: Any = OneByOne([1, 2])
    dataset.__getitems__ = lambda indices: [100 + index for index in indices]
    fetch = batched_fetch(dataset)
    assert fetch is not None
    assert fetch([1]) == [101]


@pytest.mark.parametrize("value", [None, 3])
def test_a_batched_fetch_that_cannot_be_called_is_absent(value: Any) -> None:
    class Off(Batched):
        __getitems__ = value

    assert batched_fetch(Off([1])) is None
    switched_off: Any = Batched([1])
    switched_off.__getitems__ = value
    assert batched_fetch(switched_off) is None


@pytest.mark.parametrize("name", ["take", "stream"])
def test_methods_of_other_libraries_that_have_our_names_are_left_alone(name: str) -> None:
    class Namesake(OneByOne):
        def take(self, indices: Any) -> Any:
            raise AssertionError

        stream = take

    assert batched_fetch(np.arange(3), name) is None
    assert batched_fetch(Namesake([1]), name) is None


def test_d26_an_override_of_either_fetch_keeps_take_from_being_used() -> None:
    class Single(ArrayDataset):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index) + 1

    class Many(ArrayDataset):
        def __getitems__(self, indices: Any) -> list[Any]:
            return [sample + 1 for sample in super().__getitems__(indices)]

    assert batched_fetch(ArrayDataset(np.arange(3)), "take") is not None
    assert batched_fetch(Single(np.arange(3)), "take") is None
    assert batched_fetch(Many(np.arange(3)), "take") is None
    assert Subset(Single(np.arange(3)), [0]).take is None


def test_a_batch_source_without_take_is_read_by_samples() -> None:
    class Source(OneByOne, BatchSource):
        @property
        def take(self) -> None:
            return None

    assert batched_fetch(Source([1]), "take") is None


def test_d26_a_wrong_number_of_samples_is_an_error_that_names_both_numbers() -> None:
    with pytest.raises(DatasetError, match=r"OneTooFew.__getitems__ was asked for 3 samples and returned 2"):
        stream_samples(OneTooFew("abcd"), [0, 1, 2])


def test_a_failure_of_the_whole_fetch_is_raised_before_a_sample_is_drawn() -> None:
    class Failing(Batched):
        def __getitem__(self, index: int) -> Any:
            raise AssertionError

        def __getitems__(self, indices: list[int]) -> list[Any]:
            raise ConnectionError("server")

    with pytest.raises(ConnectionError):
        stream_samples(Failing([1]), [0])


def test_a_batched_fetch_may_spoil_the_list_that_it_is_given() -> None:
    class Sorting(Batched):
        def __getitem__(self, index: int) -> Any:
            raise AssertionError

        def __getitems__(self, indices: list[int]) -> Iterator[Any]:  # type: ignore[override]
            samples = [self.samples[index] for index in indices]
            indices.clear()
            return iter(samples)

    keys = [2, 0]
    assert list(stream_samples(Sorting("abc"), keys)) == ["c", "a"]
    assert keys == [2, 0]


def test_samples_in_memory_are_not_worth_a_batched_fetch() -> None:
    assert batched_stream(ArrayDataset(np.arange(3))) is None
    assert batched_stream(Subset(ArrayDataset(np.arange(3)), [0])) is None
    assert batched_stream(Subset(Batched([1]), [0])) is not None
