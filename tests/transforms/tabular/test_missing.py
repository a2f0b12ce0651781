"""Missing values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import FillMissing
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.integers(0, 127), st.integers(0, 127))
def test_nan_and_the_sentinel_are_replaced_and_nothing_else(
    rows: np.ndarray, value: int, sentinel: int
) -> None:
    rows.reshape(-1)[::2] = sentinel
    made = run(FillMissing(value, sentinel), rows, kernel=False)
    missing = (rows == sentinel) | np.isnan(rows)
    np.testing.assert_array_equal(made[~missing], rows[~missing])
    assert (made[missing] == value).all()


def test_each_column_has_its_own_value() -> None:
    rows = np.array([[np.nan, 1, np.nan], [np.inf, np.nan, -999]], np.float32)
    assert run(FillMissing([7, 8, 9.5], -999), rows).tolist() == [[7, 1, 9.5], [np.inf, 8, 9.5]]
    assert run(FillMissing(0), rows).tolist() == [[0, 1, 0], [np.inf, 0, -999]]


def test_the_smallest_int64_can_stand_for_what_is_missing() -> None:
    least = np.iinfo(np.int64).min
    assert run(FillMissing(-1, least), np.array([[5, least, least + 1]])).tolist() == [[5, -1, least + 1]]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "int64 has no NaN; give the sentinel" in refusal(FillMissing(0), (3,), "int64")
    assert "value has 2 values, but the rows have 3 columns" in refusal(FillMissing([1, 2]), (3,), "float32")
    assert "value 0.5 does not fit arrays of int64" in refusal(FillMissing(0.5, -1), (3,), "int64")
    assert "sentinel -1 does not fit arrays of uint8" in refusal(FillMissing(0, -1), (3,), "uint8")
    with pytest.raises(ValueError, match=r"FillMissing\.value=\[\]"):
        FillMissing([])
    with pytest.raises(TypeError, match=r"FillMissing\.value=None"):
        FillMissing(None)  # type: ignore[arg-type]
