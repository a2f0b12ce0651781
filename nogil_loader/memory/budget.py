"""Who holds which part of the memory: pieces on their way *pending → loading → ready → held → free*.

Guarantees of this file:

* What is promised is the sum, over the pieces being loaded, of what they reserved and have not yet filled.
* The totals are those of the pieces, at any time, and each change and question on the way of a piece through the
  book takes the same time however many pieces there are.
* A piece that is pending stands in the way of all later ones.
* A call about a piece that is not in the state it speaks of changes nothing: threads that were given up on, and
  batches that were revoked while they were delivered, report late.

A piece is a batch or a part of one, known by the position of its first sample. A budget only keeps the books;
what may be admitted is the governor's business.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """Where a piece is."""

    PENDING = 0  # was refused and waits
    LOADING = 1  # is being loaded
    READY = 2  # waits for the consumer
    HELD = 3  # is with the consumer


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
        asked: Whether it was admitted; False for one that came to the consumer without a question.
    """

    start: int
    count: int
    hints: Sequence[int] | None
    state: State = State.PENDING
    reserved: int = 0
    filled: int = 0
    done: int = 0
    condemned: bool = False
    asked: bool = True

    @property
    def promised(self) -> int:
        """Bytes that it may still take."""
        return max(0, self.reserved - self.filled) if self.state is State.LOADING else 0

    @property
    def rest(self) -> Sequence[int] | None:
        """The hints of the samples that are not loaded yet."""
        return None if self.hints is None else self.hints[self.done : self.count]


class Budget:
    """The pieces of one epoch and what they take.

    Args:
        ranks: Processes that share the memory and may do the same at the same moment.

    Attributes:
        ranks: The same.
        promised: Bytes that pieces have reserved and not yet filled.
        head: The piece that the consumer waits for, if it does.
        changes: How often a piece has begun, ended or been let go of.
        under_way: The pieces that the consumer does not have.
    """

    def __init__(self, ranks: int = 1) -> None:
        self.ranks = ranks
        self.promised = 0
        self.head: int | None = None
        self.changes = 0
        self._pieces: dict[int, Piece] = {}
        # Those not held, apart, since a consumer may keep a whole epoch.
        self.under_way: dict[int, Piece] = {}
        self._bytes = [0] * len(State)
        self._counts = [0] * len(State)
        self._latest: Piece | None = None

    # Changes

    def register(self, start: int, count: int, hints: Sequence[int] | None) -> Piece:
        """Note that someone wants to load a piece; whatever was known about it is void."""
        if start in self._pieces:
            self.free(start)
        piece = Piece(start, count, hints)
        self._pieces[start] = self.under_way[start] = piece
        self._counts[State.PENDING] += 1
        return piece

    def load(self, piece: Piece, reserved: int) -> None:
        """Admit a pending piece."""
        self._move(piece, State.LOADING)
        self.changes += 1
        piece.reserved = reserved
        self.promised += reserved

    def fill(self, piece: Piece, nbytes: int, samples: int, reserved: int) -> None:
        """Note that a piece being loaded has grown, and what it may take now in all."""
        filled = piece.filled
        self.promised += max(0, reserved - filled - nbytes) - max(0, piece.reserved - filled)
        self._bytes[State.LOADING] += nbytes
        piece.filled = filled + nbytes
        piece.done += samples
        piece.reserved = reserved

    def finish(self, piece: Piece, nbytes: int) -> None:
        """Note that a piece is loaded and takes ``nbytes``."""
        self._move(piece, State.READY)
        self.changes += 1
        self._resize(piece, nbytes)
        piece.condemned = False

    def deliver(self, start: int, nbytes: int = 0) -> None:
        """Note that the consumer has a piece, of ``nbytes`` bytes if that is said.

        What nobody asked for is booked from now on, for as long as the consumer holds it. A piece that was
        refused and then loaded all the same is of this kind, and does not wait any more.
        """
        piece = self._pieces.get(start)
        if piece is None or piece.state is State.PENDING:
            piece = self.register(start, 0, None)
            piece.asked = False
        elif piece.state is not State.READY:
            return
        self._move(piece, State.HELD)
        if nbytes:
            self._resize(piece, nbytes)
        del self.under_way[start]
        if piece.filled:
            self._latest = piece
        else:
            self.free(start)  # there is nothing of it that could be let go of

    def release(self, start: int, nbytes: int) -> int:
        """Note that the consumer let go of a part of a piece; return how much of it had been asked for."""
        piece = self._pieces.get(start)
        if piece is None or piece.state is not State.HELD:
            return 0
        nbytes = min(nbytes, piece.filled)
        self.changes += 1
        self._resize(piece, piece.filled - nbytes)
        if not piece.filled:
            self.free(start)
        return nbytes if piece.asked else 0

    def free(self, start: int) -> int:
        """Forget a piece in whatever state; return the bytes it took."""
        piece = self._pieces.pop(start, None)
        if piece is None:
            return 0
        if piece.state is not State.PENDING:  # which is nothing yet
            self.changes += 1
        self.under_way.pop(start, None)
        self.promised -= piece.promised
        self._bytes[piece.state] -= piece.filled
        self._counts[piece.state] -= 1
        if self._latest is piece:
            self._latest = None
        return piece.filled

    def give_up(self, excess: int, states: Collection[State], *, keep: int = 0) -> tuple[list[Piece], int]:
        """Give up the youngest pieces until ``excess`` bytes are won: ready ones at once, others when they can.

        The first piece is never given up.

        Args:
            excess: Bytes to win.
            states: What may be given up.
            keep: How many others that are being loaded are left alone.

        Returns:
            The ready pieces, which are forgotten here, and the bytes that are still missing.
        """
        dropped: list[Piece] = []
        spare = self.first()
        loading = self._counts[State.LOADING] - sum(
            piece.start == spare or piece.condemned
            for piece in self.under_way.values()
            if piece.state is State.LOADING
        )
        for start in sorted(self.under_way, reverse=True):
            piece = self.under_way[start]
            if excess <= 0:
                break
            if piece.state not in states or piece.condemned or start == spare:
                continue
            if piece.state is State.READY:
                excess -= self.free(start)
                dropped.append(piece)
            elif loading > keep:
                loading -= 1
                excess -= self._weight(piece)
                piece.condemned = True
        return dropped, excess

    def _move(self, piece: Piece, state: State) -> None:
        before, filled = piece.state, piece.filled
        self.promised -= piece.promised
        self._bytes[before] -= filled
        self._bytes[state] += filled
        self._counts[before] -= 1
        self._counts[state] += 1
        piece.state = state

    def _resize(self, piece: Piece, nbytes: int) -> None:
        self._bytes[piece.state] += nbytes - piece.filled
        piece.filled = nbytes

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
    def expected(self) -> int:
        """Bytes that may still be taken: what is promised, and as much by each of the other ranks."""
        return self.ranks * self.promised

    @property
    def in_flight(self) -> int:
        """Bytes in pieces that are being loaded or ready."""
        return self._bytes[State.LOADING] + self._bytes[State.READY]

    @property
    def ours(self) -> int:
        """Bytes in all pieces, those that the consumer holds included."""
        return self.in_flight + self._bytes[State.HELD]

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
        """Bytes that come back when the condemned pieces have been given up, now or later."""
        return sum(self._weight(piece) for piece in self.under_way.values() if piece.condemned)

    def first(self) -> int | None:
        """The piece that is never given up: what the consumer waits for, or else the earliest it has not got."""
        return min(self.under_way, default=None) if self.head is None else self.head

    def is_queued_behind(self, start: int) -> bool:
        """Whether an earlier piece is pending."""
        return self._counts[State.PENDING] > 0 and any(
            piece.state is State.PENDING and piece.start < start for piece in self.under_way.values()
        )

    def is_ahead_in_flight(self, start: int) -> bool:
        """Whether an earlier piece is being loaded or ready."""
        return any(
            piece.state is not State.PENDING and piece.start < start for piece in self.under_way.values()
        )

    def _weight(self, piece: Piece) -> int:
        return piece.filled + self.ranks * piece.promised
