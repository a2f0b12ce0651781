"""Signals for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

#: Signals of any of the dtypes, with NaN and infinities among the floats.
any_signal = st.sampled_from(["float32", "float64", "int16", "int8"]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, max_side=12))
)


def noise(shape: tuple[int, ...], dtype: Any, scale: float = 1.0) -> np.ndarray:
    """Gaussian numbers, the same in every run."""
    return (np.random.default_rng(3).normal(0, scale, shape)).astype(dtype)
