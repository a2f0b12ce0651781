"""What happens to a piece that does not fit: who makes room for it, what becomes of it, and when it is hopeless.

Guarantees of this file:

* Every answer leads on: something is given up or made smaller, or is on its way out, or the piece is loaded, or
  its patience runs.
* Nobody is waited for without end. Pieces that are to be given up but don't move, because what loads them waits
  for the very piece that needs their room, are passed over when the patience has run out.
* Patience runs only while the consumer waits: one that computes for an hour has done nothing wrong.
* Where nothing is revocable, nothing is waited for that the consumer cannot have before this piece.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nogil_loader.memory.budget import Budget, Piece, State
from nogil_loader.memory.decision import Action, Decision
from nogil_loader.memory.estimate import Estimate
from nogil_loader.memory.gauge import Level
from nogil_loader.memory.moves import RELIEF_STARVED, RETRY, Moves, starts
from nogil_loader.memory.throttle import Throttle
from nogil_loader.policies import MemoryPolicy

_GIVES_UP = {"prefetch": (State.READY,), "workers": (State.LOADING,)}
#: Whatever may be given up.
ALL = (State.READY, State.LOADING)
_GO_ON = Decision(Action.GO_ON)


class Shortfall:
    """The rules for pieces that do not fit.

    Args:
        policy: What is given up first, and the patience.
        estimate: What pieces take.
        budget: The books.
        throttle: Told of cuts.
        moves: What the rules consist of.
    """

    def __init__(
        self, policy: MemoryPolicy, estimate: Estimate, budget: Budget, throttle: Throttle, moves: Moves
    ) -> None:
        self._policy = policy
        self._estimate = estimate
        self._budget = budget
        self._throttle = throttle
        self._moves = moves
        self._relieved: int | None = None  # the piece for which relief was the last answer

    def excess(self, level: Level) -> int:
        """Bytes above the soft mark when all promises are kept and all that is on its way out is gone."""
        budget = self._budget
        return level.used + budget.expected - level.leaving - budget.condemned - level.soft

    def carry_on(self, piece: Piece, outgrown: bool, level: Level, now: float) -> Decision:
        """What becomes of a piece that is being loaded: GO_ON, CUT, REVOKED, or WAIT or FAIL.

        Args:
            piece: The piece.
            outgrown: Whether it needs more than it had reserved.
            level: Where memory stands.
            now: The time.
        """
        moves, budget = self._moves, self._budget
        if piece.start != budget.first():
            if moves.revocable and not outgrown:
                return _GO_ON  # use above the hard mark parks, and condemns whom it has to
            if moves.can_cut(piece):
                return self.cut(piece, "outgrown", level, now)
            if moves.revocable:
                return moves.revoke(piece, now)
            above = level.used + budget.expected > level.hard
            return moves.wait(RETRY) if above and budget.is_ahead_in_flight(piece.start) else _GO_ON
        can_cut = moves.can_cut(piece)
        dropped: list[Piece] = []
        mark = level.soft if outgrown else level.hard
        excess = self.excess(level) + level.soft - mark
        for step in self._policy.order:
            if step != "batch":
                excess = self._give_up(step, excess, now, dropped)
            elif excess > 0 and can_cut:
                return self.cut(piece, "outgrown", level, now, dropped)
        excess = self._give_up("all", excess, now, dropped)
        # A part that is too small to be cut off has to come out whole.
        if excess <= 0 or not moves.fixed or level.used + self.one(piece) <= level.hard:
            return Decision(Action.GO_ON, revoke=starts(dropped)) if dropped else _GO_ON
        if budget.head != piece.start:
            return moves.wait(RETRY, dropped)
        rest = self._estimate.need(piece.count - piece.done, piece.rest) or 0
        return moves.stall(piece, rest, level, now, dropped)

    def make_room(self, piece: Piece, need: int, level: Level, now: float) -> Decision:
        """What to do for a piece that the consumer waits for: WAIT, PRESPLIT, ADMIT or FAIL.

        Args:
            piece: The piece, which is pending.
            need: Bytes that it needs.
            level: Where memory stands.
            now: The time.
        """
        moves, budget, ranks = self._moves, self._budget, self._budget.ranks
        dropped: list[Piece] = []
        excess = self.excess(level) + ranks * need
        leaves = excess <= 0  # what is on its way out is enough
        for step in self._policy.order:
            if step != "batch":
                excess = self._give_up(step, excess, now, dropped)
            elif excess > 0:
                room = (ranks * need - excess) // ranks
                size = moves.part(piece, room)
                if size < piece.count and moves.need(piece, size) <= room:
                    return moves.split(piece, size, "starved", level, now, dropped)
        self._give_up("all", excess, now, dropped)
        leaves = leaves or bool(dropped) or (moves.revocable and budget.pieces_in_flight > 0)
        if leaves and self._is_patient(now):
            return moves.wait(RETRY, dropped)
        return self._load_last(piece, level, now)

    def clear(self, now: float) -> Decision | None:
        """Give up all that is in flight beside a piece that the consumer waits for; None to wait no longer."""
        moves = self._moves
        dropped, _ = moves.give_up(sys.maxsize, ALL, now)
        return moves.wait(RETRY, dropped) if dropped or self._is_patient(now) else None

    def _is_patient(self, now: float) -> bool:
        return now - self._moves.begin_stall(now) < self._policy.stall

    def _load_last(self, piece: Piece, level: Level, now: float) -> Decision:
        """What to do when nothing is left to be given up."""
        moves = self._moves
        size = moves.least(piece)
        if size < piece.count:
            return moves.split(piece, size, "last", level, now)
        need = moves.need(piece, size)
        if self._estimate.is_assumed:  # an assumption is no reason to end an epoch
            need -= self._estimate.scratch(piece.hints)
        if not moves.revocable:
            level = level._replace(used=level.used + self._budget.promised)
        # Never twice in a row: where relief takes longer than it may be apart, nothing else would ever happen.
        relieved, self._relieved = self._relieved == piece.start, None
        if level.used + need > level.soft and not relieved and moves.relieve(now, RELIEF_STARVED):
            moves.begin_stall(now)
            self._relieved = piece.start
            return Decision(Action.WAIT, relief=True)
        if level.used + need > level.hard:
            return moves.stall(piece, need, level, now)
        moves.counts["last"] += 1
        return moves.load(piece, need)

    def one(self, piece: Piece) -> int:
        """Bytes for the next sample of a piece."""
        return self._estimate.need(1, piece.rest and piece.rest[:1]) or 0

    def cut(
        self, piece: Piece, rule: str, level: Level, now: float, dropped: Sequence[Piece] = ()
    ) -> Decision:
        """End a piece where it is."""
        self._throttle.count_cut()
        return self._moves.cut(piece, rule, level, now, dropped)

    def _give_up(self, step: str, excess: int, now: float, dropped: list[Piece]) -> int:
        keep = self._policy.min_workers - 1 if step == "workers" else 0
        more, missing = self._moves.give_up(excess, _GIVES_UP.get(step, ALL), now, keep=keep)
        dropped += more
        return missing
