"""What a part of the examination hands back: facts, and findings with what to do about each."""

from __future__ import annotations

import dataclasses
import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

#: ``"ok"``: as it should be. ``"note"``: good to know. ``"warning"``: costs speed, or fails sooner or later.
#: ``"problem"``: keeps a loader from working, or from working at more than a small part of its speed.
Severity = Literal["ok", "note", "warning", "problem"]

_MARGIN = "  "
_COLUMN = 9  # the longest severity, and what sets it apart


@dataclass(frozen=True)
class Finding:
    """One thing that follows from the facts.

    Attributes:
        severity: How bad it is.
        found: What was found.
        advice: What to do: a command, a variable or an argument; empty if nothing is to be done.
    """

    severity: Severity
    found: str
    advice: str = ""

    def lines(self, width: int) -> list[str]:
        """Return it for a person, in lines of at most ``width`` characters where words allow that."""
        lines = wrap(
            self.found, width, f"{_MARGIN}{self.severity:<{_COLUMN}}", " " * (len(_MARGIN) + _COLUMN)
        )
        indent = " " * (len(_MARGIN) + _COLUMN)
        return lines + (wrap(self.advice, width, f"{indent}-> ", f"{indent}   ") if self.advice else [])


class Diagnosis(ABC):
    """What was found in one part. Each part is a frozen dataclass of its facts, from which the findings follow."""

    #: The heading above it.
    title: ClassVar[str]

    def facts(self) -> dict[str, Any]:
        """Return the facts for a program: what JSON can hold, sizes in bytes."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the facts for a person."""

    @abstractmethod
    def findings(self) -> list[Finding]:
        """Return what follows from the facts."""


@dataclass(frozen=True)
class Unexamined(Diagnosis):
    """A part that could not be looked at, for a reason that nobody has thought of."""

    title = "Not known"
    part: str
    failure: str

    def lines(self) -> list[str]:
        """Return nothing: there are no facts."""
        return []

    def findings(self) -> list[Finding]:
        """Return that there are none."""
        return [
            Finding(
                "warning", f"the part {self.part!r} could not be examined: {self.failure}", "please report it"
            )
        ]


def wrap(text: str, width: int, first: str = _MARGIN, further: str = _MARGIN + _MARGIN) -> list[str]:
    """Break a sentence into lines that begin with ``first``, then with ``further``."""
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def size(nbytes: int) -> str:
    """Return a number of bytes for a person."""
    return f"{nbytes / 1e9:.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def count(number: int, noun: str) -> str:
    """Return ``"1 worker"``, ``"2 workers"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
