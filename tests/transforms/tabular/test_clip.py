"""Columns within limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import Clip
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.none() | st.floats(-200, 60), st.none() | st.floats(61, 300))
def test_values_are_those_of_clip(rows: np.ndarray, low: float | None, high: float | None) -> None:
    if low is None and high is None:
        low = 0.0
    made = run(Clip(low, high), rows, kernel=False)
    if rows.dtype.kind == "f":
        least = None if low is None else rows.dtype.type(low)
        most = None if high is None else rows.dtype.type(high)
        np.testing.assert_array_equal(made, np.clip(rows, least, most))
        return
    limits = np.iinfo(rows.dtype)
    bottom = limits.min if low is None else max(limits.min, math.ceil(low))
    top = limits.max if high is None else min(limits.max, math.floor(high))
    # As Python's integers, which no comparison with a float can round.
    expected = np.minimum(np.maximum(rows.astype(object), bottom), top)
    assert made.tolist() == expected.tolist()


def test_each_column_has_its_own_limits_and_nan_stays() -> None:
    rows = np.array([[-5, 5, np.nan], [np.inf, -np.inf, 0.1]], np.float32)
    made = run(Clip([0, 1, 2], [1, 2, 3]), rows)
    np.testing.assert_array_equal(made, np.array([[0, 2, np.nan], [1, 1, 2]], np.float32))


def test_integers_have_the_whole_numbers_within_the_limits() -> None:
    rows = np.array([[-9, 0, 9]], np.int64)
    assert run(Clip(-1.5, 1.5), rows).tolist() == [[-1, 0, 1]]
    assert run(Clip(high=3), np.array([2**63 - 1, -(2**63)]), kernel=False).tolist() == [3, -(2**63)]
    assert run(Clip(low=-3), np.array([2**64 - 1], np.uint64), kernel=False).tolist() == [2**64 - 1]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "low has 2 values, but the rows have 3 columns" in refusal(Clip([1, 2]), (3,), "float32")
    assert "no value between the limits of column 1, 5.0 and 3.0" in refusal(Clip([1, 5], 3), (2,), "float32")
    assert "int64 has no value between the limits of column 0, 1 and 0" in refusal(
        Clip(0.2, 0.8), (2,), "int64"
    )
    assert "uint8 has no value between" in refusal(Clip(300), (2,), "uint8")
    assert "bool is not supported" in refusal(Clip(0), (2,), "bool")
    with pytest.raises(ValueError, match=r"Clip\.low=None, high=None"):
        Clip()
