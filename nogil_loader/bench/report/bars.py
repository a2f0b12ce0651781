"""Bars from left to right, each with its name and its number above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.axes import label_scale
from nogil_loader.bench.report.numbers import THIN, is_number, number
from nogil_loader.bench.report.scale import Scale, choose_top
from nogil_loader.bench.report.svg import LEADING, SIZE, WIDTH, Drawing, Entry, legend, line, rectangle, text
from nogil_loader.bench.report.theme import BLUE, ORANGE
from nogil_loader.bench.report.words import width

_THICK = 14
_BELOW = 10
# Between a name and the number on the same line.
_APART = 12
_CLOSE_UNITS = ("\N{MULTIPLICATION SIGN}",)


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: What it stands for.
        value: How long it is; None or what is not finite leaves a sentence instead of a bar.
        low, high: The lowest and the highest measurement, if there were several.
        note: Instead of the number where there is none.
        group: Bars of one group follow each other; the group's name stands above the first of them.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = "not measured"
    group: str = ""


def bar_chart(
    bars: Sequence[Bar],
    *,
    label: str,
    unit: str = "\N{MULTIPLICATION SIGN}",
    reference: float | None = 1.0,
    reference_name: str = "equal",
) -> str:
    """Return an SVG file of bars, for a page that is not this report; the same arguments give the same text.

    Args:
        bars: From the top to the bottom.
        label: The text alternative, for those who cannot see it.
        unit: Behind the numbers.
        reference: A value that has a line across all bars. Bars that end before it have another colour.
        reference_name: What the line means.

    Raises:
        ValueError: There is no bar.
    """
    if not bars:
        raise ValueError("bars: expected at least one")
    return draw_bars(
        bars, label=label, unit=unit, reference=reference, reference_name=reference_name
    ).standalone()


def draw_bars(
    bars: Sequence[Bar],
    *,
    label: str,
    unit: str,
    reference: float | None = None,
    reference_name: str = "",
) -> Drawing:
    """Draw bars; the arguments are those of `bar_chart`."""
    known = [each for bar in bars for each in (bar.value, bar.high) if each is not None]
    x = Scale(choose_top([*known, reference or 0.0]), 0, WIDTH)
    entries = [] if reference is None else [Entry(reference_name, line(-12, 0, 12, 0, "ink", **_DASHES))]
    shapes, top = legend(entries, 0)
    top += _BELOW if entries else 0
    middles: list[float] = []
    group = ""
    for bar in bars:
        if bar.group != group:
            group = bar.group
            shapes.append(text(0, top + LEADING / 2, group, "strong"))
            top += LEADING + 4
        shapes += _write_above(bar, top, unit)
        if is_number(bar.value):
            middle = top + LEADING + 2 + _THICK / 2
            middles.append(middle)
            shapes += _draw_bar(bar, x, middle, reference)
            if reference is not None:
                shapes.append(_across(x.place(reference), middle, "edge", stroke_width=3))
                shapes.append(_across(x.place(reference), middle, "ink", **_DASHES))
            top += _THICK + 2
        top += LEADING + _BELOW
    ticks, labels = label_scale(x, top + LEADING / 2, most=6)
    grid = [_across(x.place(tick), middle, "grid") for middle in middles for tick in ticks]
    return Drawing(top + LEADING, (*grid, *shapes, *labels), label)


_DASHES: dict[str, float | str] = {"stroke_width": 1.5, "stroke_dasharray": "4 2"}


def _write_above(bar: Bar, top: float, unit: str) -> list[str]:
    if bar.value is not None and is_number(bar.value):
        space = "" if unit in _CLOSE_UNITS else THIN
        told, look = f"{number(bar.value)}{space}{unit}", "strong"
    else:
        told, look = bar.note, "muted"
    most = WIDTH * 2 / 3 - _APART
    room = WIDTH - _APART - min(most, width(told, SIZE))
    middle = top + LEADING / 2
    return [text(0, middle, bar.name, room=room), text(WIDTH, middle, told, look, anchor="end", room=most)]


def _draw_bar(bar: Bar, x: Scale, middle: float, reference: float | None) -> list[str]:
    value = bar.value or 0.0
    colour = ORANGE if reference is not None and value < reference else BLUE
    shapes = [rectangle(0, middle - _THICK / 2, max(1.0, x.place(value)), _THICK, f"f{colour}")]
    if bar.low is not None and bar.high is not None and is_number(bar.low) and is_number(bar.high):
        low, high = x.place(bar.low), x.place(bar.high)
        # Twice, the wider one in the ground's colour, so that it stands out from the bar as well.
        for look, thick in (("edge", 4.5), ("ink", 1.5)):
            shapes.append(line(low, middle, high, middle, look, stroke_width=thick))
            shapes += [
                line(end, middle - 4, end, middle + 4, look, stroke_width=thick) for end in (low, high)
            ]
    return shapes


def _across(at: float, middle: float, look: str, **more: float | str) -> str:
    return line(at, middle - _THICK / 2, at, middle + _THICK / 2 + 3, look, **more)
