"""Warped time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.audio import TimeWarp
from tests.transforms.audio.signals import any_signal
from tests.transforms.sample_steps import assert_same, drawn_for, refusal, run, run_python, step_of


@given(any_signal, st.floats(0, 1), st.integers(0, 2**64 - 1))
def test_the_kernel_does_what_numpy_does(signal: np.ndarray, share: float, index: int) -> None:
    most = share * (signal.shape[-1] - 1) / 2
    transform = TimeWarp(most)
    run(transform, signal, index=index, kernel=False)
    drawn = drawn_for(transform, signal, index=index)
    assert -most <= drawn["shift"] <= most
    assert most <= drawn["point"] <= signal.shape[-1] - 1 - most + 1e-9


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_the_drawn_point_moves_by_the_drawn_shift_and_the_ends_stay(dtype: str) -> None:
    # A ramp tells at every time where it was taken.
    ramp = np.tile(np.arange(0, 1010, 10), (2, 1)).astype(dtype)
    for index in range(20):
        made = run(TimeWarp(20), ramp, index=index)
        drawn = drawn_for(TimeWarp(20), ramp, index=index)
        point, shift = drawn["point"], drawn["shift"]
        positions = np.interp(np.arange(101), [0, point + shift, 100], [0, point, 100])
        np.testing.assert_allclose(made[0], 10 * positions, atol=0.501 if dtype == "int16" else 1e-3)
        np.testing.assert_array_equal(made[0], made[1])
        assert (made[0, 0], made[0, -1]) == (0, 1000)


@pytest.mark.parametrize(("point", "shift"), [(2.0, -2.0), (2.0, 2.0), (2.0, -1.5), (2.5, 1.2), (2.0, 0.0)])
def test_points_moved_to_the_ends_divide_by_nothing(point: float, shift: float) -> None:
    signal = np.array([1, 5, 2, 8, 3], np.float64)
    step = step_of(TimeWarp(2), signal)
    assert step.reference is not None
    numbers, drawn = np.array(step.numbers), np.array([point, shift])
    found = run_python(step, signal, drawn, np.zeros(4, np.uint64))
    assert_same(found, step.reference(signal, numbers, drawn, np.zeros(4, np.uint64)))
    assert np.isfinite(found).all()
    assert found[-1] == 3


def test_no_warp_changes_nothing() -> None:
    signal = np.array([1, 5, 2, 8, 3], np.float32)
    np.testing.assert_array_equal(run(TimeWarp(0), signal, index=9, kernel=False), signal)


def test_what_cannot_be_is_refused_with_the_transform_named() -> None:
    assert "has 5 time steps; max_warp can be 2 at most" in refusal(TimeWarp(2.5), (3, 5), "float32")
    with pytest.raises(ValueError, match=r"TimeWarp\.max_warp=-1"):
        TimeWarp(-1)
