"""Which epoch comes next, and where the consumer of the present one stands: the loader's position, pure."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from nogil_loader.engine.run import EpochRun
from nogil_loader.plan import LoaderState, Received

if TYPE_CHECKING:
    from nogil_loader.engine.iterator import LoaderIterator


class Beginning(NamedTuple):
    """How an epoch begins.

    Attributes:
        epoch: Its number.
        received: What the consumer has of it already; the position that is kept up to date from here on.
        announced: The number was chosen by the caller, so a user's sampler is told.
        state: The loaded state that it goes on from.
    """

    epoch: int
    received: Received
    announced: bool
    state: LoaderState | None = None


class Current:
    """The latest epoch that began. Its position outlives its iterator."""

    __slots__ = ("beginning", "finished", "iterator", "run")

    def __init__(self, beginning: Beginning, run: EpochRun) -> None:
        self.beginning = beginning
        self.run = run
        self.iterator: weakref.ref[LoaderIterator] | None = None
        self.finished = False


class Epochs:
    """Counts epochs and knows the position to save.

    Not safe to be called from several threads at once.
    """

    def __init__(self) -> None:
        self.current: Current | None = None
        self._next = 0
        self._chosen = False
        self._pending: LoaderState | None = None

    def begin(self, nothing: Received) -> Beginning:
        """Move on to the next epoch, or to the rest of the one that a state was loaded for.

        Args:
            nothing: What is received at the beginning of an epoch.
        """
        state, self._pending = self._pending, None
        epoch, received = (self._next, nothing) if state is None else state.resume()
        if state is not None:
            self._chosen = state.announced
        self._next = epoch + 1
        return Beginning(epoch, received, self._chosen, state)

    def take_back(self, beginning: Beginning) -> None:
        """Undo ``begin``, because nothing came of it; unless something else was begun or chosen since."""
        if self._next == beginning.epoch + 1 and self._pending is None:
            self._next = beginning.epoch
            self._pending = beginning.state

    def choose(self, epoch: int) -> None:
        """Let this epoch come next. A state that was loaded for it stays in force."""
        self._chosen = True
        if self._pending is not None and self._pending.resume()[0] == epoch:
            return
        self._pending = self.current = None
        self._next = epoch

    def load(self, state: LoaderState) -> None:
        """Let the next epoch go on where ``state`` was taken."""
        self._pending = state

    def state(self, *, sampler: str, length: int | None, seed: int, nothing: Received) -> LoaderState:
        """The position of what the consumer has received."""
        if self._pending is not None:
            return self._pending
        current = self.current
        return LoaderState.of(
            sampler=sampler,
            length=length,
            seed=seed,
            epoch=self._next if current is None else current.beginning.epoch,
            received=nothing if current is None else current.beginning.received,
            finished=current is not None and current.finished,
            announced=self._chosen if current is None else current.beginning.announced,
        )
