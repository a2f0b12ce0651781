"""Fingerprints tell samples apart exactly where their values differ, and never raise."""

from __future__ import annotations

import copy
import datetime as dt
import threading
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nogil_loader.check.difference import tell_difference
from nogil_loader.check.fingerprint import fingerprint

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    hnp.arrays(st.sampled_from(["u1", "<i4", ">i4", "f4", "f8", "?", "M8[s]"]), hnp.array_shapes(max_side=3)),
)
PARTS = st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.tuples(LEAVES, LEAVES))
SAMPLES = st.one_of(
    PARTS, st.lists(PARTS, max_size=3), st.dictionaries(st.text(max_size=3), PARTS, max_size=3)
)


@given(SAMPLES)
def test_a_copy_has_the_same_fingerprint(sample: Any) -> None:
    assert fingerprint(copy.deepcopy(sample)) == fingerprint(sample)


@given(SAMPLES, SAMPLES)
def test_a_difference_is_told_exactly_where_fingerprints_differ(one: Any, other: Any) -> None:
    before, after = (fingerprint(one),), (fingerprint(other),)
    told = tell_difference(before, after, [one], [other])
    assert (told is None) == (before == after)
    if told is not None:
        assert (told.how == "values") == (before[0].structure == after[0].structure)


@given(hnp.arrays("u1", hnp.array_shapes(min_dims=1, max_dims=3)), st.data())
def test_one_changed_value_changes_the_fingerprint(array: np.ndarray, data: st.DataObject) -> None:
    changed = array.copy()
    at = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    changed[at] ^= np.uint8(1)
    one, other = {"x": array}, {"x": changed}
    told = tell_difference((fingerprint(one),), (fingerprint(other),), [one], [other])
    assert told is not None
    count = "" if array.size == 1 else f", 1 of {array.size}"
    assert told.text == f"values at 'x'{count}"
    assert not told.is_rounding


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


class Opaque:
    __slots__ = ()


class Hostile:
    @property
    def __dict__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("hands off")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError("hands off")


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Record:
    image: Any
    label: int


@pytest.mark.parametrize(
    "sample", [Opaque(), Hostile(), threading.Lock(), open, (each for each in "ab"), [[...]]]
)
def test_anything_has_a_fingerprint(sample: Any) -> None:
    assert fingerprint(sample) == fingerprint(sample)


def test_a_sample_may_hold_itself() -> None:
    sample: list[Any] = [1, "two"]
    sample.append(sample)
    assert fingerprint(sample) == fingerprint(sample)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("a", b"a"),
        ([1, 2], (1, 2)),
        (np.float32(1), np.float64(1)),
        (np.zeros(3, "<i4"), np.zeros(3, ">i4")),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (0.0, -0.0),
        (Plain(1), Plain(2)),
        (Plain([np.zeros(2)]), Plain([np.ones(2)])),
        (Record(np.zeros(2), 1), Record(np.zeros(2), 2)),
        ({1, 2}, {1, 3}),
        (ValueError("a"), ValueError("b")),
        (dt.date(2020, 1, 1), dt.date(2020, 1, 2)),
        (np.array([1, None]), np.array([1, 2], object)),
        (np.ma.masked_equal([1, 2], 1), np.ma.masked_equal([1, 2], 2)),
    ],
)
def test_what_is_not_the_same_has_other_fingerprints(one: Any, other: Any) -> None:
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(copy.deepcopy(one))


def test_order_of_keys_and_layout_of_memory_do_not_count() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    array = np.arange(12).reshape(3, 4)
    assert fingerprint(array) == fingerprint(np.asfortranarray(array))
    assert fingerprint(array[:, ::2]) == fingerprint(array[:, ::2].copy())


def test_a_long_list_is_told_as_a_whole() -> None:
    many = [str(number) for number in range(5_000)]
    print_of = fingerprint({"names": many})
    assert len(print_of.leaves) < 500
    assert fingerprint({"names": [*many[:-1], "other"]}) != print_of


@pytest.mark.torch
def test_tensors_of_every_kind_have_fingerprints() -> None:
    torch = pytest.importorskip("torch")
    tensors = [
        torch.zeros(2, 3, dtype=dtype) for dtype in (torch.bfloat16, torch.complex64, torch.bool, torch.int8)
    ]
    tensors += [
        torch.tensor(1.5),
        torch.zeros(0),
        torch.ones(3, requires_grad=True),
        torch.eye(3).to_sparse(),
    ]
    assert len({fingerprint(tensor) for tensor in tensors}) == len(tensors)
    assert fingerprint(torch.arange(6).reshape(2, 3).T) == fingerprint(torch.tensor([[0, 3], [1, 4], [2, 5]]))


@pytest.mark.parametrize(
    ("one", "other", "text", "rounding"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "'b' should not be there", False),
        ({"a": 1}, {"a": "x"}, "type at 'a': str instead of int", False),
        (np.zeros(3), np.zeros(3, "f4"), "dtype: float32 (3,) instead of float64 (3,)", False),
        (np.zeros(3), np.zeros(4), "shape: float64 (4,) instead of float64 (3,)", False),
        (np.zeros(4), np.arange(4.0), "values, 3 of 4", False),
        (floats(0.1, 0.2), floats(0.1, 0.2000001), "values, 1 of 2", True),
        (floats(0.1, 0.2), floats(0.1, 0.21), "values, 1 of 2", False),
        # A neighbour's value may be near, but it is a whole number.
        (floats(100_000), floats(100_001), "values", False),
        ([1, 2, 3], [1, 2, 4], "values, 1 of 3", False),
        (float("nan"), 1.0, "values", False),
    ],
)
def test_differences_are_told_in_words(one: Any, other: Any, text: str, rounding: bool) -> None:
    told = tell_difference((fingerprint(one),), (fingerprint(other),), [one], [other])
    assert told is not None
    assert text in told.text
    assert told.is_rounding is rounding


def test_a_batch_of_another_length_and_its_first_wrong_sample_are_told() -> None:
    prints = tuple(map(fingerprint, (1, 2, 3)))
    told = tell_difference(prints, prints[:2])
    assert told is not None
    assert told.text == "2 samples instead of 3"
    told = tell_difference(prints, (prints[0], prints[2], prints[2]))
    assert told is not None
    assert told.text == "sample 1 of the batch: values"
