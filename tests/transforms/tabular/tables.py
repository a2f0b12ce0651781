"""Rows for the tests."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

#: One row or several, of floats with NaN and infinities among them, or of integers.
any_rows = st.sampled_from(["float32", "float64", "int8", "int64", "uint64"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, max_side=6))
)
