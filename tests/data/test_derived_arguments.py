"""Datasets made from datasets refuse wrong arguments at once, and show what they are made of."""

from __future__ import annotations

from collections.abc import Callable
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
)
from tests.data.models import OneByOne, Stream, Unsized, double, every_kind

# Arguments of wrong types, which a type checker is not to see.
WRONG: dict[Any, Any] = {value: value for value in (1, 3, 1.5, 2.0, "no")}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Mapper(Stream(), double), TypeError, "can only be iterated"),
        (lambda: Mapper(3, double), TypeError, "neither __getitem__ nor __iter__"),
        (lambda: Mapper(OneByOne, double), TypeError, "instance"),
        (lambda: Mapper([1], WRONG[3]), TypeError, "fn=3"),
        (lambda: Subset(Stream(), [0]), TypeError, "can only be iterated"),
        (lambda: Subset([1], WRONG[3]), TypeError, "indices=3"),
        (lambda: Subset([1], "abc"), TypeError, "indices='abc'"),
        (lambda: Subset([1], [True]), TypeError, r"numpy\.flatnonzero"),
        (lambda: Subset([1], [0, np.True_]), TypeError, r"numpy\.flatnonzero"),
        (lambda: Subset([1], np.array([True])), TypeError, r"numpy\.flatnonzero"),
        (lambda: Subset([1], np.zeros((1, 1), int)), ValueError, "one dimension"),
        (lambda: Subset([1], [0, 1]), IndexError, "index 1 is out of range for list of length 1"),
        (lambda: Subset([1], np.array([-2])), IndexError, "index -2 is out of range for list of length 1"),
        (lambda: Subset(ArrayDataset(np.ones(2)), [2]), IndexError, "ArrayDataset of length 2"),
        (lambda: Subset([1], ["a"]), TypeError, "an index of list is an integer, not str"),
        (lambda: Shuffled([1], -1), ValueError, "seed=-1"),
        (lambda: Shuffled([1], 2**64), ValueError, "seed="),
        (lambda: Shuffled([1], WRONG[1.5]), TypeError, r"seed=1\.5"),
        (lambda: Shuffled([1], True), TypeError, "seed=True"),
        (lambda: Sampled([1], -1), ValueError, "size=-1"),
        (lambda: Sampled([1], WRONG[2.0]), TypeError, r"size=2\.0"),
        (
            lambda: Sampled([1], 2, replacement=False),
            ValueError,
            r"size=2: list has 1 samples; replacement=True",
        ),
        (lambda: Sampled([], 1), ValueError, "size=1: list has 0 samples to draw from"),
        (lambda: Sampled([1], 1, replacement=WRONG["no"]), TypeError, "replacement='no'"),
        (lambda: Concat([]), ValueError, "datasets is empty"),
        (lambda: Concat(WRONG[3]), TypeError, "datasets=3"),
        (lambda: Concat([[1], Stream()]), TypeError, r"datasets\[1\]=.*can only be iterated"),
        (lambda: Zip(), ValueError, "datasets is empty"),
        (
            lambda: Zip([1], (1, 2)),
            ValueError,
            r"datasets\[0\] \(list\) has 1 samples and datasets\[1\] \(tuple\) has 2",
        ),
        (lambda: Zip([1], strict=WRONG[1]), TypeError, "strict=1"),
        (lambda: Window([1], 0), ValueError, "size=0"),
        (lambda: Window([1], 1, 0), ValueError, "stride=0"),
        (lambda: Window([1], 1, drop_last=WRONG[1]), TypeError, "drop_last=1"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_dataset_is_made(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_index_out_of_range_names_itself_the_dataset_and_the_length() -> None:
    for dataset in every_kind([1, 2, 3])[1:]:
        name, length = type(dataset).__name__, len(dataset)
        with pytest.raises(IndexError, match=rf"index 9 is out of range for {name} of length {length}"):
            dataset[9]
        with pytest.raises(TypeError, match=f"an index of {name} is an integer, not slice"):
            dataset[0:1]


def test_the_length_of_a_mapper_is_the_length_of_its_dataset_or_an_error_that_says_why() -> None:
    assert len(Mapper({"a": 1, "b": 2}, double)) == 2
    with pytest.raises(TypeError, match=r"Unsized.* does not tell its length"):
        len(Mapper(Unsized(), double))


def test_the_repr_says_what_is_in_it_but_not_the_samples() -> None:
    inner = Subset(list(range(1000)), [1, 2])
    assert repr(Mapper(inner, double)) == "Mapper(Subset(list, 2 indices), double)"
    assert repr(Concat([inner, (1,)])) == "Concat([Subset(list, 2 indices), tuple])"
    assert repr(Zip(inner, strict=False)) == "Zip(Subset(list, 2 indices), strict=False)"
    assert repr(Window(inner, 2)) == "Window(Subset(list, 2 indices), size=2, stride=1, drop_last=True)"
    assert (
        repr(Sampled(inner, 1, seed=4))
        == "Sampled(Subset(list, 2 indices), size=1, replacement=True, seed=4)"
    )


def test_the_indices_of_a_subset_are_a_copy() -> None:
    indices = np.array([0, 1])
    subset = Subset([5, 6], indices)
    indices[0] = 1
    assert list(subset) == [5, 6]
