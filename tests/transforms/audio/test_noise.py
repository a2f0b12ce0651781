"""Noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.audio import AddNoise, Jitter
from tests.transforms.audio.signals import any_signal, noise
from tests.transforms.sample_steps import drawn_for, refusal, run


@given(any_signal, st.floats(-40, 80), st.floats(0, 1e30), st.integers(0, 2**64 - 1))
def test_the_kernels_do_what_numpy_does(signal: np.ndarray, ratio: float, std: float, index: int) -> None:
    run(AddNoise(ratio), signal, index=index, kernel=False)
    run(Jitter(std), signal, index=index, kernel=False)


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 0.1), ("int16", 3000.0)])
def test_noise_has_the_ratio_that_was_drawn(dtype: str, scale: float) -> None:
    signal = noise((2, 5_000), dtype, scale)
    for index in range(3):
        drawn = drawn_for(AddNoise((5, 15)), signal, index=index)["snr_db"]
        assert 5 <= drawn <= 15
        noisy = run(AddNoise((5, 15)), signal, index=index, python=False)
        added = noisy.astype(float) - signal
        measured = 10 * math.log10(np.mean(signal.astype(float) ** 2) / np.mean(added**2))
        # The power of 10,000 normal numbers varies by 1.4 %, which is 0.06 dB.
        assert measured == pytest.approx(drawn, abs=0.3)
        assert added.mean() == pytest.approx(0, abs=5 * added.std() / 100)
        assert np.corrcoef(added[0], added[1])[0, 1] == pytest.approx(0, abs=0.07)


def test_the_kernels_do_the_same_where_lengths_are_no_multiple_of_anything() -> None:
    for index in (*range(1, 10), 15, 17):
        run(AddNoise(), noise((1, index), "float32"), index=index)
        run(AddNoise(), noise((1, index), "int16", 100), index=index)
        run(Jitter((0.1, 0.2)), noise((1, index), "float32"), index=index)


def test_jitter_has_the_standard_deviation_that_was_asked_for() -> None:
    signal = np.full(10_000, 5.0, np.float32)
    added = run(Jitter(0.2), signal, python=False, kernel=False) - 5
    assert added.std() == pytest.approx(0.2, rel=0.05)
    assert added.mean() == pytest.approx(0, abs=0.01)


def test_silence_stays_silent() -> None:
    assert not run(AddNoise(), np.zeros(9, np.float32), kernel=False).any()


def test_integers_saturate() -> None:
    loud = np.full(400, 127, np.int8)
    noisy = run(Jitter(20.0), loud, kernel=False)
    assert noisy.max() == 127
    assert (noisy == 127).sum() > 100
    assert noisy.min() > 20


def test_a_signal_with_nan_or_infinity_is_lost_to_noise_of_its_power() -> None:
    for lost in (math.nan, math.inf):
        signal = np.array([1, lost, 2, 3], np.float32)
        assert not np.isfinite(run(AddNoise(), signal, kernel=False)).any()
        kept = run(Jitter(0.1), signal, kernel=False)
        assert np.isfinite(kept).tolist() == [True, False, True, True]


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "uint8 is not supported" in refusal(AddNoise(), (5,), "uint8")
    assert "int32 is not supported" in refusal(Jitter(), (5,), "int32")
    with pytest.raises(ValueError, match=r"Jitter\.std=-1"):
        Jitter(-1)
    with pytest.raises(ValueError, match=r"AddNoise\.snr_db=nan"):
        AddNoise(math.nan)
