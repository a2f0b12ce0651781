"""What is measured, and in which order."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.rounds import Case, cases_of, rounds_of, usual_workers


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (1, (0, 1, 2)),
        (2, (0, 1, 2, 4)),
        (3, (0, 1, 2, 3, 4)),
        (6, (0, 1, 2, 4, 6, 8)),
        (8, (0, 1, 2, 4, 8, 16)),
    ],
)
def test_numbers_of_workers_double_up_to_twice_the_cores(cores: int, expected: tuple[int, ...]) -> None:
    assert usual_workers(cores) == expected


def test_every_combination_is_a_case_and_without_workers_prefetching_is_none() -> None:
    cases = cases_of(["a", "b"], [0, 2], [2, 4], [8], {"b": 1})
    assert cases == (
        Case("a", 0, 2, 8),
        Case("a", 2, 2, 8),
        Case("a", 2, 4, 8),
        Case("b", 2, 2, 8),
        Case("b", 2, 4, 8),
    )


def test_a_case_is_told_in_words() -> None:
    assert str(Case("torch", 2, 4, 8)) == "torch, workers 2, prefetch 4, batch size 8"
    assert str(Case("torch", 2, 4)) == "torch, workers 2, prefetch 4"


@given(st.integers(1, 12), st.integers(1, 8))
def test_each_round_has_every_case_once_and_none_comes_early_as_a_rule(number: int, repeats: int) -> None:
    cases = [Case("a", workers, 2) for workers in range(number)]
    rounds = rounds_of(cases, repeats)
    assert len(rounds) == repeats
    assert all(Counter(each) == Counter(cases) for each in rounds)
    if repeats >= number:
        places = [mean(each.index(case) for each in rounds) for case in cases]
        assert max(places) - min(places) <= number / 2
