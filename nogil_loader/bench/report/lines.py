"""A chart of lines with markers, and bars from the lowest to the highest measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nogil_loader.bench.report.axes import Axis, Plot, lay_out
from nogil_loader.bench.report.svg import Drawing, Entry, element, legend, line, show, tip

# Shapes of 9 by 9 around 0, 0, one for each colour and a few more lines.
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # circle
    "M-3.6-3.6h7.2v7.2h-7.2z",  # square
    "M0-5L4.6 3.6h-9.2z",  # triangle
    "M0-5.2L4.6 0 0 5.2-4.6 0z",  # diamond
    "M0 5L4.6-3.6h-9.2z",  # triangle upside down
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",  # cross
)
# By how much lines are drawn beside each other, so that the bars at one value do not hide each other: at most this
# for each line, and all of them within this share of the distance to the next value.
_BESIDE, _WITHIN = 5.0, 0.6


@dataclass(frozen=True)
class Point:
    """A measurement: its place, its lowest and highest repetition, and what a pointer shows over it."""

    x: float
    y: float
    low: float
    high: float
    title: str


@dataclass(frozen=True)
class Series:
    """A line.

    Attributes:
        name: In the legend.
        points: From left to right.
        colour: One of `theme`'s.
        hollow: Dashed, with markers that are not filled: another kind of thing than the others.
    """

    name: str
    points: tuple[Point, ...]
    colour: int
    hollow: bool = False


@dataclass(frozen=True)
class Guide:
    """A straight line from zero, to compare with: ``slope`` more for each step to the right."""

    name: str
    slope: float


def draw_lines(
    series: Sequence[Series],
    across: Axis,
    up: Axis,
    *,
    label: str,
    guide: Guide | None = None,
    ringed: tuple[int, int] | None = None,
    ring: str = "",
) -> Drawing:
    """Draw lines.

    Args:
        series: At least one, with finite points.
        across: The horizontal axis.
        up: The vertical axis.
        label: The text alternative.
        guide: A line behind the others; it ends at the top of the chart.
        ringed: The series and the point in it that has a ring around it.
        ring: What the ring means.
    """
    marks = [_marker(at, each) for at, each in enumerate(series)]
    entries = [
        Entry(each.name, _stroke(each, "M-12 0H12") + mark) for each, mark in zip(series, marks, strict=True)
    ]
    if ringed is not None:
        entries.append(Entry(ring, _RING))
    if guide is not None:
        entries.append(Entry(guide.name, line(-12, 0, 12, 0, "l0", **_DOTS)))
    shapes, top = legend(entries, 0)
    plot = lay_out(across, up, top + 6)
    shapes += plot.frame
    if guide is not None:
        shapes.append(_draw_guide(guide, plot))
    for at, (each, mark) in enumerate(zip(series, marks, strict=True)):
        shift = _shift(at, series, plot)
        places = [(plot.x.place(point.x) + shift, plot.y.place(point.y)) for point in each.points]
        if len(places) > 1:
            shapes.append(_stroke(each, "M" + "L".join(f"{show(x)} {show(y)}" for x, y in places)))
        for number, (point, (x, y)) in enumerate(zip(each.points, places, strict=True)):
            parts = [tip(point.title), *_spread(point, x, plot, each.colour)]
            parts.append(element("g", mark, transform=f"translate({show(x)} {show(y)})"))
            if ringed == (at, number):
                parts.append(element("g", _RING, transform=f"translate({show(x)} {show(y)})"))
            shapes.append(element("g", "".join(parts)))
    return Drawing(plot.bottom, tuple(shapes), label)


_DOTS: dict[str, float | str] = {"stroke_width": 2, "stroke_dasharray": "2 4", "stroke_linecap": "round"}
_RING = element("circle", cx=0, cy=0, r=8, fill="none", class_="axis", stroke_width=2)


def _marker(at: int, series: Series) -> str:
    shape = _MARKERS[at % len(_MARKERS)]
    if series.hollow:
        return element("path", d=shape, class_=f"ground l{series.colour}", stroke_width=2)
    return element("path", d=shape, class_=f"m{series.colour}")


def _stroke(series: Series, path: str) -> str:
    dashes: dict[str, float | str] = {"stroke_dasharray": "6 4"} if series.hollow else {}
    return element("path", d=path, fill="none", class_=f"l{series.colour}", stroke_width=2, **dashes)


def _spread(point: Point, x: float, plot: Plot, colour: int) -> list[str]:
    low, high = plot.y.place(point.low), plot.y.place(point.high)
    look = f"l{colour}"
    return [
        line(x, low, x, high, look, stroke_width=1.5),
        line(x - 3, low, x + 3, low, look, stroke_width=1.5),
        line(x - 3, high, x + 3, high, look, stroke_width=1.5),
    ]


def _draw_guide(guide: Guide, plot: Plot) -> str:
    x = min(plot.x.top, plot.y.top / guide.slope)
    return line(plot.x.start, plot.y.start, plot.x.place(x), plot.y.place(guide.slope * x), "l0", **_DOTS)


def _shift(at: int, series: Sequence[Series], plot: Plot) -> float:
    places = sorted({plot.x.place(point.x) for each in series for point in each.points})
    nearest = min((right - left for left, right in pairwise(places)), default=40.0)
    step = min(_BESIDE, _WITHIN * nearest / len(series))
    return step * (at - (len(series) - 1) / 2)
