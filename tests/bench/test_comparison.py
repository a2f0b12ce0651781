"""How two results are compared."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.comparison import Interval, can_tell, compare, interval_of, wins
from tests.bench.made_up import result_of, setting_of

rates = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=6).map(tuple)
pairs = st.lists(st.tuples(rates, rates), min_size=1, max_size=4)


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (2, 3), (3, 3), (4, 2)])
def test_wins_are_distributed_as_counting_all_orders_tells(ours: int, theirs: int) -> None:
    orders = list(itertools.combinations(range(ours + theirs), ours))
    counted = Counter(
        sum(place > other for place in mine for other in set(range(ours + theirs)) - set(mine))
        for mine in orders
    )
    expected = [counted[won] / len(orders) for won in range(ours * theirs + 1)]
    assert wins(ours, theirs) == pytest.approx(expected)


@given(pairs)
def test_the_estimate_lies_within_its_bounds(given_pairs: list[tuple[tuple[float, ...], ...]]) -> None:
    found = interval_of(given_pairs, confidence=0.5)  # type: ignore[arg-type]
    if found.low is not None and found.high is not None:
        assert found.low * (1 - 1e-9) <= found.ratio <= found.high * (1 + 1e-9)


@given(pairs, st.floats(0.1, 10.0))
def test_so_many_times_as_fast_is_found_as_so_many_times(
    given_pairs: list[tuple[tuple[float, ...], ...]], factor: float
) -> None:
    before = interval_of(given_pairs, confidence=0.5)  # type: ignore[arg-type]
    after = interval_of(
        [(tuple(factor * rate for rate in new), old) for new, old in given_pairs], confidence=0.5
    )
    assert after.ratio == pytest.approx(factor * before.ratio)
    assert (after.low is None) == (before.low is None)
    if before.low is not None:
        assert after.low == pytest.approx(factor * before.low)


@given(pairs)
def test_the_other_way_round_it_is_the_inverse(given_pairs: list[tuple[tuple[float, ...], ...]]) -> None:
    there = interval_of(given_pairs, confidence=0.5)  # type: ignore[arg-type]
    back = interval_of([(old, new) for new, old in given_pairs], confidence=0.5)
    assert (there.low is None) == (back.high is None)
    if there.low is not None and back.high is not None:
        assert back.high == pytest.approx(1 / there.low)


@pytest.mark.parametrize(("repeats", "settings"), [(4, 1), (3, 3), (2, 5)])
def test_the_bounds_hold_as_often_as_they_promise(repeats: int, settings: int) -> None:
    rng = np.random.default_rng(7)
    trials, held = 400, 0
    for _ in range(trials):
        drawn = rng.lognormal(5.0, 0.1, (settings, 2, repeats))
        found = interval_of([(tuple(1.2 * new), tuple(old)) for new, old in drawn])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.2 <= found.high
    assert held / trials >= 0.928  # 95 % less two standard errors of 400 trials


def test_how_many_repeats_an_interval_takes() -> None:
    assert not can_tell([(3, 3)])  # 2 of the 20 orders are as extreme: one in ten
    assert can_tell([(4, 4)])  # 2 of 70
    assert can_tell([(3, 3), (3, 3)])
    assert not can_tell([(1, 1)] * 5)
    assert can_tell([(1, 1)] * 6)  # 2 of 64


def test_too_few_repeats_are_said() -> None:
    found = interval_of([((90.0, 91.0, 92.0), (100.0, 100.0, 100.0))])
    assert str(found) == "-9.0 % (too few repeats for an interval)"
    assert not found.is_slower


def test_slower_is_what_lies_below_in_all_of_the_interval() -> None:
    assert Interval(0.9, 0.85, 0.95).is_slower
    assert not Interval(0.9, 0.75, 1.05).is_slower
    assert str(Interval(0.9, 0.85, 0.95)) == "-10.0 % (-15.0 % to -5.0 %)"


def test_settings_are_compared_with_themselves() -> None:
    earlier = result_of(setting_of(1, 100.0), setting_of(2, 200.0), setting_of(4, 400.0))
    now = result_of(setting_of(4, 300.0), setting_of(1, 110.0), setting_of(8, 1.0))
    found = compare(now, earlier)
    assert [(each.now.num_workers, round(each.interval.percent)) for each in found.changes] == [
        (4, -25),
        (1, 10),
    ]


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match="no setting was measured both now and then"):
        compare(result_of(setting_of(1, 1.0)), result_of(setting_of(2, 1.0)))


def test_without_workers_prefetching_makes_no_difference() -> None:
    now = result_of(setting_of(0, 100.0, prefetch_factor=2))
    assert len(compare(now, result_of(setting_of(0, 90.0, prefetch_factor=4))).changes) == 1


def test_what_else_differs_is_said() -> None:
    now = result_of(setting_of(1, 100.0))
    machine = replace(now.machine, cpu="another", packages={"numpy": "1.0", "gone": "1"})
    notes = compare(now, replace(now, machine=machine, memory_limit=10)).notes
    assert notes == (
        "memory limit: None now, 10 then",
        f"processor: {now.machine.cpu} now, another then",
        "numpy: 2.0 now, 1.0 then",
    )
