"""Mean 0 and standard deviation 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.audio import StandardizeSignal
from tests.transforms.audio.signals import any_signal, noise
from tests.transforms.sample_steps import refusal, run


@given(any_signal, st.booleans())
def test_the_kernel_does_what_numpy_does(signal: np.ndarray, per_channel: bool) -> None:
    made = run(StandardizeSignal(per_channel), signal, kernel=False)
    assert made.dtype == (np.float64 if signal.dtype == np.float64 else np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_values_are_those_of_mean_and_std(dtype: str, per_channel: bool) -> None:
    signal = noise((3, 101), dtype, 300) + np.array([[0], [1000], [-2000]], dtype)
    made = run(StandardizeSignal(per_channel), signal, kernel=dtype != "float64")
    exact = signal.astype(np.float64)
    axis = 1 if per_channel else None
    mean, std = exact.mean(axis, keepdims=True), exact.std(axis, keepdims=True)
    np.testing.assert_allclose(made, (exact - mean) / std, rtol=3e-7, atol=1e-7)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 40))
def test_a_constant_signal_becomes_exactly_zero(value: float, length: int) -> None:
    assert not run(StandardizeSignal(), np.full(length, value), kernel=False).any()


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_a_channel_with_nan_or_infinity_is_lost_and_the_others_are_not(lost: float) -> None:
    signal = noise((2, 20), "float32")
    signal[1, 3] = lost
    made = run(StandardizeSignal(), signal)
    assert np.isnan(made[1]).all()
    assert np.isfinite(made[0]).all()


def test_an_offset_far_above_the_signal_costs_no_precision() -> None:
    signal = noise((1, 1000), "float64")
    near, far = (run(StandardizeSignal(), each, kernel=False) for each in (signal, signal + 1e6))
    # What the offset itself rounds away in the input is 1e-10.
    np.testing.assert_allclose(near, far, atol=1e-9)


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "uint8 is not supported" in refusal(StandardizeSignal(), (5,), "uint8")
    with pytest.raises(TypeError, match=r"StandardizeSignal\.per_channel=1"):
        StandardizeSignal(1)  # type: ignore[arg-type]
