"""What is wrong with a dataset, in words and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nogil_loader.errors import describe_index, describe_indices

#: ``"error"``: data would be lost or wrong, or an epoch would end. ``"warning"``: worth knowing before that.
Level = Literal["error", "warning"]

_NARROWEST = 40

#: Examples of one finding that are shown.
SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: Which, for programs, such as ``"differs"`` or ``"raises"``.
        level: How bad it is.
        title: What is wrong, in one sentence.
        details: What was seen, one thing a line.
        advice: What to do, one thing a line.
        indices: Keys of the samples that it is about.
    """

    kind: str
    level: Level
    title: str
    details: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    indices: tuple[Hashable, ...] = ()

    def lines(self, width: int) -> list[str]:
        """Return it for a person, in lines of at most ``width`` characters where words allow that."""
        lines = wrap(f"{self.level.upper()}: {self.title}", width, "", "  ")
        for detail in self.details:
            lines += wrap(detail, width, "  ", "      ")
        for number, advice in enumerate(self.advice):
            lines += wrap(advice, width, "  -> " if number == 0 else "     ", "     ")
        return lines

    def facts(self) -> dict[str, Any]:
        """Return it for a program."""
        return {
            "kind": self.kind,
            "level": self.level,
            "title": self.title,
            "details": list(self.details),
            "advice": list(self.advice),
            "indices": [
                index if isinstance(index, int | str) else describe_index(index) for index in self.indices
            ],
        }


def wrap(text: str, width: int, first: str = "  ", further: str = "    ") -> list[str]:
    """Break a sentence into lines that begin with ``first``, then with ``further``."""
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(
        text.lstrip(),
        max(width, _NARROWEST),
        initial_indent=indent + first,
        subsequent_indent=indent + further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def some(lines: Sequence[str], noun: str = "more", most: int = SHOWN) -> tuple[str, ...]:
    """Return the first lines, and how many there are behind them."""
    rest = len(lines) - most
    return (*lines[:most], f"… and {rest} {noun}") if rest > 0 else tuple(lines)


def which(indices: Sequence[Hashable]) -> str:
    """Return some indices for the end of a sentence."""
    return describe_indices(indices)


def plural(count: int, noun: str) -> str:
    """Return ``1 sample``, ``2 samples``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{'es' if noun.endswith('ch') else 's'}"
