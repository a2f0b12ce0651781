"""What can become of a ticket: a batch or a failure. Values that travel; there is no second channel."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, NamedTuple

from nogil_loader.errors import describe, describe_exception


class Loaded(NamedTuple):
    """A batch, ready for the consumer.

    Attributes:
        batch: What it gets.
        part: With how many of the ticket's samples, if these are not all.
        raw: The batch before it was handed over to another framework, in whose objects its memory cannot be
            recognised.
        samples: What it was collated from, where they were all there at the same time.
    """

    batch: Any
    part: int | None = None
    raw: Any = None
    samples: list[Any] | None = None


class Weight(NamedTuple):
    """What a batch takes.

    Attributes:
        nbytes: Bytes of the batch; 0 where nobody wants to know.
        peak: Bytes that existed of it at most while it was made.
        owners: The objects whose end shows that nobody uses it any more, with the bytes of each.
    """

    nbytes: int = 0
    peak: int = 0
    owners: Sequence[tuple[Any, int]] = ()


UNWEIGHED = Weight()


class GivenBack(NamedTuple):
    """Nothing was loaded, because memory is needed elsewhere: the ticket is to be planned again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker could not turn a ticket into a batch.

    Attributes:
        worker_id: The worker; ``"reader"`` for the thread that reads an iterable.
        cause: The exception, None when the thread was gone without a word.
        kind: ``"raised"``; ``"vanished"`` (the thread is gone); ``"stuck"`` (no progress for the timeout);
            ``"shortage"`` (there is no memory to try it with; ``cause`` has the numbers).
        during: What the worker was doing.
        offset: Which of the ticket's samples failed, None when that is not known.
        index: The failing sample's key where there is one without a ticket (reader), else None.
        stack: Where a stuck worker was.
        memory: A memory reading taken at the time.
    """

    worker_id: int | str
    cause: BaseException | None = None
    kind: Literal["raised", "vanished", "stuck", "shortage"] = "raised"
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


Outcome = Loaded | GivenBack | Failure

_TRACEBACK: Any = BaseException.__traceback__
_CAUSE: Any = BaseException.__cause__
_CONTEXT: Any = BaseException.__context__
_MEMBERS: Any = BaseExceptionGroup.exceptions


@dataclass(frozen=True, repr=False)
class SkipRecord:
    """One sample that was left out of an epoch.

    Attributes:
        index: The sample's key in the dataset.
        epoch: The epoch, from 0.
        error: The exception that it raised; None where the worker vanished or got stuck. Without its
            traceback, whose frames would keep samples and batches alive as long as the record.
        reason: The error in one line.
        position: The sample's place in the epoch's order, from 0.
        traceback: The error's traceback as text.
    """

    index: Hashable
    epoch: int
    error: BaseException | None
    reason: str
    position: int = field(default=0, compare=False)
    traceback: str = field(default="", compare=False)

    def __repr__(self) -> str:
        # Key and error are the user's objects; printing a record must not fail because they cannot be printed.
        return (
            f"SkipRecord(index={describe(self.index, 200)}, epoch={self.epoch}, position={self.position}, "
            f"reason={self.reason!r})"
        )


def detach_traceback(error: BaseException | None) -> str:
    """Take the traceback off an exception and all that it is chained to; return it as text."""
    if error is None:
        return ""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException as failure:  # noqa: BLE001 - printing an exception runs its own code
        text = f"<not printable: {type(failure).__name__}>"
    for link in _chain(error):
        _TRACEBACK.__set__(link, None)
    return text


def clear_locals(error: BaseException | None) -> None:
    """Drop the local variables that an exception keeps alive, and keep the lines of its traceback.

    Frames refer to their callers, so these are cleared as well; what still runs is left alone.
    """
    for link in _chain(error):
        trace = _TRACEBACK.__get__(link)
        while trace is not None:
            frame: FrameType | None = trace.tb_frame
            while frame is not None:
                with contextlib.suppress(RuntimeError):  # it is still running
                    frame.clear()
                frame = frame.f_back
            trace = trace.tb_next


def _chain(error: BaseException | None) -> list[BaseException]:
    """An exception with its causes, contexts and the members of groups.

    An exception's truth, equality, class and even its attributes may be user code that raises. So exceptions
    are compared by identity, told by type, and read through the attributes of ``BaseException`` itself.
    """
    found: dict[int, BaseException] = {}
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is None or id(link) in found:
            continue
        found[id(link)] = link
        links += [_CAUSE.__get__(link), _CONTEXT.__get__(link)]
        if issubclass(type(link), BaseExceptionGroup):
            links += _MEMBERS.__get__(link)
    return list(found.values())
