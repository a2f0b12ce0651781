"""Who holds which part of the memory: pieces on their way *pending → loading → ready → held → free*.

Guarantees of this file:

* What is promised is the sum, over the pieces being loaded, of what they reserved and have not yet filled.
* The totals are those of the pieces, at any time; every change goes through one place.
* A piece that is pending stands in the way of all later ones.
* A call about a piece that is not in the state it speaks of changes nothing: threads that were given up on, and
  batches that were revoked while they were delivered, report late.

A piece is a batch or a part of one, known by the position of its first sample. A budget only keeps the books;
what may be admitted is the governor's business.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Where a piece is."""

    PENDING = "was refused and waits"
    LOADING = "is being loaded"
    READY = "waits for the consumer"
    HELD = "is with the consumer"


@dataclass(slots=True, eq=False)
class Piece:
    """Some samples of the plan, one after the other.

    Attributes:
        start: Position of the first one in the epoch's order.
        count: How many.
        hints: What the dataset says they take, each; None if it says nothing.
        state: Where it is.
        reserved: Bytes that it was admitted with.
        filled: Bytes that it takes already.
        done: Samples that are loaded.
        condemned: Whether it has to be given up at the next sample boundary.
    """

    start: int
    count: int
    hints: Sequence[int] | None
    state: State = State.PENDING
    reserved: int = 0
    filled: int = 0
    done: int = 0
    condemned: bool = False

    @property
    def promised(self) -> int:
        """Bytes that it may still take."""
        return max(0, self.reserved - self.filled) if self.state is State.LOADING else 0

    @property
    def weight(self) -> int:
        """Bytes that giving it up brings back, now or later."""
        return self.filled + self.promised

    @property
    def rest(self) -> Sequence[int] | None:
        """The hints of the samples that are not loaded yet."""
        return None if self.hints is None else self.hints[self.done : self.count]

    @property
    def hints_ahead(self) -> Sequence[int | None]:
        """The same, with None for each sample about which nothing was said."""
        rest = self.rest
        return [None] * (self.count - self.done) if rest is None else rest


class Budget:
    """The pieces of one epoch and what they take."""

    def __init__(self) -> None:
        self._pieces: dict[int, Piece] = {}
        self._bytes = dict.fromkeys(State, 0)
        self._counts = dict.fromkeys(State, 0)
        # Those not held, apart, since a consumer may keep a whole epoch.
        self._under_way: dict[int, Piece] = {}
        self._latest: Piece | None = None
        self.promised = 0

    # Changes

    def register(self, start: int, count: int, hints: Sequence[int] | None) -> Piece:
        """Note that someone wants to load a piece; whatever was known about it is void."""
        self.free(start)
        piece = Piece(start, count, hints)
        self._pieces[start] = self._under_way[start] = piece
        self._tally(piece, 1)
        return piece

    def load(self, piece: Piece, reserved: int) -> None:
        """Admit a pending piece."""
        self._tally(piece, -1)
        piece.state, piece.reserved = State.LOADING, reserved
        self._tally(piece, 1)

    def fill(self, piece: Piece, nbytes: int, samples: int) -> None:
        """Note that a piece being loaded has grown."""
        self._tally(piece, -1)
        piece.filled += nbytes
        piece.done += samples
        self._tally(piece, 1)

    def reserve(self, piece: Piece, reserved: int) -> None:
        """Change what a piece being loaded may take in all."""
        self._tally(piece, -1)
        piece.reserved = reserved
        self._tally(piece, 1)

    def finish(self, piece: Piece, nbytes: int) -> None:
        """Note that a piece is loaded and takes ``nbytes``."""
        self._tally(piece, -1)
        piece.state, piece.filled, piece.condemned = State.READY, nbytes, False
        self._tally(piece, 1)

    def deliver(self, start: int) -> None:
        """Note that the consumer has a piece."""
        piece = self._under_way.get(start)
        if piece is None or piece.state is not State.READY:
            return
        self._tally(piece, -1)
        piece.state = State.HELD
        del self._under_way[start]
        self._latest = piece
        self._tally(piece, 1)

    def free(self, start: int) -> int:
        """Forget a piece in whatever state; return the bytes it took."""
        piece = self._pieces.pop(start, None)
        if piece is None:
            return 0
        self._under_way.pop(start, None)
        self._tally(piece, -1)
        if self._latest is piece:
            self._latest = None
        return piece.filled

    def give_up(
        self, excess: int, states: Collection[State], *, spare: int | None, keep: int = 0
    ) -> tuple[list[Piece], int]:
        """Give up the youngest pieces until ``excess`` bytes are won: ready ones at once, others when they can.

        Args:
            excess: Bytes to win.
            states: What may be given up.
            spare: Start of the piece that is not.
            keep: How many others that are being loaded are left alone.

        Returns:
            The ready pieces, which are forgotten here, and the bytes that are still missing.
        """
        dropped: list[Piece] = []
        loading = self._counts[State.LOADING] - sum(
            piece.start == spare or piece.condemned
            for piece in self._under_way.values()
            if piece.state is State.LOADING
        )
        for start in sorted(self._under_way, reverse=True):
            piece = self._under_way[start]
            if excess <= 0:
                break
            if piece.state not in states or piece.condemned or start == spare:
                continue
            if piece.state is State.READY:
                excess -= self.free(start)
                dropped.append(piece)
            elif loading > keep:
                loading -= 1
                excess -= piece.weight
                piece.condemned = True
        return dropped, excess

    def _tally(self, piece: Piece, sign: int) -> None:
        self._bytes[piece.state] += sign * piece.filled
        self._counts[piece.state] += sign
        self.promised += sign * piece.promised

    # Questions

    def find(self, start: int, state: State) -> Piece | None:
        """The piece at ``start`` if it is in ``state``."""
        piece = self._pieces.get(start)
        return piece if piece is not None and piece.state is state else None

    def bytes(self, state: State) -> int:
        """Bytes that the pieces in ``state`` take."""
        return self._bytes[state]

    def count(self, state: State) -> int:
        """How many pieces are in ``state``."""
        return self._counts[state]

    @property
    def in_flight(self) -> int:
        """Bytes in pieces that are being loaded or ready."""
        return self._bytes[State.LOADING] + self._bytes[State.READY]

    @property
    def pieces_in_flight(self) -> int:
        """How many pieces are being loaded or ready."""
        return self._counts[State.LOADING] + self._counts[State.READY]

    @property
    def latest_held(self) -> int:
        """Bytes of the batch that the consumer got last, which it lets go of when it has the next."""
        return 0 if self._latest is None else self._latest.filled

    @property
    def condemned(self) -> int:
        """Bytes that come back when the condemned pieces have been given up."""
        return sum(piece.weight for piece in self._under_way.values() if piece.condemned)

    def first(self) -> int | None:
        """Start of the earliest piece that the consumer does not have."""
        return min(self._under_way, default=None)

    def is_queued_behind(self, start: int) -> bool:
        """Whether an earlier piece is pending."""
        return any(piece.state is State.PENDING and piece.start < start for piece in self._under_way.values())
