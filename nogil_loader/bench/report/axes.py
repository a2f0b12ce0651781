"""The frame of a chart: a grid at round values, their labels, and what the axes are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.scale import Scale, choose_ticks, keep_apart, label_ticks
from nogil_loader.bench.report.svg import LEADING, SIZE, WIDTH, line, text
from nogil_loader.bench.report.words import width

_HEIGHT = 190
_MOST_ROWS = 6
# Between two labels below the horizontal axis, and between the vertical axis and its labels.
_GAP = 8


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Attributes:
        name: Its title.
        top: The highest value; the lowest is 0.
        unit: As for `label_ticks`.
        whole: Integers only.
        values: Where to label it, instead of at round values.
        inset: By how much 0 stands within the frame, where something is drawn on both sides of it.
    """

    name: str
    top: float
    unit: str = ""
    whole: bool = False
    values: tuple[float, ...] = ()
    inset: float = 0


@dataclass(frozen=True)
class Plot:
    """Where data go.

    Attributes:
        x, y: From values to places; ``y.end`` is above ``y.start``.
        frame: Shapes to be drawn first.
        bottom: Where the labels below end.
    """

    x: Scale
    y: Scale
    frame: tuple[str, ...]
    bottom: float


def lay_out(across: Axis, up: Axis, top: float) -> Plot:
    """Return a frame that is as wide as a drawing and begins at ``top`` with the title of the vertical axis."""
    rows = choose_ticks(up.top, _MOST_ROWS, whole=up.whole)
    row_labels = label_ticks(rows, up.unit)
    left = max(width(label, SIZE) for label in row_labels) + _GAP
    start = top + LEADING + 6
    y = Scale(up.top, start + _HEIGHT, start)
    x = Scale(across.top, left + across.inset, WIDTH - _GAP)
    shapes = [text(0, top + LEADING / 2, up.name, "muted")]
    for value, label in zip(rows, row_labels, strict=True):
        at = y.place(value)
        shapes.append(line(left, at, WIDTH, at, "axis" if value == 0 else "grid"))
        shapes.append(text(left - _GAP, at, label, "muted", anchor="end"))
    below = y.start + LEADING / 2 + 4
    ticks, labels = (
        _label_values(across.values, x, below)
        if across.values
        else label_scale(x, below, most=8, unit=across.unit, whole=across.whole)
    )
    shapes += [line(x.place(tick), y.start, x.place(tick), y.start + 4, "axis") for tick in ticks]
    shapes += labels
    shapes.append(text(WIDTH, below + LEADING, across.name, "muted", anchor="end"))
    return Plot(x, y, tuple(shapes), below + 1.5 * LEADING)


def label_scale(
    x: Scale, middle: float, *, most: int, unit: str = "", whole: bool = False
) -> tuple[Sequence[float], list[str]]:
    """Return round values along a horizontal scale, so few that their labels have room, and the labels.

    Args:
        x: The scale.
        middle: The height of the labels.
        most: How many values there may be.
        unit: As for `label_ticks`.
        whole: Integers only.
    """
    for count in range(most, 2, -1):
        ticks = choose_ticks(x.top, count, whole=whole)
        labels = _write_apart(ticks, label_ticks(ticks, unit), x, middle)
        if len(labels) == len(ticks):
            break
    return ticks, labels


def _label_values(values: Sequence[float], x: Scale, middle: float) -> tuple[Sequence[float], list[str]]:
    return values, _write_apart(values, [f"{value:g}" for value in values], x, middle)


def _write_apart(values: Sequence[float], labels: Sequence[str], x: Scale, middle: float) -> list[str]:
    widths = [width(label, SIZE) for label in labels]
    # A label at an edge is moved inwards, and has to be kept apart from the others where it stands then.
    places = [
        min(max(x.place(value), wide / 2), WIDTH - wide / 2)
        for value, wide in zip(values, widths, strict=True)
    ]
    kept = keep_apart(places, widths, _GAP)
    return [text(places[at], middle, labels[at], "muted", anchor="middle") for at in kept]
