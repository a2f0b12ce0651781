"""Tables of taps equal those of numpy, stay inside their part of the source, and weigh to 1."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from nogil_loader.kernels.images.resized import windows
from nogil_loader.kernels.images.taps import (
    area_taps,
    bilinear_taps,
    nearest_index,
    place_columns,
    taps_needed,
    triangle_taps,
)
from tests.kernels.images.pictures import KINDS, parts

WRITE: dict[Any, Any] = {"bilinear": bilinear_taps, "triangle": triangle_taps, "area": area_taps}


def table(kind: Any, start: float, extent: float, limit: int, size: int) -> tuple[Any, Any]:
    """What the functions of the kernels write, run as plain Python."""
    first = np.full(size, -9)
    if kind == "nearest":
        nearest_index(start, extent, limit, first)
        return first, np.ones((size, 1))
    weights = np.full((size, taps_needed(kind, extent, size)), np.nan)
    taps = WRITE[kind](start, extent, limit, first, weights)
    return first, weights[:, :taps]


@given(part=parts(), size=st.integers(1, 40), kind=st.sampled_from(KINDS))
@example(part=(0.0, 1.0, 1), size=40, kind="triangle")
@example(part=(0.0, 1.0, 1), size=40, kind="area")
@example(part=(0.0, 400.0, 400), size=1, kind="triangle")
@example(part=(399.0, 1.0, 400), size=3, kind="bilinear")
@example(part=(0.1, 0.7, 2), size=3, kind="area")
def test_tables_equal_those_of_numpy_bit_by_bit(part: tuple[float, float, int], size: int, kind: Any) -> None:
    first, weights = table(kind, *part, size)
    expected_first, expected_weights = windows(kind, *part, size)
    np.testing.assert_array_equal(first, expected_first)
    np.testing.assert_array_equal(weights, expected_weights)


@given(part=parts(), size=st.integers(1, 40), kind=st.sampled_from(KINDS))
def test_windows_stay_inside_their_part_and_weigh_to_one(
    part: tuple[float, float, int], size: int, kind: Any
) -> None:
    first, weights = table(kind, *part, size)
    start, extent, limit = part
    assert first.min() >= np.floor(start)
    assert first.max() + weights.shape[1] <= min(np.ceil(start + extent), limit)
    assert weights.shape[1] <= taps_needed(kind, extent, size)
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-12)
    assert (weights >= 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0.0, 3.0])
def test_a_part_in_its_own_size_is_copied(kind: Any, start: float) -> None:
    first, weights = table(kind, start, 7.0, 11, 7)
    np.testing.assert_array_equal(first, start + np.arange(7))
    np.testing.assert_array_equal(weights, np.ones((7, 1)))


def test_weights_follow_their_definitions() -> None:
    # Twice as many pixels: centres lie at a quarter and three quarters between those of the source.
    first, weights = table("bilinear", 0.0, 2.0, 2, 4)
    np.testing.assert_array_equal(first, [0, 0, 0, 0])
    np.testing.assert_array_equal(weights, [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]])
    # Half as many: a triangle four pixels wide, cut at the border and brought to a sum of 1.
    first, weights = table("triangle", 0.0, 6.0, 6, 3)
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_allclose(weights[:2], [[3 / 7, 3 / 7, 1 / 7, 0], [1 / 8, 3 / 8, 3 / 8, 1 / 8]])
    # Two of three pixels: each output pixel covers one and a half.
    first, weights = table("area", 0.0, 3.0, 3, 2)
    np.testing.assert_array_equal(first, [0, 1])
    np.testing.assert_allclose(weights, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])
    first, _ = table("nearest", 0.0, 3.0, 3, 2)
    np.testing.assert_array_equal(first, [0, 2])


@given(st.data())
def test_columns_are_placed_relative_to_the_first_that_is_needed(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 9))
    first = np.array(data.draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)))
    cols = np.array(data.draw(st.lists(st.integers(-1, size - 1), max_size=9)), np.int64)
    channels, taps = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    weights = np.random.default_rng(0).random((size, taps + 1))
    starts, placed = np.full(len(cols), -9), np.full((taps, len(cols)), np.nan)
    low, columns, holes = place_columns(first, weights, taps, cols, channels, starts, placed)
    kept = cols >= 0
    assert holes == (~kept).sum()
    if not kept.any():
        assert (low, columns) == (0, 0)
        return
    sources = first[cols[kept]]
    assert (low, low + columns) == (sources.min(), sources.max() + taps)
    np.testing.assert_array_equal(starts[kept], (sources - low) * channels)
    np.testing.assert_array_equal(starts[~kept], 0)
    np.testing.assert_array_equal(placed[:, kept], weights[cols[kept], :taps].T)
