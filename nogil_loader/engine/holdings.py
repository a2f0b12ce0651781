"""What the consumer holds, found without its help, and the waiting for it to let go.

Whatever shares the memory of a batch, be it a view, a tensor or another library's array, keeps the batch's
*owners* alive. A weak reference to each tells when that ends. This may happen in a finaliser on any thread, in
the middle of anything, so nothing is done there that takes a lock.

Whoever waits has a queue of its own. ``SimpleQueue.get`` waits without a limit if another thread takes an item
away from it at the very end of its time (CPython up to 3.13 at least), so no two may wait for the same one.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any


class Holdings:
    """The memory of delivered batches."""

    def __init__(self) -> None:
        self._held: set[Holding] = set()
        self._gone: deque[Holding] = deque()
        self._waiters: deque[SimpleQueue[None]] = deque()
        self._closed = False

    def add(self, start: int, owners: Sequence[tuple[Any, int]]) -> None:
        """Follow what becomes of the batch that begins at position ``start``."""
        self._held.update(Holding(owner, self._note, start, nbytes) for owner, nbytes in owners)

    @property
    def let_go(self) -> int:
        """Bytes that the consumer has let go of since the last ``collect``."""
        return sum(holding.nbytes for holding in list(self._gone))

    def collect(self) -> Iterator[Holding]:
        """Return, each once, what the consumer has let go of."""
        while self._gone:
            holding = self._gone.popleft()
            self._held.discard(holding)
            yield holding

    def wait(self, seconds: float) -> None:
        """Wait for the consumer to let go of something or for ``ring``, at most so long."""
        bell: SimpleQueue[None] = SimpleQueue()
        self._waiters.append(bell)
        if self._closed:
            return
        try:
            bell.get(timeout=seconds)
        except Empty:
            with contextlib.suppress(
                ValueError, IndexError
            ):  # it was just rung, or another one went meanwhile
                self._waiters.remove(bell)

    def ring(self) -> None:
        """Wake one of those who wait, if anybody does."""
        with contextlib.suppress(IndexError):
            self._waiters.popleft().put(None)

    def close(self) -> None:
        """Wake all who wait; safe from finalisers."""
        self._closed = True
        while self._waiters:
            self.ring()

    def _note(self, holding: Holding) -> None:
        self._gone.append(holding)
        self.ring()


class Holding(weakref.ref[Any]):
    """A weak reference to an owner of a delivered batch's memory.

    Attributes:
        start: Position of the batch's first sample in the epoch's order.
        nbytes: Bytes of the batch that end with it.
    """

    __slots__ = ("nbytes", "start")

    start: int
    nbytes: int

    def __new__(cls, owner: Any, note: Callable[[Holding], None], start: int, nbytes: int) -> Holding:
        """Refer to ``owner`` until it ends, then tell ``note``."""
        self = super().__new__(cls, owner, note)
        self.start = start
        self.nbytes = nbytes
        return self

    def __init__(self, owner: Any, note: Callable[[Holding], None], start: int, nbytes: int) -> None:
        """Nothing is left to be done; a weak reference's own would refuse the arguments."""

    # By identity: weak references compare like what they refer to, which may be arrays.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other
