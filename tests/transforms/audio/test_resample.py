"""Another sampling rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.audio import Resample
from tests.transforms.audio.signals import any_signal, noise
from tests.transforms.sample_steps import refusal, run


@given(any_signal, st.integers(1, 40), st.integers(1, 40))
def test_the_kernel_does_what_numpy_does_and_gives_the_promised_length(
    signal: np.ndarray, orig: int, new: int
) -> None:
    made = run(Resample(orig, new), signal, kernel=False)
    assert made.shape == (*signal.shape[:-1], math.ceil(signal.shape[-1] * new / orig))
    assert made.dtype == signal.dtype


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1.0), ("int16", 1000.0)])
@pytest.mark.parametrize(("orig", "new"), [(16_000, 22_050), (44_100, 16_000), (3, 3)])
def test_values_are_those_of_interp(dtype: str, scale: float, orig: int, new: int) -> None:
    signal = noise((2, 331), dtype, scale)
    made = run(Resample(orig, new), signal)
    at = np.arange(made.shape[1]) * (orig / new)
    for channel, row in zip(signal, made, strict=True):
        expected = np.interp(at, np.arange(331), channel)
        np.testing.assert_allclose(row, expected, atol=0.501 if dtype == "int16" else 1e-5)


def test_positions_do_not_drift_over_a_long_signal() -> None:
    # A ramp tells at every sample where it was taken, exactly in float64.
    ramp = np.arange(300_000, dtype=np.float64)[None]
    made = run(Resample(44_100, 48_000), ramp, python=False, kernel=False)[0]
    last = len(made) - 2
    assert made[last] == pytest.approx(last * 44_100 / 48_000, rel=1e-15)


def test_twice_the_rate_keeps_every_sample_and_half_of_it_every_second_one() -> None:
    signal = noise((9,), "float32")
    twice = run(Resample(8_000, 16_000), signal, kernel=False)
    np.testing.assert_array_equal(twice[::2], signal)
    np.testing.assert_array_equal(run(Resample(16_000, 8_000), signal, kernel=False), signal[::2])


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "int64 is not supported" in refusal(Resample(1, 2), (5,), "int64")
    with pytest.raises(ValueError, match=r"Resample\.new_freq=0"):
        Resample(16_000, 0)
    with pytest.raises(TypeError, match=r"Resample\.orig_freq"):
        Resample(16e3, 8_000)  # type: ignore[arg-type]
