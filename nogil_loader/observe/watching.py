"""Iterating a loader with somebody who looks on: what progress bars and logs have in common.

* Batches, the end and errors are those of the loader's own iterator, the same objects in the same order. After
  an error, ``next`` says what that iterator says.
* What was opened here is closed here: by ``close()``, by an exception that interrupts, by being dropped. An
  iterator that the caller made stays the caller's.
* A finaliser may run on any thread, in the middle of anything: it takes no lock and waits for nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self

from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.engine.statistics import Progress, Statistics
from nogil_loader.errors import describe
from nogil_loader.loader import DataLoader


class Onlooker(Protocol):
    """Who looks on.

    Attributes:
        period: Seconds between two calls of ``look``; infinite for none at all.
    """

    period: float

    def look(self) -> None:
        """Called by the consumer's thread, with a batch in its hand, once a period at most."""

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Called once, when the iteration is over.

        Args:
            how: ``"complete"``, ``"failed"`` or ``"stopped"``.
            finalizing: It is a finaliser that calls.
        """


class WatchedIterator(Iterator[Any]):
    """One epoch, watched. It can do what a `LoaderIterator` can do.

    Args:
        iterator: Where the batches come from.
        onlooker: Who watches.
        owned: Whether ``iterator`` is to be closed with this one.
    """

    def __init__(
        self, iterator: LoaderIterator | WatchedIterator, onlooker: Onlooker, *, owned: bool
    ) -> None:
        self._iterator = iterator
        self._onlooker: Onlooker | None = onlooker
        self._owned = owned
        self._period = onlooker.period
        self._due = perf_counter() + self._period

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            BaseException: What the loader's iterator raises.
        """
        try:
            batch = next(self._iterator)
        except BaseException as error:
            self._leave(
                "complete"
                if isinstance(error, StopIteration)
                else "failed"
                if isinstance(error, Exception)
                else "stopped"
            )
            if self._owned and not isinstance(error, Exception):
                self._iterator.close()  # the traceback keeps it alive, with its threads and batches
            raise
        if perf_counter() >= self._due:
            self._look()
        return batch

    def _look(self) -> None:
        onlooker = self._onlooker
        if onlooker is not None:
            onlooker.look()
        self._due = perf_counter() + self._period

    def _leave(self, how: str, *, finalizing: bool = False) -> None:
        onlooker, self._onlooker = self._onlooker, None
        self._due = math.inf
        if onlooker is not None:
            onlooker.leave(how, finalizing=finalizing)

    def progress(self) -> Progress:
        """How many of the epoch's samples are behind the consumer."""
        return self._iterator.progress()

    def statistics(self) -> Statistics:
        """A snapshot of the epoch."""
        return self._iterator.statistics()

    def close(self) -> None:
        """End the epoch, unless the caller made its iterator, and the watching in any case; idempotent."""
        self._leave("stopped")
        if self._owned:
            self._iterator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_onlooker", None) is not None:
            self._leave("stopped", finalizing=True)


class Watched(Iterable[Any]):
    """A loader, each of whose epochs is watched.

    Args:
        source: A loader, one of its iterators, or either of them watched already.
        invite: Returns who looks on at an epoch.

    Raises:
        TypeError: ``source`` is something else.
    """

    def __init__(self, source: Any, invite: Callable[[LoaderIterator | WatchedIterator], Onlooker]) -> None:
        if not isinstance(source, DataLoader | LoaderIterator | Watched | WatchedIterator):
            raise TypeError(
                f"loader={describe(source, 100)}: expected a DataLoader or one of its iterators, not "
                f"{type(source).__name__}"
            )
        self._source = source
        self._invite = invite

    def __iter__(self) -> WatchedIterator:
        """Start a new epoch of a loader; go on with an iterator.

        Raises:
            DeadWorkerError: A worker died earlier and the loader was not rebuilt since.
        """
        iterator = self._source.__iter__()
        return WatchedIterator(iterator, self._invite(iterator), owned=iterator is not self._source)

    def __len__(self) -> int:
        """The nominal number of batches of an epoch.

        Raises:
            TypeError: The loader does not know it, or what is watched is an iterator.
        """
        return len(self._source)  # type: ignore[arg-type]
