"""Inputs and next tokens."""

from __future__ import annotations

import numpy as np
import pytest

from nogil_loader.transforms.sequence import ShiftLabels
from tests.transforms.sample_steps import refusal, run


@pytest.mark.parametrize(("dtype", "kernel"), [("int64", True), ("uint16", False), ("int8", False)])
def test_row_0_are_the_tokens_and_row_1_those_that_follow(dtype: str, kernel: bool) -> None:
    tokens = np.array([3, 1, 4, 1, 5], dtype)
    rows = run(ShiftLabels(), tokens, kernel=kernel)
    assert rows.dtype == tokens.dtype
    assert rows.tolist() == [[3, 1, 4, 1], [1, 4, 1, 5]]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "at least 2 tokens, not 1" in refusal(ShiftLabels(), (1,), "int64")
    assert "float32 is not supported" in refusal(ShiftLabels(), (5,), "float32")
    assert "expected a sequence (L,)" in refusal(ShiftLabels(), (5, 2), "int64")
