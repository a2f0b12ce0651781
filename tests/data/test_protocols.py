"""What counts as a dataset, and which of its methods may be used to read it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import (
    IterableDataset,
    MapDataset,
    Mapper,
    check_dataset,
    dataset_length,
    is_map_style,
)
from nogil_loader.data.protocols import as_positional, check_map_style
from tests.data.models import Batched, OneByOne, Stream, Unsized
from tests.naming import told


class Length:
    """A sized object whose ``__len__`` does what it is told."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def __len__(self) -> Any:
        return self.answer()


def raising(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "dataset",
    [[1], (1,), {"a": 1}, range(3), np.arange(3), OneByOne([1]), Batched([1]), Unsized(), Mapper([1], str)],
    ids=lambda dataset: type(dataset).__name__,
)
def test_whatever_can_be_indexed_is_map_style(dataset: Any) -> None:
    assert is_map_style(dataset)
    check_dataset(dataset)
    check_map_style(dataset)


@pytest.mark.parametrize("dataset", [Stream(), iter([1]), {1, 2}, (i for i in range(3))], ids=told)
def test_what_can_only_be_iterated_is_a_dataset_but_not_map_style(dataset: Any) -> None:
    assert not is_map_style(dataset)
    check_dataset(dataset)
    with pytest.raises(TypeError, match=r"data=.*can only be iterated"):
        check_map_style(dataset, "data")


def test_a_getitem_switched_off_by_none_does_not_count() -> None:
    class Off(OneByOne):
        __getitem__ = None  # type: ignore[assignment]

    assert not is_map_style(Off([1]))
    with pytest.raises(TypeError, match="neither"):
        check_dataset(Off([1]))


@pytest.mark.parametrize("dataset", [None, 3, object(), len], ids=told)
def test_what_can_be_neither_indexed_nor_iterated_is_refused_with_what_is_missing(dataset: Any) -> None:
    with pytest.raises(TypeError, match=r"train=.*neither __getitem__ nor __iter__.*__len__"):
        check_dataset(dataset, "train")


def test_a_class_passed_instead_of_an_instance_is_told_so() -> None:
    with pytest.raises(TypeError, match=r"dataset=OneByOne: .*instance"):
        check_dataset(OneByOne)


def test_an_unprintable_object_is_refused_with_a_message_all_the_same() -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise SystemExit("no")

    with pytest.raises(TypeError, match="Unprintable"):
        check_dataset(Unprintable())


def test_the_protocols_describe_plain_python_classes() -> None:
    map_style: MapDataset[Any] = OneByOne([1])
    iterable: IterableDataset[int] = Stream()
    assert isinstance(map_style, MapDataset)
    assert not isinstance(Unsized(), MapDataset)
    assert isinstance(iterable, IterableDataset)
    assert not isinstance(OneByOne([1]), IterableDataset)


@pytest.mark.parametrize(
    ("dataset", "length"),
    [
        ([1, 2], 2),
        (np.zeros((4, 2)), 4),
        (np.array(3.0), None),
        (Stream(), None),
        (Length(lambda: 5), 5),
        (Length(lambda: np.int32(5)), 5),
        (Length(lambda: sys.maxsize + 1), sys.maxsize + 1),
        (Length(raising(TypeError("unknown"))), None),
        (Length(raising(NotImplementedError())), None),
    ],
)
def test_a_length_is_told_or_it_is_none(dataset: Any, length: int | None) -> None:
    assert dataset_length(dataset) == length


def test_a_length_that_is_no_count_is_an_error_and_not_unknown() -> None:
    with pytest.raises(TypeError, match=r"len\(Length\)=3.5"):
        dataset_length(Length(lambda: 3.5))
    with pytest.raises(ValueError, match=r"len\(Length\)=-1"):
        dataset_length(Length(lambda: -1))
    with pytest.raises(OSError, match="disk"):
        dataset_length(Length(raising(OSError("disk"))))


def test_a_positional_dataset_has_a_length_and_no_keys() -> None:
    assert as_positional("x", [5, 6]) == 2
    with pytest.raises(TypeError, match=r"x=.*by key"):
        as_positional("x", {"a": 1})
    with pytest.raises(TypeError, match=r"x=.*Unsized does not tell its length"):
        as_positional("x", Unsized())
    with pytest.raises(TypeError, match=r"x=.*Mapper does not tell its length"):
        as_positional("x", Mapper(Unsized(), str))
    with pytest.raises(TypeError, match=r"x=.*can only be iterated"):
        as_positional("x", Stream())
