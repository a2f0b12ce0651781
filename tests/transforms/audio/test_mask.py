"""Masks of time and frequency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nogil_loader.transforms.audio import FrequencyMask, TimeMask
from tests.transforms.sample_steps import drawn_for, refusal, run


@given(
    hnp.arrays(st.sampled_from(["float32", "int16", "int64"]), hnp.array_shapes(min_dims=2, max_side=6)),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 2**64 - 1),
)
def test_what_was_drawn_is_blank_and_all_else_is_as_it_was(
    array: np.ndarray, longest: int, count: int, index: int
) -> None:
    for kind, axis in ((TimeMask, -1), (FrequencyMask, -2)):
        most = min(longest, array.shape[axis])
        transform = kind(most, count, 7)
        masked = np.moveaxis(run(transform, array, index=index, kernel=False), axis, 0)
        drawn = drawn_for(transform, array, index=index)
        expected = np.moveaxis(array, axis, 0).copy()
        for k in range(count):
            start, length = int(drawn[f"start {k}"]), int(drawn[f"length {k}"])
            assert 0 <= length <= most
            assert 0 <= start <= len(expected) - length
            expected[start : start + length] = 7
        np.testing.assert_array_equal(masked, expected)


def test_compiled_masks_cover_every_place_and_every_length_up_to_the_longest() -> None:
    spectrogram = np.ones((4, 10), np.float32)
    lengths, covered = set(), np.zeros(10, int)
    for index in range(120):
        masked = run(TimeMask(3), spectrogram, index=index, python=index < 10)
        assert (masked == masked[0]).all()
        blank = masked[0] == 0
        lengths.add(int(blank.sum()))
        covered += blank
    assert lengths == {0, 1, 2, 3}
    # 120 masks of 1.5 on 10 places are 18 each, fewer at the ends, where fewer masks fit.
    assert covered.min() >= 3


def test_bands_are_blank_at_all_times() -> None:
    masked = run(FrequencyMask(4, 2), np.ones((8, 3), np.float32), index=3, kernel=False)
    assert (masked == masked[:, :1]).all()
    assert 0 < (masked == 0).sum() < masked.size


def test_a_signal_of_one_axis_has_masks_of_time() -> None:
    masked = run(TimeMask(5, 2, -1), np.arange(20, dtype=np.int16), index=1, kernel=False)
    kept = masked != -1
    np.testing.assert_array_equal(masked[kept], np.arange(20)[kept])


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "has 5 items along the axis that is masked" in refusal(TimeMask(6), (9, 5), "float32")
    assert "has 9 items along the axis that is masked" in refusal(FrequencyMask(10), (9, 50), "float32")
    assert "not an array of shape (5,)" in refusal(FrequencyMask(1), (5,), "float32")
    assert "value 0.5 does not fit arrays of int16" in refusal(TimeMask(1, value=0.5), (5,), "int16")
    with pytest.raises(ValueError, match=r"TimeMask\.max_length=0"):
        TimeMask(0)
    with pytest.raises(ValueError, match=r"FrequencyMask\.count=0"):
        FrequencyMask(3, 0)
