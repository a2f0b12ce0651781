"""The statistical tests use fixed seeds, so each of them always gives the same result."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.plan import Permutation
from nogil_loader.plan.mixing import MASK64


def whole(length: int, seed: int = 0, epoch: int = 0) -> list[int]:
    return [int(index) for index in Permutation(length, seed, epoch).indices(0, length)]


def excess(observed: Sequence[float], freedom: int) -> float:
    """How many standard deviations chi-square lies above what equal chances give."""
    counts = np.asarray(observed, dtype=np.float64)
    expected = counts.sum() / counts.size
    chi_square = ((counts - expected) ** 2 / expected).sum()
    return float((chi_square - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("length", range(301))
def test_every_index_up_to_300_comes_exactly_once(length: int) -> None:
    assert sorted(whole(length, seed=length, epoch=3)) == list(range(length))


@pytest.mark.parametrize("length", [2**16, 2**16 + 1, 2**17 - 1, 2**17, 2**17 + 1, 1_281_167])
def test_every_index_of_a_large_length_comes_exactly_once(length: int) -> None:
    counts = np.bincount(Permutation(length, 7, 1).indices(0, length), minlength=length)
    assert counts.min() == counts.max() == 1


@given(st.integers(1, 100_000), st.integers(0, MASK64), st.integers(0, MASK64), st.data())
def test_any_piece_is_the_same_as_that_piece_of_the_whole(
    length: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, min(length, start + 300)))
    permutation = Permutation(length, seed, epoch)
    piece = permutation.indices(start, stop)
    assert piece.dtype == np.int64
    assert piece.shape == (stop - start,)
    assert piece.tolist() == [int(permutation.indices(at, at + 1)[0]) for at in range(start, stop)]
    assert all(0 <= index < length for index in piece.tolist())


def test_the_order_is_pinned_for_saved_positions() -> None:
    assert whole(10, seed=0, epoch=0) == [6, 1, 3, 8, 9, 0, 5, 4, 7, 2]
    assert whole(10, seed=0, epoch=1) == [1, 2, 9, 3, 6, 8, 5, 7, 0, 4]
    assert Permutation(1000, 42, 7).indices(500, 506).tolist() == [772, 830, 132, 907, 635, 293]
    assert Permutation(20_000_000, MASK64, 3).indices(19_999_994, 20_000_000).tolist() == [
        2292860,
        19745979,
        15626449,
        11227155,
        7419043,
        8121265,
    ]
    assert Permutation(1 << 62, 1, 2).indices(5, 7).tolist() == [3768801351948333010, 1063099322386085745]


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_all_orders_are_equally_likely(length: int) -> None:
    orders = Counter(tuple(whole(length, seed=seed)) for seed in range(3000))
    everything = list(itertools.permutations(range(length)))
    assert set(orders) == set(everything)
    assert excess([orders[order] for order in everything], len(everything) - 1) < 3.5


@pytest.mark.parametrize(("length", "seeds"), [(7, 2000), (16, 2000), (33, 2000), (100, 1500), (257, 1000)])
def test_every_index_is_equally_likely_at_every_position(length: int, seeds: int) -> None:
    places = np.zeros((length, length))
    for seed in range(seeds):
        places[np.arange(length), whole(length, seed)] += 1
    assert excess(places.ravel().tolist(), length * (length - 1)) < 3.5


@pytest.mark.parametrize(
    ("length", "seeds"), [(16, 2000), (100, 1000), (1000, 500), (65_537, 20), (131_072, 20)]
)
def test_what_follows_an_index_is_equally_likely_to_be_any_other(length: int, seeds: int) -> None:
    steps = np.zeros(length)
    for seed in range(seeds):
        order = Permutation(length, seed, 1).indices(0, length)
        steps += np.bincount((order[1:] - order[:-1]) % length, minlength=length)
    assert steps[0] == 0
    assert excess(steps[1:].tolist(), length - 2) < 3.5


@pytest.mark.parametrize("length", [1000, 65_536, 200_000])
@pytest.mark.parametrize("lag", [1, 2, 64])
def test_an_order_has_no_serial_correlation(length: int, lag: int) -> None:
    order = Permutation(length, 5, 0).indices(0, length).astype(np.float64)
    correlation = np.corrcoef(order[:-lag], order[lag:])[0, 1]
    assert abs(correlation) < 4 / math.sqrt(length)


@pytest.mark.parametrize("length", [1000, 65_536, 200_000])
@pytest.mark.parametrize("other", [(5, 1), (6, 0), (4, 1), (0, 5)])
def test_neighbouring_epochs_and_seeds_are_independent(length: int, other: tuple[int, int]) -> None:
    order = Permutation(length, 5, 0).indices(0, length)
    neighbour = Permutation(length, *other).indices(0, length)
    correlation = np.corrcoef(order.astype(np.float64), neighbour.astype(np.float64))[0, 1]
    assert abs(correlation) < 4 / math.sqrt(length)
    # Two independent orders agree in one place on average, whatever the length.
    assert int((order == neighbour).sum()) <= 6


def test_no_epochs_of_one_seed_share_an_order() -> None:
    assert len({tuple(whole(100, seed=0, epoch=epoch)) for epoch in range(500)}) == 500


def test_d27_twenty_million_samples_start_without_an_index_list() -> None:
    tracemalloc.start()
    try:
        first = Permutation(20_000_000, 0, 0).indices(0, 64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(first.tolist())) == 64
    assert peak < 100_000


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 11)])
def test_a_piece_outside_the_order_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match=r"0 ≤ start ≤ stop ≤ 10"):
        Permutation(10, 0, 0).indices(start, stop)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((-1, 0, 0), ValueError, "length=-1"),
        ((10, -1, 0), ValueError, "seed=-1"),
        ((10, 2**64, 0), ValueError, "seed=18446744073709551616"),
        ((10, 0, -1), ValueError, "epoch=-1"),
        ((10, 0.5, 0), TypeError, "seed=0.5"),
        ((True, 0, 0), TypeError, "length=True"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[int, int, int], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Permutation(*arguments)


def test_f01_numpy_integers_are_accepted() -> None:
    assert whole(10, seed=3, epoch=2) == whole(np.int32(10), np.uint64(3), np.int8(2))  # type: ignore[arg-type]
    assert len(Permutation(10, 3, 2)) == 10
    assert repr(Permutation(10, 3, 2)) == "Permutation(length=10, seed=3, epoch=2)"
