"""Windows of fixed length."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.sequence import PadOrTruncate, RandomCrop1D
from tests.transforms.sample_steps import drawn_for, refusal, run


@pytest.mark.parametrize(
    ("length", "sides", "expected"),
    [
        (3, ("right", "right"), [1, 2, 3]),
        (3, ("left", "left"), [3, 4, 5]),
        (3, ("left", "right"), [1, 2, 3]),
        (5, ("left", "left"), [1, 2, 3, 4, 5]),
        (7, ("right", "left"), [1, 2, 3, 4, 5, 9, 9]),
        (7, ("left", "right"), [9, 9, 1, 2, 3, 4, 5]),
    ],
)
def test_a_sequence_is_padded_or_cut_on_the_sides_that_were_asked_for(
    length: int, sides: tuple[Any, Any], expected: list[int]
) -> None:
    transform = PadOrTruncate(length, 9, padding_side=sides[0], truncation_side=sides[1])
    assert run(transform, np.arange(1, 6)).tolist() == expected


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    length=st.integers(1, 8),
    axis=st.integers(-3, 2),
    dtype=st.sampled_from(["uint8", "int64", "float32", "bool"]),
    sides=st.tuples(st.sampled_from(["left", "right"]), st.sampled_from(["left", "right"])),
    index=st.integers(0, 2**64 - 1),
)
def test_windows_along_any_axis_are_those_of_numpy(
    shape: list[int], length: int, axis: int, dtype: str, sides: tuple[Any, Any], index: int
) -> None:
    axis = axis % len(shape)
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    fixed = run(PadOrTruncate(length, 1, *sides, axis=axis), array, kernel=False)
    crop = run(RandomCrop1D(length, 1, axis=axis), array, index=index, kernel=False)
    items = np.moveaxis(array, axis, 0)
    missing = max(length - len(items), 0)
    pad = [(missing, 0) if sides[0] == "left" else (0, missing), *[(0, 0)] * (len(shape) - 1)]
    whole = np.pad(items, pad, constant_values=1)
    cut = whole[len(whole) - length :] if sides[1] == "left" else whole[:length]
    np.testing.assert_array_equal(np.moveaxis(fixed, axis, 0), cut)
    start = int(drawn_for(RandomCrop1D(length, 1, axis=axis), array, index=index)["start"])
    assert 0 <= start <= max(len(items) - length, 0)
    behind = np.pad(items, [(0, missing), *[(0, 0)] * (len(shape) - 1)], constant_values=1)
    np.testing.assert_array_equal(np.moveaxis(crop, axis, 0), behind[start : start + length])


@pytest.mark.parametrize("array", [np.arange(9), np.arange(18, dtype=np.float32).reshape(2, 9)])
def test_a_crop_begins_anywhere_and_is_the_same_for_all_channels(array: np.ndarray) -> None:
    starts: Counter[int] = Counter()
    for index in range(200):
        part = run(RandomCrop1D(5), array, index=index, kernel=index < 3)
        start = int(part.reshape(-1)[0])
        starts[start] += 1
        np.testing.assert_array_equal(part, array[..., start : start + 5])
    # Five places, 40 of each expected: fewer than 20 of any happens once in thousands of seeds.
    assert set(starts) == set(range(5))
    assert min(starts.values()) >= 20


def test_vectors_are_cropped_along_their_first_axis() -> None:
    vectors = np.arange(40, dtype=np.float32).reshape(10, 4)
    part = run(RandomCrop1D(3, axis=0), vectors, index=4)
    start = int(part[0, 0]) // 4
    np.testing.assert_array_equal(part, vectors[start : start + 3])


def test_a_short_array_is_padded_where_a_value_was_given_and_refused_otherwise() -> None:
    assert run(RandomCrop1D(4, pad_value=-1), np.arange(2)).tolist() == [0, 1, -1, -1]
    assert run(RandomCrop1D(2, pad_value=-1), np.zeros(0, np.int64)).tolist() == [-1, -1]
    assert "has 2 items, less than the 4" in refusal(RandomCrop1D(4), (2,), "int64")


def test_nan_pads_floats_and_nothing_else() -> None:
    padded = run(PadOrTruncate(3, float("nan")), np.ones(2, np.float32), kernel=False)
    np.testing.assert_array_equal(padded, [1, 1, np.nan])
    assert "value nan does not fit arrays of int64" in refusal(PadOrTruncate(3, float("nan")), (2,), "int64")


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "no axis 2" in refusal(PadOrTruncate(3, axis=2), (4, 4), "int64")
    assert "not an array of shape ()" in refusal(PadOrTruncate(3), (), "int64")
    assert "complex64 is not supported" in refusal(PadOrTruncate(3), (4,), "complex64")
    assert "value -1 does not fit arrays of uint8, 0 to 255" in refusal(PadOrTruncate(3, -1), (4,), "uint8")
    assert "pad_value 300" in refusal(RandomCrop1D(3, 300), (4,), "uint8")
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=r"PadOrTruncate\.length"):
            PadOrTruncate(wrong)
        with pytest.raises(ValueError, match=r"RandomCrop1D\.length"):
            RandomCrop1D(wrong)
    with pytest.raises(ValueError, match=r"PadOrTruncate\.padding_side='front'"):
        PadOrTruncate(3, padding_side="front")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"PadOrTruncate\.value"):
        PadOrTruncate(3, "0")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"PadOrTruncate\.value=9007199254740993: .* exactly"):
        PadOrTruncate(3, 2**53 + 1)


def test_the_smallest_int64_is_a_fill_as_good_as_any() -> None:
    least = np.iinfo(np.int64).min
    assert run(PadOrTruncate(2, least), np.zeros(1, np.int64)).tolist() == [0, least]
