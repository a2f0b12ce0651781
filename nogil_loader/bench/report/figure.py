"""A figure of the report: a drawing with what it shows, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.bench.report.svg import Drawing

#: The text alternative of a drawing is read out; the table has all of the numbers.
LABEL_LIMIT = 600


@dataclass(frozen=True)
class Figure:
    """What a section shows.

    Attributes:
        title: Its heading.
        caption: What is to be seen, or why there is nothing.
        drawing: None if there is nothing to draw.
    """

    title: str
    caption: str
    drawing: Drawing | None = None
