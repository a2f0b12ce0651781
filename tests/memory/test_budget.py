"""The books of the budget add up, whatever is done in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nogil_loader.memory.budget import Budget, Piece, State

STARTS = st.integers(0, 9)
SIZES = st.integers(0, 100)
RANKS = 2


def weight(piece: Piece) -> int:
    """What giving it up brings back, here and by the same step of the other rank."""
    return piece.filled + RANKS * piece.promised


class BudgetMachine(RuleBasedStateMachine):
    """Keeps its own list of pieces and compares the totals."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(RANKS)
        self.pieces: dict[int, Piece] = {}

    @rule(start=STARTS, count=st.integers(1, 5))
    def register(self, start: int, count: int) -> None:
        self.pieces[start] = self.budget.register(start, count, None)

    @rule(start=STARTS, reserved=SIZES)
    def load(self, start: int, reserved: int) -> None:
        if start not in self.pieces:
            self.register(start, 4)
        piece = self.budget.find(start, State.PENDING)
        if piece is not None:
            self.budget.load(piece, reserved)

    @rule(start=STARTS, nbytes=SIZES, reserved=SIZES)
    def fill(self, start: int, nbytes: int, reserved: int) -> None:
        piece = self.budget.find(start, State.LOADING)
        if piece is not None:
            self.budget.fill(piece, nbytes, 1, reserved)

    @rule(start=STARTS, nbytes=SIZES)
    def finish(self, start: int, nbytes: int) -> None:
        piece = self.budget.find(start, State.LOADING)
        if piece is not None:
            self.budget.finish(piece, nbytes)

    @rule(start=STARTS, nbytes=SIZES)
    def deliver(self, start: int, nbytes: int) -> None:
        before = self.pieces.get(start)
        self.budget.deliver(start, nbytes)
        if before is None or before.state is State.PENDING:
            self.pieces.pop(start, None)
            held = self.budget.find(start, State.HELD)
            assert (held is not None) == (nbytes > 0)
            if held is not None:
                assert held.filled == nbytes
                self.pieces[start] = held
        elif before.state is State.HELD and not before.filled:
            del self.pieces[start]

    @rule(start=STARTS, nbytes=SIZES)
    def release(self, start: int, nbytes: int) -> None:
        piece = self.pieces.get(start)
        held = piece.filled if piece is not None and piece.state is State.HELD else 0
        gone = self.budget.release(start, nbytes)
        assert gone in (0, min(nbytes, held))
        if piece is not None and piece.state is State.HELD:
            assert piece.filled == max(0, held - nbytes)
            assert gone == (min(nbytes, held) if piece.asked else 0)
            if not piece.filled:
                del self.pieces[start]

    @rule(start=STARTS)
    def free(self, start: int) -> None:
        piece = self.pieces.pop(start, None)
        assert self.budget.free(start) == (0 if piece is None else piece.filled)

    @rule(start=st.one_of(st.none(), STARTS))
    def wait_for(self, start: int | None) -> None:
        self.budget.head = start

    @rule(
        excess=SIZES,
        states=st.sampled_from([(State.READY,), (State.LOADING,), (State.READY, State.LOADING)]),
        keep=st.integers(0, 2),
    )
    def give_up(self, excess: int, states: Any, keep: int) -> None:
        spare = self.budget.first()
        open_ones = {
            start: weight(piece)
            for start, piece in self.pieces.items()
            if piece.state in states and not piece.condemned and start != spare
        }
        condemned = {start for start, piece in self.pieces.items() if piece.condemned}
        dropped, missing = self.budget.give_up(excess, states, keep=keep)
        given_up = {piece.start for piece in dropped} | {
            start for start, piece in self.pieces.items() if piece.condemned and start not in condemned
        }
        assert given_up <= open_ones.keys()
        assert missing == excess - sum(open_ones[start] for start in given_up)
        left = open_ones.keys() - given_up
        if missing > 0:
            assert all(self.pieces[start].state is State.LOADING for start in left)
            assert len(left) <= keep
        if not keep and given_up:
            assert min(given_up) > max(left, default=-1), "the youngest first"
            assert excess > sum(open_ones[start] for start in given_up - {min(given_up)}), "and no more"
        for piece in dropped:
            del self.pieces[piece.start]

    @invariant()
    def totals_are_those_of_the_pieces(self) -> None:
        for state in State:
            here = [piece for piece in self.pieces.values() if piece.state is state]
            assert self.budget.count(state) == len(here)
            assert self.budget.bytes(state) == sum(piece.filled for piece in here)
        loading = [piece for piece in self.pieces.values() if piece.state is State.LOADING]
        assert self.budget.promised == sum(max(0, piece.reserved - piece.filled) for piece in loading)
        assert self.budget.condemned == sum(weight(piece) for piece in loading if piece.condemned)
        under_way = [start for start, piece in self.pieces.items() if piece.state is not State.HELD]
        head = self.budget.head
        assert self.budget.first() == (min(under_way, default=None) if head is None else head)
        assert self.budget.expected == RANKS * self.budget.promised
        for start in range(10):
            ahead = {piece.state for piece in self.pieces.values() if piece.start < start}
            assert self.budget.is_queued_behind(start) == (State.PENDING in ahead)
            assert self.budget.is_ahead_in_flight(start) == bool(ahead & {State.LOADING, State.READY})


test_budget = BudgetMachine.TestCase


def test_what_the_consumer_got_last_counts_until_it_lets_go_of_it() -> None:
    budget = Budget()
    for start, nbytes in ((0, 10), (4, 20)):
        piece = budget.register(start, 4, None)
        budget.load(piece, nbytes)
        budget.finish(piece, nbytes)
        budget.deliver(start)
        assert budget.latest_held == nbytes
    budget.free(0)
    assert budget.latest_held == 20
    budget.free(4)
    assert budget.latest_held == 0
