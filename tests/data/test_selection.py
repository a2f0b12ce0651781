"""Random selections are functions of their seed, and of nothing else."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import (
    Sampled,
    Shuffled,
)
from tests.data.models import every_kind


@pytest.mark.parametrize("draw", [Shuffled, lambda data, seed=None: Sampled(data, 50, seed=seed)])
def test_a_seed_that_is_not_given_is_drawn_and_can_be_seen(draw: Any) -> None:
    first, second = draw(range(50)), draw(range(50))
    assert first.seed != second.seed
    assert list(first) != list(second)
    assert list(draw(range(50), seed=first.seed)) == list(first)
    assert f"seed={first.seed}" in repr(first)


def test_orders_are_pinned_so_that_no_version_changes_them() -> None:
    assert list(Shuffled(range(10), 0)) == [4, 9, 7, 6, 2, 8, 3, 1, 0, 5]
    assert list(Sampled(range(10), 10, seed=0)) == [6, 3, 1, 7, 1, 4, 8, 4, 7, 3]
    assert list(Sampled(range(10), 10, replacement=False, seed=0)) == [4, 8, 7, 9, 1, 6, 0, 3, 2, 5]


def test_different_seeds_and_kinds_give_unrelated_orders() -> None:
    orders = {tuple(Shuffled(range(20), seed)) for seed in range(200)}
    orders |= {tuple(Sampled(range(20), 20, replacement=False, seed=seed)) for seed in range(200)}
    assert len(orders) == 400


def test_draws_with_replacement_are_uniform() -> None:
    counts = Counter(Sampled(range(10), 100_000, seed=1))
    # 10,000 each with a standard deviation of 95; six of them fail once in 50 million seeds, and this is one seed.
    assert all(abs(count - 10_000) < 570 for count in counts.values()), counts
    assert len(counts) == 10


def test_global_random_state_is_neither_read_nor_changed() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), pickle.dumps(np.random.get_state())
    first = [list(kind) for kind in every_kind(range(50))]
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == before
    random.seed(2)
    np.random.seed(2)
    assert [list(kind) for kind in every_kind(range(50))] == first


def test_a_shuffle_longer_than_a_piece_is_complete() -> None:
    shuffled = Shuffled(range(150_000), 4)
    assert sorted(shuffled.indices) == list(range(150_000))
