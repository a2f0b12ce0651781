"""What can become of a ticket: a batch or a failure. Values that travel; there is no second channel."""

from __future__ import annotations

import traceback
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal

from nogil_loader.errors import describe_exception


@dataclass(frozen=True, slots=True)
class Loaded:
    """A batch, ready for the consumer."""

    batch: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker could not turn a ticket into a batch.

    Attributes:
        worker_id: The worker; ``"reader"`` for the thread that reads an iterable.
        cause: The exception, None when the thread was gone without a word.
        kind: ``"raised"``; ``"vanished"`` (the thread is gone); ``"stuck"`` (no progress for the timeout).
        during: What the worker was doing.
        offset: Which of the ticket's samples failed, None when that is not known.
        index: The failing sample's key where there is one without a ticket (reader), else None.
        stack: Where a stuck worker was.
        memory: A memory reading taken at the time.
    """

    worker_id: int | str
    cause: BaseException | None = None
    kind: Literal["raised", "vanished", "stuck"] = "raised"
    during: str = ""
    offset: int | None = None
    index: Hashable = None
    stack: str = ""
    memory: Any = None

    @property
    def is_memory(self) -> bool:
        """Whether memory ran out, which is no fault of the worker."""
        # By type: isinstance() asks the object, which may be of a class that answers by raising.
        return issubclass(type(self.cause), MemoryError)

    def describe(self) -> str:
        """One line for logs and records."""
        if self.cause is not None:
            return describe_exception(self.cause)
        return "no progress within the timeout" if self.kind == "stuck" else "the thread ended without a word"


Outcome = Loaded | Failure


@dataclass(frozen=True)
class SkipRecord:
    """One sample that was left out of an epoch.

    Attributes:
        index: The sample's key in the dataset.
        epoch: The epoch, from 0.
        error: The exception that it raised; None where the worker vanished or got stuck. Its traceback shows
            where, without the local variables.
        reason: The same in one line.
        position: The sample's place in the epoch's order, from 0.
    """

    index: Hashable
    epoch: int
    error: BaseException | None
    reason: str
    position: int = field(default=0, compare=False)


def without_locals(error: BaseException | None) -> BaseException | None:
    """Drop the local variables that a kept exception would keep alive: samples, files, partial batches.

    Follows causes, contexts and the members of groups. Their truth and their equality are user code, so they
    are only ever compared by identity.
    """
    seen: set[int] = set()
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        links += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            links += link.exceptions
    return error
