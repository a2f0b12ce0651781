"""Each watched thread has a place of its own, and leaves it when it ends."""

from __future__ import annotations

import sys
import threading
from functools import partial

import pytest

from nogil_loader.kernels.gilboard import OTHERS, ROUNDS, SAMPLES, SLOTS, STAGES, USED, GilBoard
from nogil_loader.observe.gil.place import this_thread_state
from nogil_loader.observe.gil.roster import Counts, Roster, Seat, Tally
from tests.observe.gil.loads import open_calls, run_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")


def test_a_seat_names_the_thread_and_its_stage() -> None:
    board = GilBoard()
    roster = Roster(board, calls=False)
    seat = roster.take("me", "resting")
    assert int(board.states[seat.slot]) == this_thread_state()
    assert int(board.stages[seat.slot]) == seat.base == roster.code("resting")
    assert int(board.descriptors[seat.slot]) == -1
    assert board.control[USED] == 1


def test_a_thread_that_ends_leaves_its_place_to_the_next_of_its_name() -> None:
    board = GilBoard()
    roster = Roster(board, calls=False)
    kept = threading.local()
    slots: list[int] = []

    def sit(name: str) -> None:
        kept.seat = roster.take(name, "work")
        slots.append(kept.seat.slot)

    for name in ("one", "two", "one", "two"):
        run_threads(partial(sit, name))
        assert board.states[slots[-1]] == 0
    assert slots == [0, 1, 0, 1]


def test_a_file_is_closed_only_when_the_kernel_cannot_be_reading_it() -> None:
    board = GilBoard()
    roster = Roster(board, calls=True)
    before = len(open_calls())
    seat = roster.take("me", "work")
    del seat
    seats = [roster.take("me", "work")]
    assert (
        len(open_calls()) == before + 2
    )  # the kernel, in the middle of a round, may have read the number already
    board.control[ROUNDS] += 1
    seats.append(roster.take("other", "work"))
    assert len(open_calls()) == before + 3
    board.control[ROUNDS] += 1
    seats.append(roster.take("third", "work"))
    assert len(open_calls()) == before + 3
    assert len({int(board.descriptors[seat.slot]) for seat in seats}) == 3
    roster.close()
    roster.close()
    assert len(open_calls()) == before


def test_nobody_gets_a_place_after_the_end() -> None:
    board = GilBoard()
    roster = Roster(board, calls=True)
    roster.close()
    assert roster.take("late", "work").slot == SLOTS
    assert (board.descriptors == -1).all()


def test_threads_and_stages_beyond_the_board_stay_within_it() -> None:
    board = GilBoard()
    roster = Roster(board, calls=False)
    seats: list[Seat] = [roster.take(f"thread {number}", "work") for number in range(SLOTS + 10)]
    assert [seat.slot for seat in seats] == [*range(SLOTS), *[SLOTS] * 10]
    codes = [roster.code(f"stage {number}") for number in range(STAGES + 10)]
    assert max(codes) == STAGES - 1
    assert codes[-10:] == [STAGES - 1] * 10
    for seat in seats:
        board.stages[seat.slot] = codes[-1]  # has room for those without a slot
    board.held[:] = 1
    names = {name for name, _ in roster.counts().tallies}
    stages = {stage for _, stage in roster.counts().tallies}
    assert len(names) == SLOTS
    assert len(stages) == STAGES
    assert "other stages" in stages


def test_counts_of_one_name_are_added_up() -> None:
    board = GilBoard()
    roster = Roster(board, calls=False)
    seats = [roster.take("twin", "work"), roster.take("twin", "work"), roster.take("single", "rest")]
    for weight, seat in enumerate(seats, 1):
        at = seat.slot * STAGES + seat.base
        board.held[at], board.waits[at], board.seen[at] = 10 * weight, weight, 2 * weight
    board.control[SAMPLES], board.control[OTHERS] = 100, 7
    expected = {("twin", "work"): Tally(30, 3, 6), ("single", "rest"): Tally(30, 3, 6)}
    assert roster.counts() == Counts(samples=100, late=0, others=7, tallies=expected)
