"""Columns by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import SelectColumns
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.data())
def test_columns_are_those_of_numpy(rows: np.ndarray, data: Any) -> None:
    last = rows.shape[-1]
    columns = data.draw(st.lists(st.integers(-last, last - 1), min_size=1, max_size=8))
    np.testing.assert_array_equal(run(SelectColumns(columns), rows, kernel=False), rows[..., columns])


def test_columns_may_come_from_the_end_and_several_times() -> None:
    row = np.array([10, 20, 30, 40], np.float32)
    assert run(SelectColumns([3, -4, 1, 1]), row).tolist() == [40, 10, 20, 20]
    assert run(SelectColumns(2), row, kernel=False).tolist() == [30]


def test_rows_of_bool_keep_their_dtype() -> None:
    assert run(SelectColumns([1, 0]), np.array([True, False])).tolist() == [False, True]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "no column 4, the rows have 4 columns" in refusal(SelectColumns([0, 4]), (4,), "float32")
    assert "no column -5" in refusal(SelectColumns(-5), (4,), "float32")
    assert "rows of no columns" in refusal(SelectColumns(0), (3, 0), "float32")
    with pytest.raises(ValueError, match=r"SelectColumns\.columns=\[\]"):
        SelectColumns([])
    with pytest.raises(TypeError, match=r"SelectColumns\.columns"):
        SelectColumns([1.0])  # type: ignore[list-item]
