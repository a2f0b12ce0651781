from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.plan import Received
from nogil_loader.plan.digest import KeyDigest


def model_of(received: Received, length: int) -> list[bool]:
    return [position in received for position in range(length)]


def test_in_order_only_the_prefix_grows() -> None:
    received = Received()
    for start in range(0, 100, 10):
        received.add(start, start + 10)
    assert (received.prefix, received.ahead, received.count, received.end) == (100, (), 100, 100)


def test_what_comes_ahead_joins_the_prefix_when_the_gap_closes() -> None:
    received = Received()
    received.add(4, 6)
    received.add(8, 10)
    assert (received.prefix, received.ahead, received.count, received.end) == (0, ((4, 6), (8, 10)), 4, 10)
    received.add(0, 4)
    assert (received.prefix, received.ahead) == (6, ((8, 10),))
    received.add(6, 8)
    assert (received.prefix, received.ahead) == (10, ())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=15), st.data())
def test_any_order_of_arrival_ends_in_the_same_and_remembers_each_position(
    sizes: list[int], data: st.DataObject
) -> None:
    bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    pieces = data.draw(st.permutations(list(pairwise(bounds))))
    total = bounds[-1]
    received, seen = Received(), [False] * total
    for start, stop in pieces:
        received.add(start, stop)
        seen[start:stop] = [True] * (stop - start)
        assert model_of(received, total) == seen
        assert received.count == sum(seen)
        assert received.prefix == (seen.index(False) if False in seen else total)
        assert received.end == total - [*reversed(seen), True].index(True)
        runs = list(received.runs(0, total))
        assert [flag for run in runs for flag in [run.received] * (run.stop - run.start)] == seen
        assert all(one.received != other.received for one, other in pairwise(runs))
        copy = Received(received.prefix, received.ahead)
        assert model_of(copy, total) == seen
    assert (received.prefix, received.ahead) == (total, ())


@given(st.integers(0, 30), st.integers(0, 12))
def test_runs_of_a_part_are_that_part_of_the_runs(start: int, length: int) -> None:
    received = Received(5, [(8, 12), (20, 21)])
    flags = [run.received for run in received.runs(start, start + length) for _ in range(run.start, run.stop)]
    assert flags == [position in received for position in range(start, start + length)]


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (4, 6), (5, 9), (8, 9), (7, 13), (9, 11), (11, 14), (3, 30)]
)
def test_a_sample_received_twice_is_an_error_and_changes_nothing(start: int, stop: int) -> None:
    received = Received(5, [(8, 12), (20, 21)])
    with pytest.raises(ValueError, match=f"{start} to {stop} overlap"):
        received.add(start, stop)
    assert (received.prefix, received.ahead) == (5, ((8, 12), (20, 21)))


def test_an_inverted_interval_is_refused() -> None:
    received = Received(5)
    with pytest.raises(ValueError, match="5 to 4"):
        received.add(5, 4)
    with pytest.raises(ValueError, match="9 to 7"):
        received.add(9, 7)
    received.add(9, 9)
    assert (received.prefix, received.ahead) == (5, ())


def test_positions_before_the_start_are_in_nothing() -> None:
    assert -1 not in Received(5)


def test_where_keys_are_fingerprinted_they_have_to_come_along() -> None:
    received = Received(digest=KeyDigest())
    for keys in (None, ["a"]):
        with pytest.raises(ValueError, match="as many keys"):
            received.add(0, 2, keys)
    assert received.prefix == 0
    received.add(0, 2, ["a", "b"])
    expected = KeyDigest()
    expected.add(0, ["a", "b"])
    assert received.digest == expected
