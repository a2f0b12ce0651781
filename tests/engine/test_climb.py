"""Which values are tried, where nothing but the rates decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine.climb import climb
from nogil_loader.engine.trial import Noise, Trial

MOST = 64


def follow(
    rate: Callable[[int], float],
    here: int,
    *,
    most: int = MOST,
    home: int | None = None,
    fewer_first: bool = False,
) -> tuple[int, list[int]]:
    """Climb without noise; return the end and what was tried."""
    way, tried = climb(here, least=1, most=most, home=home or here, fewer_first=fewer_first), []
    try:
        candidate, by = next(way)
        while True:
            tried.append(candidate)
            trial = Trial(Noise(), by)
            won = trial.take(rate(here))
            while won is None:
                won = trial.take(rate(candidate if trial.challenges else here))
            here = candidate if won else here
            candidate, by = way.send(trial)
    except StopIteration:
        return here, tried


def test_what_grows_without_end_is_doubled_up_to_the_most() -> None:
    assert follow(lambda workers: workers, 2, most=32) == (32, [4, 8, 16, 32, 23])


def test_what_is_served_up_to_a_number_is_doubled_beyond_it_and_halved_into_it() -> None:
    assert follow(lambda workers: min(workers, 20), 2) == (23, [4, 8, 16, 32, 64, 23])


def test_what_only_the_gil_counts_for_comes_to_one_worker_by_the_second_trial() -> None:
    assert follow(lambda workers: 1 / (1 + workers / 20), 16) == (1, [32, 1, 4, 2])


def test_what_saturates_the_cores_stays_there() -> None:
    end, tried = follow(lambda workers: min(workers, 16), 16)
    assert end == 16
    assert tried == [32, 1, 8, 11, 23]


def test_what_grew_for_nothing_comes_back_to_where_it_started_and_no_further() -> None:
    assert follow(lambda workers: 1.0, 32, home=4, fewer_first=True)[0] <= 6
    assert follow(lambda workers: 1.0, 4, home=4)[0] == 4


@given(
    most_served=st.integers(1, MOST),
    power=st.floats(0.3, 1.0),
    here=st.integers(1, MOST),
    fewer_first=st.booleans(),
)
def test_the_climb_ends_near_the_best_where_the_rate_levels_off(
    most_served: int, power: float, here: int, fewer_first: bool
) -> None:
    def rate(workers: int) -> float:
        return float(min(workers, most_served) ** power)

    end, tried = follow(rate, here, fewer_first=fewer_first)
    assert rate(end) >= 0.95 * rate(MOST)
    check_trials(tried)


@given(
    peak=st.integers(1, MOST),
    rise=st.floats(0.3, 1.0),
    fall=st.floats(0.1, 1.0),
    here=st.integers(1, MOST),
    fewer_first=st.booleans(),
)
def test_the_climb_ends_within_a_step_of_a_peak(
    peak: int, rise: float, fall: float, here: int, fewer_first: bool
) -> None:
    def rate(workers: int) -> float:
        return float((workers / peak) ** rise if workers <= peak else (peak / workers) ** fall)

    end, tried = follow(rate, here, fewer_first=fewer_first)
    assert rate(end) >= 1 / 1.5
    check_trials(tried)


def check_trials(tried: list[int]) -> None:
    assert all(1 <= candidate <= MOST for candidate in tried)
    assert len(set(tried)) == len(tried) <= 13


@pytest.mark.parametrize("fewer_first", [False, True])
def test_there_is_nothing_to_try_where_only_one_value_is_allowed(fewer_first: bool) -> None:
    assert follow(lambda _: 1.0, 1, most=1, fewer_first=fewer_first) == (1, [])
