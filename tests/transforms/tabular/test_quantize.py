"""Numbers sorted into bins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import Quantize
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.sets(st.floats(-200, 200), min_size=1, max_size=9))
def test_codes_are_those_of_digitize(rows: np.ndarray, edges: set[float]) -> None:
    codes = run(Quantize(sorted(edges)), rows, kernel=False)
    np.testing.assert_array_equal(codes, np.digitize(rows.astype(np.float64), sorted(edges)))


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_each_column_may_have_its_own_number_of_edges(dtype: str) -> None:
    rows = np.array([[0, 0, 0], [10, 10, np.nan], [5, 5, 5]], np.float32)
    codes = run(Quantize([[5], [0, 5, 10], [-1, 1]], dtype), rows)
    assert codes.dtype == dtype
    assert codes.tolist() == [[0, 1, 1], [1, 3, 2], [1, 2, 2]]


@given(st.floats(-50, 50), st.floats(0.5, 50), st.integers(2, 9), st.floats(-200, 200))
def test_uniform_bins_are_of_equal_width_and_the_outer_ones_take_the_rest(
    low: float, extent: float, bins: int, value: float
) -> None:
    transform = Quantize.uniform(low, low + extent, bins)
    (edges,) = np.array(transform.edges).tolist()
    assert len(edges) == bins - 1
    widths = [right - left for left, right in pairwise([low, *edges, low + extent])]
    np.testing.assert_allclose(widths, extent / bins)
    (code,) = run(transform, np.array([value]), kernel=False).tolist()
    assert 0 <= code < bins
    assert code == 0 or edges[code - 1] <= value
    assert code == bins - 1 or value < edges[code]


def test_uniform_bins_may_differ_between_columns() -> None:
    transform = Quantize.uniform([0, 10], [1, 20], 2, "uint8")
    assert transform == Quantize([[0.5], [15]], "uint8")


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "edges of 2 columns, but the rows have 3" in refusal(Quantize([[1], [2]]), (3,), "float32")
    assert "bool is not supported" in refusal(Quantize([1]), (3,), "bool")
    wrongs: list[Any] = [[2, 1], [1, 1], [[1, 2], [2, 1]]]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"Quantize\.edges=.*rising order"):
            Quantize(wrong)
    with pytest.raises(ValueError, match=r"Quantize\.edges=\[\]"):
        Quantize([])
    with pytest.raises(TypeError, match=r"Quantize\.edges=5"):
        Quantize(5)  # type: ignore[arg-type]
    for dtype in ("complex64", "nothing", "int8"):
        with pytest.raises(ValueError, match=rf"Quantize\.dtype='{dtype}': expected one of int64"):
            Quantize([1], dtype)
    with pytest.raises(ValueError, match="codes up to 300 do not fit into uint8"):
        Quantize(range(300), "uint8")
    with pytest.raises(ValueError, match=r"Quantize\.uniform: low 3 is not below high 3"):
        Quantize.uniform(3, 3, 4)
    with pytest.raises(ValueError, match=r"Quantize\.uniform: low has 2 values and high has 3"):
        Quantize.uniform([1, 2], [3, 4, 5], 4)
