"""Gain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.audio import Gain
from tests.transforms.audio.signals import any_signal, noise
from tests.transforms.sample_steps import drawn_for, refusal, run


@given(any_signal, st.floats(-200, 200), st.floats(0, 100), st.integers(0, 2**64 - 1))
def test_the_kernel_does_what_numpy_does(signal: np.ndarray, low: float, extent: float, index: int) -> None:
    high = min(low + extent, 200)
    run(Gain((low, high)), signal, index=index, kernel=False)
    assert low <= drawn_for(Gain((low, high)), signal, index=index)["decibels"] <= high


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_twenty_decibels_are_a_factor_of_ten(dtype: str) -> None:
    signal = noise((2, 50), dtype)
    louder = run(Gain(20), signal, kernel=dtype == "float32")
    assert louder.dtype == signal.dtype
    np.testing.assert_allclose(louder, signal * 10, rtol=2e-7)


def test_integers_saturate() -> None:
    signal = np.array([[30_000, -30_000, 100, -3, 1]], np.int16)
    # As a float64 reference, rounded and clipped.
    exact = np.clip(np.rint(signal * 10 ** (6 / 20)), -32768, 32767)
    assert run(Gain(6), signal).tolist() == exact.tolist()


def test_gains_differ_between_samples_and_lie_in_the_range() -> None:
    signal = np.ones((1, 4), np.float32)
    gains = [
        20 * math.log10(run(Gain(), signal, index=index, kernel=index < 3)[0, 0]) for index in range(100)
    ]
    assert len(set(gains)) == 100
    assert -6.0001 <= min(gains) < -5
    assert 5 < max(gains) <= 6.0001


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "int64 is not supported; expected a signal (T,)" in refusal(Gain(), (5,), "int64")
    assert "complex64 is not supported" in refusal(Gain(), (5,), "complex64")
    assert "not an empty one" in refusal(Gain(), (2, 0), "float32")
    assert "not an array of shape ()" in refusal(Gain(), (), "float32")
    with pytest.raises(ValueError, match=r"Gain\.decibels=\(3, 1\)"):
        Gain((3, 1))
    with pytest.raises(ValueError, match=r"Gain\.decibels=300"):
        Gain(300)
