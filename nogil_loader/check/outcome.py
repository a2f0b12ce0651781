"""What came of one call into a dataset: a value, an exception, or nothing within the time there was."""

from __future__ import annotations

import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

from nogil_loader.check.difference import Difference
from nogil_loader.check.fingerprint import Fingerprint
from nogil_loader.errors import describe_exception

_SHOWN_CHARACTERS = 200
# Where an object lies differs from run to run, so it says nothing about whether two messages are the same.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Value:
    """It returned.

    Attributes:
        prints: Of the sample; of all samples where a whole batch was asked for.
        difference: From what was expected, if that was known and something else came.
    """

    prints: tuple[Fingerprint, ...]
    difference: Difference | None = field(default=None, compare=False)

    @property
    def structure(self) -> tuple[object, ...]:
        """What came without its values."""
        return tuple(each.structure for each in self.prints)


@dataclass(frozen=True)
class Raised:
    """It raised.

    Attributes:
        kind: The exception's class with its module, where that is not ``builtins``.
        text: Class and message in one line.
        where: The line of code that raised, empty if it is not known.
        bases: Names of all classes that the exception is an instance of.
    """

    kind: str
    text: str = field(compare=False)
    where: str = field(default="", compare=False)
    bases: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return what is worth keeping of an exception: nothing that keeps frames or samples alive."""
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        text = " ".join(describe_exception(error).split())
        if len(text) > _SHOWN_CHARACTERS:
            text = f"{text[:_SHOWN_CHARACTERS]}…"
        bases = frozenset(base.__name__ for base in kind.__mro__)
        return cls(name, _ADDRESS.sub("0x…", text), _innermost_line(error.__traceback__), bases)


@dataclass(frozen=True)
class Hung:
    """It did not return in time.

    Attributes:
        seconds: How long it had.
        stack: Where it was then, innermost call last; lines of text.
    """

    seconds: float = field(compare=False)
    stack: tuple[str, ...] = field(default=(), compare=False)


Outcome: TypeAlias = Value | Raised | Hung


@dataclass(frozen=True)
class Seen:
    """One call, what came of it, and what it took.

    Attributes:
        position: Which of the things that are asked for.
        outcome: What came.
        seconds: How long the call took.
        nbytes: Bytes of data in the sample.
        drew: The sources of random numbers that it changed, each with a digest of its state afterwards.
    """

    position: int
    outcome: Outcome
    seconds: float = 0.0
    nbytes: int = 0
    drew: tuple[tuple[str, bytes], ...] = ()


def is_same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes agree: equal values but for rounding, or exceptions of one class."""
    if isinstance(other, Value) and other.difference is not None and other.difference.is_rounding:
        return isinstance(one, Value)
    return one == other


def stack_lines(ident: int | None, own: str) -> tuple[str, ...]:
    """Return where a thread is, innermost call last, without the frames of the code that called the dataset.

    Args:
        ident: The thread's.
        own: Folder of the files whose frames lead to the dataset.
    """
    frame = None if ident is None else sys._current_frames().get(ident)
    if frame is None:
        return ()
    entries = traceback.extract_stack(frame)
    last = max((at for at, entry in enumerate(entries) if entry.filename.startswith(own)), default=-1)
    return tuple(
        f"{shown_place(entry.filename, entry.lineno, entry.name)}: {entry.line}"
        for entry in entries[last + 1 :]
    )


def shown_place(file: str, line: int | None, function: str) -> str:
    """Return a place in code for people, the file as seen from the working folder if it is below that."""
    folder = os.path.join(os.getcwd(), "")
    return f"{file.removeprefix(folder)}:{line} in {function}"


def _innermost_line(trace: TracebackType | None) -> str:
    entries = traceback.extract_tb(trace)
    if not entries:
        return ""
    return shown_place(entries[-1].filename, entries[-1].lineno, entries[-1].name)
