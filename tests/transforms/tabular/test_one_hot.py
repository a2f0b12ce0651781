"""Categories as vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.tabular import OneHot
from tests.transforms.sample_steps import refusal, run
from tests.transforms.tabular.tables import any_rows


@given(any_rows, st.integers(1, 5), st.integers(0, 5))
def test_the_kernel_does_what_numpy_does(rows: np.ndarray, size: int, column: int) -> None:
    run(OneHot(size), rows, kernel=False)
    made = run(OneHot(size, column % rows.shape[-1]), rows, kernel=False)
    assert made.shape == (*rows.shape[:-1], rows.shape[-1] - 1 + size)


def test_vectors_are_those_of_torch() -> None:
    codes = np.random.default_rng(1).integers(0, 4, (5, 3))
    made = run(OneHot(4), codes)
    expected = torch.nn.functional.one_hot(torch.from_numpy(codes), 4).flatten(1)
    np.testing.assert_array_equal(made, expected.numpy())


def test_the_other_columns_stay_between_them() -> None:
    row = np.array([[0.5, 2, 0.25, 1]], np.float32)
    assert run(OneHot([3, 2], [1, -1]), row).tolist() == [[0.5, 0, 0, 1, 0.25, 0, 1]]


def test_a_code_that_is_no_category_gives_zeros() -> None:
    for value in (-1, 3, 1.5, np.nan, np.inf, -np.inf):
        row = np.array([[0.5, 0, 0.25, value]], np.float32)
        assert run(OneHot([1, 3], [1, 3]), row).tolist() == [[0.5, 1, 0.25, 0, 0, 0]]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "2 sizes for 3 columns" in refusal(OneHot([1, 2]), (3,), "int64")
    assert "no column 3" in refusal(OneHot(2, 3), (3,), "int64")
    assert "named twice" in refusal(OneHot(2, [0, -3]), (3,), "int64")
    with pytest.raises(ValueError, match=r"OneHot\.sizes=0"):
        OneHot(0)
    with pytest.raises(ValueError, match=r"OneHot\.sizes=\[\]"):
        OneHot([])
