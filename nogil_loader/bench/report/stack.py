"""Bars from left to right that are made of parts, as shares of a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.axes import label_scale
from nogil_loader.bench.report.numbers import share
from nogil_loader.bench.report.scale import Scale
from nogil_loader.bench.report.svg import (
    LEADING,
    SIZE,
    WIDTH,
    Drawing,
    Entry,
    legend,
    line,
    rectangle,
    text,
)
from nogil_loader.bench.report.words import width

_THICK, _THIN, _BELOW = 18, 8, 7
# The names of rows stand on the left of the bars and take at most this much.
_NAMES = 120
_GAP = 8


@dataclass(frozen=True)
class Part:
    """What a colour stands for."""

    name: str
    colour: int


@dataclass(frozen=True)
class Row:
    """One bar.

    Attributes:
        name: On its left.
        shares: 0 to 1, one for each part; together not more than 1.
        strong: Whether it is the one to look at.
        spread: By how much their sum may be off, as a share.
        below: A thinner bar below it, as a share of another whole.
    """

    name: str
    shares: tuple[float, ...]
    strong: bool = False
    spread: float | None = None
    below: float | None = None


def draw_stack(
    rows: Sequence[Row], parts: Sequence[Part], below: Part | None = None, *, names: str, label: str
) -> Drawing:
    """Draw stacked bars.

    Args:
        rows: From the top to the bottom, at least one.
        parts: From left to right.
        below: What the thinner bars are.
        names: What the rows' names are.
        label: The text alternative.
    """
    explained = (*parts, below) if below else parts
    shapes, top = legend(
        (Entry(part.name, rectangle(-12, -6, 24, 12, f"f{part.colour}")) for part in explained), 0
    )
    shapes.append(text(0, top + LEADING / 2 + 4, names, "muted"))
    top += LEADING + 12
    left = _GAP + min(_NAMES, max(width(row.name, SIZE) for row in rows) + 6)
    # Room for half of the last label, so that it need not be moved.
    x = Scale(1.0, left, WIDTH - width(share(1.0), SIZE) / 2)
    begin = top
    bars: list[str] = []
    for row in rows:
        bars += _draw_row(row, parts, below, x, top)
        top += _THICK + _BELOW + (_THIN if below else 0)
    ticks, labels = label_scale(x, top + LEADING / 2, most=6, unit="%")
    shapes += [line(x.place(tick), begin - 4, x.place(tick), top - 2, "grid") for tick in ticks]
    shapes += bars
    shapes += labels
    return Drawing(top + LEADING + 2, tuple(shapes), label)


def _draw_row(row: Row, parts: Sequence[Part], below: Part | None, x: Scale, top: float) -> list[str]:
    middle = top + _THICK / 2
    look = "strong" if row.strong else ""
    shapes = [text(x.start - _GAP, middle, row.name, look, anchor="end", room=x.start - _GAP)]
    done = 0.0
    shown = [(part, each) for part, each in zip(parts, row.shares, strict=True) if each > 0]
    for at, (part, part_share) in enumerate(shown, 1):
        begin, done = x.place(done), done + part_share
        shapes.append(_draw_part(part, part_share, begin, x.place(done), top, _THICK))
        # The mark of the spread would cross the number in the last part.
        if not (row.spread and at == len(shown)):
            shapes += _write_in(part, part_share, begin, x.place(done), middle)
    if row.spread:
        low, high = x.place(done - row.spread), x.place(done + row.spread)
        for thick, stroke in ((4.5, "edge"), (1.5, "ink")):
            shapes.append(line(low, middle, high, middle, stroke, stroke_width=thick))
            shapes += [
                line(end, middle - 4, end, middle + 4, stroke, stroke_width=thick) for end in (low, high)
            ]
    if below is not None and row.below:
        shapes.append(_draw_part(below, row.below, x.start, x.place(row.below), top + _THICK, _THIN))
    return shapes


def _draw_part(part: Part, part_share: float, begin: float, end: float, top: float, thick: float) -> str:
    told = f"{part.name}: {share(part_share)}"
    return rectangle(begin, top, end - begin, thick, f"f{part.colour}", told)


def _write_in(part: Part, part_share: float, begin: float, end: float, middle: float) -> list[str]:
    told = share(part_share)
    if width(told, SIZE) + 4 > end - begin:
        return []
    return [text((begin + end) / 2, middle, told, f"on{part.colour}", anchor="middle")]
