"""The pure parts: which samples are chosen, where they end, what they are like, and what goes into which batch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.check.census import Spread, take_census
from nogil_loader.check.ends import find_end
from nogil_loader.check.fingerprint import fingerprint
from nogil_loader.check.hammer import patterns
from nogil_loader.check.item import batches_of, choose_positions
from nogil_loader.check.outcome import Outcome, Raised, Value


@given(st.integers(1, 3000), st.integers(1, 300))
def test_chosen_samples_are_spread_and_have_neighbours(length: int, count: int) -> None:
    chosen = choose_positions(length, count)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= max(count, 2)
    assert chosen[-1] == length - 1
    assert count < 2 or chosen[0] == 0
    if length <= count:
        assert chosen == list(range(length))
    elif count >= 8:
        assert len(chosen) >= count - 4
        gaps = [after - before for before, after in itertools.pairwise(chosen)]
        assert gaps.count(1) >= len(gaps) // 2
        assert max(gaps) <= 8 * length / count + 4


@given(st.lists(st.integers(), min_size=1, max_size=40, unique=True), st.integers(1, 9))
def test_batches_cover_the_orders_that_samplers_have(keys: list[int], size: int) -> None:
    batches = batches_of(keys, size)
    assert all(set(batch) <= set(keys) for batch in batches)
    assert any(len(batch) == 1 for batch in batches)
    places = [[keys.index(key) for key in batch] for batch in batches]
    if len(keys) > 2 and size > 2:
        assert any(place != sorted(place) for place in places)
        assert any(len(set(place)) < len(place) for place in places)


def outcome_of(values: Sequence[Any], index: int) -> Outcome:
    try:
        return Value((fingerprint(values[index]),))
    except Exception as error:
        return Raised.of(error)


@given(st.integers(1, 200), st.integers(0, 200))
def test_the_end_of_the_samples_is_found(length: int, real: int) -> None:
    values = list(range(real))
    ends = find_end(length, lambda index: outcome_of(values, index), outcome_of(values, length - 1))
    if real == length:
        assert not ends.is_too_long
        assert not ends.is_too_short
    elif real > length:
        assert ends.is_too_short or real > 8 * length
        assert ends.readable in (real, None)
    elif real:
        assert ends.is_too_long
        assert ends.readable == real


class Endless:
    def __getitem__(self, index: int) -> int:
        return index


class Limited:
    def __getitem__(self, index: int) -> bytes:
        return bytes([index])  # ValueError from 256 on, which says nothing about an end


@pytest.mark.parametrize("values", [Endless(), Limited()])
def test_a_dataset_that_has_no_end_is_not_too_short(values: Any) -> None:
    ends = find_end(60, lambda index: outcome_of(values, index), outcome_of(values, 59))
    assert not ends.is_too_short
    assert not ends.is_too_long


def census(*samples: Any) -> dict[str, Any]:
    return {
        part.path: part for part in take_census([(at, fingerprint(each)) for at, each in enumerate(samples)])
    }


def test_the_census_tells_ragged_parts_and_the_axes_along_which_they_differ() -> None:
    parts = census({"x": np.zeros((2, 3)), "y": 1}, {"x": np.zeros((2, 5)), "y": 2})
    assert parts["x"].is_ragged
    assert parts["x"].ragged_axes == (1,)
    assert parts["x"].describe() == "float64 (2, 3 to 5)"
    assert not parts["y"].is_ragged
    assert parts["y"].describe() == "int"


def test_the_census_leaves_out_what_is_below_lists_of_different_lengths() -> None:
    parts = census({"boxes": ["a", "b"]}, {"boxes": ["a"]})
    assert parts["boxes"].is_ragged
    assert parts.keys() == {"", "boxes"}


def test_to_the_census_numbers_are_what_they_are_collated_to() -> None:
    assert len(census({"y": 1}, {"y": np.int64(2)})["y"].dtypes) == 1
    assert census({"y": 1}, {"y": 2.0})["y"].dtypes == {"int64": 1, "float64": 1}
    assert not census([], [1, 2])[""].has_mixed_kinds
    assert census({"y": 1}, {"y": "one"})["y"].has_mixed_kinds
    assert census({"y": np.zeros(3)}, {"y": 1.0})["y"].is_ragged


def test_the_census_counts_what_is_missing_or_none() -> None:
    parts = census({"x": 1, "y": None}, {"y": 2})
    assert parts["x"].missing == 1
    assert parts["y"].has_none
    assert not parts["y"].has_mixed_kinds


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_are_numbers_that_occurred(numbers: list[float]) -> None:
    spread = Spread.of(numbers)
    assert spread is not None
    assert {spread.p50, spread.p90, spread.p99} <= set(numbers)
    assert spread.least <= spread.p50 <= spread.p90 <= spread.p99 <= spread.most
    for share, value in ((0.5, spread.p50), (0.9, spread.p90), (0.99, spread.p99)):
        assert sum(number <= value for number in numbers) >= share * len(numbers)
        assert sum(number < value for number in numbers) < share * len(numbers)
    assert Spread.of([]) is None


@given(st.integers(1, 50), st.integers(2, 9), st.integers(1, 100), st.integers(0, 9))
def test_patterns_give_every_thread_as_much_to_read(length: int, threads: int, calls: int, seed: int) -> None:
    found = list(patterns(range(length), threads, calls, random.Random(seed)))
    for pattern in found:
        assert len(pattern.lists) == threads
        assert len({len(each) for each in pattern.lists}) == 1
        assert {at for each in pattern.lists for at in each} <= set(range(length))
    together = [
        set(step) for pattern in found if pattern.in_step for step in zip(*pattern.lists, strict=True)
    ]
    assert any(len(step) == 1 for step in together)  # one sample in all threads at once
    if length > threads:
        assert any(len(step) == threads for step in together)  # and neighbours
