"""The tickets of an iterable dataset: its samples in the order in which they come, cut into batches.

One iterator is read by one caller at a time, and never again once it has ended or raised: a generator that
raised would look as if it had ended. To go on after a failure, or at a saved position, the iterable is opened
anew and what was planned before is read over. That is exact for iterables that give the same samples each
time, which is all that can be had from something without random access.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from nogil_loader.engine.ticket import Ticket
from nogil_loader.engine.watch import Watch
from nogil_loader.errors import DatasetError, describe_exception
from nogil_loader.memory.weigh import size_of

_NOTHING: Any = object()


class IteratorMemory:
    """Remembers the last iterator of an iterable, to notice when the same one is handed out again.

    Attributes:
        gave_samples: Whether the iterable has given anything yet.
        ended: Whether the last iterator was read to its end.
    """

    def __init__(self) -> None:
        self.gave_samples = False
        self.ended = False
        self._last: Any = None

    def is_used(self, iterator: Iterator[Any]) -> bool:
        """Whether this very iterator was read before; notes it as read."""
        last = self._last() if isinstance(self._last, weakref.ref) else self._last
        if iterator is last:
            return True
        try:
            self._last = weakref.ref(iterator)
        except TypeError:
            self._last = iterator
        return False


class StreamSource:
    """Reads an iterable dataset into tickets.

    Args:
        dataset: The iterable.
        batch_size: Samples per ticket; None for tickets of one sample.
        drop_last: Leave out an incomplete last batch.
        start: Samples to read over at the beginning, after a resume.
        memory: Of the iterators that were read before.

    Attributes:
        position: Running index of the next sample to plan.
        at: Running index of the sample that is being read; None between reads.
        ended: The iterable has ended.
        read_samples: Samples that it gave, once it has ended.
        used_up: It cannot be opened anew.
    """

    def __init__(
        self, dataset: Any, *, batch_size: int | None, drop_last: bool, start: int, memory: IteratorMemory
    ) -> None:
        self.position = start
        self.number = 0
        self.at: int | None = None
        self.ended = False
        self.read_samples = 0
        self.used_up = False
        self._dataset = dataset
        self._size = self._left = 1 if batch_size is None else batch_size
        self._drop_last = drop_last
        self._memory = memory
        self._iterator: Iterator[Any] | None = None
        self._why: BaseException | None = None
        self._closed = False
        self._again = False

    @property
    def wanted(self) -> int:
        """How many samples are missing to a whole batch."""
        return self._left

    def read(self, count: int | None = None, watch: Watch | None = None) -> Ticket | None:
        """Read the next ticket, None at the end. What user code raises passes through; see ``reopen``.

        Args:
            count: Samples at most, where memory does not allow for ``wanted``. The rest of the batch comes next.
            watch: Told about each sample; it may end the ticket early.
        """
        if self.ended or self._closed:
            return None
        iterator = self._open() if self._iterator is None else self._iterator
        size = self._left if count is None else min(count, self._left)
        samples: list[Any] = []
        while len(samples) < size:
            self.at = self.position + len(samples)
            sample = next(iterator, _NOTHING)
            if sample is _NOTHING:
                if self._again and self.at == 0 and self._memory.gave_samples:
                    raise self._used_up()
                self.ended = self._memory.ended = True
                self.read_samples = self.position + len(samples)
                self._iterator = None
                break
            samples.append(sample)
            self._memory.gave_samples = True
            if watch is not None and watch.enough(size_of(sample)):
                break
        self.at = None
        if not samples or (self._drop_last and self.ended and len(samples) < self._left):
            return None
        keys = list(range(self.position, self.position + len(samples)))
        return Ticket(self.number, self.position, len(samples), keys, samples)

    def advance(self, ticket: Ticket) -> None:
        """Note that the ticket is planned; until then ``read`` would bring the same samples again."""
        self.position = ticket.start + ticket.span
        self._left -= ticket.span
        if self._left <= 0:
            self._left = self._size
            self.number = ticket.number + 1

    def reopen(self, why: BaseException | None = None) -> None:
        """Drop the iterator, so that the next ``read`` opens the iterable anew and reads up to ``position``.

        Args:
            why: What made it necessary; the cause of the error if the iterable cannot be opened anew.
        """
        self._why = why
        self._iterator = None
        self.at = None

    def close(self) -> None:
        """Let go of the iterator, whose generator may hold files and samples. Nothing is read from here on."""
        self._closed = True
        self._iterator = None

    def _open(self) -> Iterator[Any]:
        self.at = 0
        try:
            iterator: Iterator[Any] = iter(self._dataset)
        except StopIteration as error:
            raise DatasetError(f"{type(self._dataset).__name__}.__iter__ raised StopIteration") from error
        self._again = self._memory.is_used(iterator)
        if self._again and not (self._memory.ended and _may_start_anew(iterator)):
            raise self._used_up()
        self._memory.ended = False
        for skipped in range(self.position):
            self.at = skipped
            if next(iterator, _NOTHING) is _NOTHING:
                raise DatasetError(
                    f"{type(self._dataset).__name__} ended after {skipped} samples where {self.position} were "
                    f"read before; to go on at a position it has to give the same samples each time"
                )
        self._iterator = iterator
        self._why = None
        return iterator

    def _used_up(self) -> DatasetError:
        self.used_up = True
        kind = type(self._dataset).__name__
        because = "" if self._why is None else f" It was opened anew after {describe_exception(self._why)}."
        error = DatasetError(
            f"iter() of the {kind} returned the same iterator as before, which has nothing more to give or was "
            f"left half-way, and would go on where it is; an iterable dataset has to start anew each time (make "
            f"__iter__ a generator function).{because}"
        )
        error.__cause__ = self._why
        return error


def _may_start_anew(iterator: Iterator[Any]) -> bool:
    """Whether an iterator that was read to its end and is handed out again may have been reset by ``__iter__``.

    A class of somebody's own may do that, and often does (``self.position = 0; return self``). Generators and the
    iterators of Python itself cannot.
    """
    return isinstance(getattr(type(iterator), "__next__", None), FunctionType)
