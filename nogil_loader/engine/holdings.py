"""What the consumer holds, found without its help, and the waiting for it to let go.

Whatever shares the memory of a batch, be it a view, a tensor or another library's array, keeps the batch's
*owners* alive. A weak reference to each puts itself into a queue when that ends. This may happen in a finaliser
on any thread, in the middle of anything, so the queue is a ``SimpleQueue``, and nothing else is done there.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any


class Holdings:
    """The memory of delivered batches."""

    def __init__(self) -> None:
        self._held: set[Holding] = set()
        self._bell: SimpleQueue[Holding | None] = SimpleQueue()
        self._gone: deque[Holding] = deque()
        self._waiting = 0

    def add(self, start: int, owners: Sequence[tuple[Any, int]]) -> None:
        """Follow what becomes of the batch that begins at position ``start``."""
        self._held.update(Holding(owner, self._bell, start, nbytes) for owner, nbytes in owners)

    @property
    def let_go(self) -> int:
        """Bytes that the consumer has let go of since the last ``collect``."""
        self._gather()
        return sum(holding.nbytes for holding in list(self._gone))

    def collect(self) -> Iterator[Holding]:
        """Return, each once, what the consumer has let go of."""
        self._gather()
        while self._gone:
            holding = self._gone.popleft()
            self._held.discard(holding)
            yield holding

    def wait(self, seconds: float) -> None:
        """Wait for the consumer to let go of something or for ``ring``, at most so long."""
        self._waiting += 1
        try:
            self._keep(self._bell.get(timeout=seconds))
        except Empty:
            pass
        finally:
            self._waiting -= 1

    def ring(self) -> None:
        """Wake one of those who wait, if anybody does."""
        if self._waiting > 0:
            self._bell.put(None)

    def close(self, threads: int) -> None:
        """Wake all who wait; safe from finalisers."""
        for _ in range(threads):
            self._bell.put(None)

    def _gather(self) -> None:
        while not self._bell.empty():
            try:
                self._keep(self._bell.get_nowait())
            except Empty:  # another thread was faster
                break

    def _keep(self, item: Holding | None) -> None:
        if item is not None:
            self._gone.append(item)


class Holding(weakref.ref[Any]):
    """A weak reference to an owner of a delivered batch's memory.

    Attributes:
        start: Position of the batch's first sample in the epoch's order.
        nbytes: Bytes of the batch that end with it.
    """

    __slots__ = ("nbytes", "start")

    start: int
    nbytes: int

    def __new__(cls, owner: Any, bell: SimpleQueue[Any], start: int, nbytes: int) -> Holding:
        """Refer to ``owner`` until it ends, then go into ``bell``."""
        self = super().__new__(cls, owner, bell.put)
        self.start = start
        self.nbytes = nbytes
        return self

    def __init__(self, owner: Any, bell: SimpleQueue[Any], start: int, nbytes: int) -> None:
        """Nothing is left to be done; a weak reference's own would refuse the arguments."""

    # By identity: weak references compare like what they refer to, which may be arrays.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other
