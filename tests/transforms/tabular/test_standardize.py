"""Columns on the scale of a model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import StandardizeColumns
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.floats(-1e300, 1e300), st.floats(1e-300, 1e300))
def test_the_kernel_does_what_numpy_does(rows: np.ndarray, mean: float, std: float) -> None:
    made = run(StandardizeColumns(mean, std), rows, kernel=False)
    assert made.dtype == (rows.dtype if rows.dtype.kind == "f" else np.float32)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_each_column_has_its_own_mean_and_deviation(dtype: str) -> None:
    rows = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    made = run(StandardizeColumns([1, 0, -1], [1, 2, 4]), rows)
    assert made.tolist() == [[0, 1, 1], [3, 2.5, 1.75]]


def test_a_large_mean_is_subtracted_before_anything_is_rounded() -> None:
    # As float32 the mean would be 1_700_000_000 + 128 or so.
    stamps = np.array([1_700_000_003], np.int64)
    assert run(StandardizeColumns(1_700_000_001.0, 2.0), stamps, kernel=False).tolist() == [1]


def test_nan_and_infinities_stay() -> None:
    row = np.array([np.nan, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(run(StandardizeColumns(1, 2), row, kernel=False), row)


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "mean has 2 values, but the rows have 3 columns" in refusal(
        StandardizeColumns([1, 2], 1), (3,), "float32"
    )
    assert "std has 2 values" in refusal(StandardizeColumns(1, [1, 2]), (3,), "float32")
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=r"StandardizeColumns\.std=.*use 1 for a constant column"):
            StandardizeColumns([0, 0], [1, wrong])
    with pytest.raises(ValueError, match=r"StandardizeColumns\.mean=nan"):
        StandardizeColumns(float("nan"), 1)
