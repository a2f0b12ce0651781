from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.report.numbers import THIN
from nogil_loader.bench.report.scale import (
    Scale,
    choose_ticks,
    choose_top,
    keep_apart,
    label_ticks,
    thin_out,
)

TOPS = st.floats(1e-9, 1e18)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.lists(st.tuples(ANY_FLOAT, ANY_FLOAT), max_size=200)


@given(TOPS, st.integers(3, 12))
def test_ticks_are_round_and_begin_at_zero_and_stay_below_the_top(top: float, most: int) -> None:
    ticks = choose_ticks(top, most)
    assert 2 <= len(ticks) <= most
    assert ticks[0] == 0
    assert ticks[-1] <= top
    step = ticks[1]
    assert f"{step:.0e}"[0] in "125"
    assert float(f"{step:.0e}") == step
    for at, tick in enumerate(ticks):
        assert tick == pytest.approx(at * step, rel=1e-12)
    assert ticks[-1] + step > top * (1 - 1e-9), "the axis has no long end without a tick"


@given(st.floats(0.1, 1e18), st.integers(3, 12))
def test_whole_ticks_are_integers(top: float, most: int) -> None:
    assert all(tick == int(tick) for tick in choose_ticks(top, most, whole=True))


@given(TOPS, st.integers(3, 12), st.sampled_from(["", "B", "s"]))
def test_labels_of_ticks_tell_them_apart(top: float, most: int, unit: str) -> None:
    labels = label_ticks(choose_ticks(top, most), unit)
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("top", "most", "unit", "expected"),
    [
        (8450, 6, "", ["0", "2 000", "4 000", "6 000", "8 000"]),
        (18_000, 6, "", ["0", "5 k", "10 k", "15 k"]),
        (2_300_000, 6, "", ["0", "0.5 M", "1.0 M", "1.5 M", "2.0 M"]),
        (4.24e9, 6, "B", ["0", "1 GB", "2 GB", "3 GB", "4 GB"]),
        (900, 4, "B", ["0", "500 B"]),
        (1.0, 6, "%", ["0", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0.31, 5, "s", ["0", "0.1 s", "0.2 s", "0.3 s"]),
        (1.0, 6, "", ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_labels_of_ticks(top: float, most: int, unit: str, expected: list[str]) -> None:
    labels = label_ticks(choose_ticks(top, most), unit)
    assert [label.replace(THIN, " ") for label in labels] == expected


@given(TOPS, ANY_FLOAT)
def test_every_value_has_a_place_on_the_scale(top: float, value: float) -> None:
    scale = Scale(top, 300.0, 20.0)
    assert 20.0 <= scale.place(value) <= 300.0


@given(TOPS, st.floats(0, 1), st.floats(0, 1))
def test_places_are_in_the_order_of_values(top: float, one: float, other: float) -> None:
    scale = Scale(top, 10.0, 90.0)
    low, high = sorted((one * top, other * top))
    assert scale.place(low) <= scale.place(high)
    assert scale.place(0) == 10.0
    assert scale.place(top) == 90.0


@given(st.lists(ANY_FLOAT))
def test_the_top_is_above_all_that_is_finite_and_fit_for_ticks(values: list[float]) -> None:
    top = choose_top(values)
    assert 1e-9 <= top <= 1e18
    assert all(value <= top for value in values if math.isfinite(value) and value <= 1e18)
    choose_ticks(top, 6)


LABELS = st.lists(st.tuples(st.floats(0, 360), st.floats(1, 80)), min_size=1, max_size=30)


@given(LABELS, st.floats(0, 10))
def test_labels_kept_apart_do_not_touch(labels: list[tuple[float, float]], gap: float) -> None:
    labels.sort()
    places, widths = [place for place, _ in labels], [width for _, width in labels]
    kept = keep_apart(places, widths, gap)
    assert kept[-1] == len(labels) - 1
    for left, right in pairwise(kept):
        assert places[left] + widths[left] / 2 + gap <= places[right] - widths[right] / 2 + 1e-9


def test_labels_with_room_are_all_kept() -> None:
    assert keep_apart([0, 20, 40], [10, 10, 10], 8) == (0, 1, 2)
    assert keep_apart([], [], 8) == ()


@given(POINTS, st.integers(1, 20))
def test_thinning_keeps_the_extremes_and_the_order(points: list[tuple[float, float]], most: int) -> None:
    sound = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    kept = thin_out(points, most)
    assert len(kept) <= 2 * most
    left = iter(sound)
    assert all(any(point == each for each in left) for point in kept), "the order is that of the points"
    if sound:
        values = [value for _, value in kept]
        assert min(values) == min(value for _, value in sound)
        assert max(values) == max(value for _, value in sound)
