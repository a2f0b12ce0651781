"""A chart of what something was over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.axes import Axis, Plot, lay_out
from nogil_loader.bench.report.svg import Drawing, Entry, element, legend, line, rectangle, show
from nogil_loader.bench.report.theme import VERMILLION


@dataclass(frozen=True)
class Course:
    """A value over time.

    Attributes:
        name: In the legend.
        points: Seconds and values, at least one, finite, in their order.
        colour: One of `theme`'s.
        filled: An area down to zero instead of a line.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    colour: int
    filled: bool = False


@dataclass(frozen=True)
class Level:
    """A value that is not to be exceeded."""

    name: str
    value: float


def draw_courses(
    courses: Sequence[Course], level: Level | None, across: Axis, up: Axis, *, label: str, stepped: bool
) -> Drawing:
    """Draw values over time.

    Args:
        courses: At least one.
        level: Drawn across.
        across: The horizontal axis, in seconds.
        up: The vertical axis.
        label: The text alternative.
        stepped: Whether a value holds until the next one, as a count does.
    """
    entries = [
        Entry(
            each.name,
            rectangle(-12, -6, 24, 12, f"f{each.colour}")
            if each.filled
            else _stroke("M-12 0H12", each.colour),
        )
        for each in courses
    ]
    if level is not None:
        entries.append(Entry(level.name, line(-12, 0, 12, 0, f"l{VERMILLION}", **_DASHES)))
    shapes, top = legend(entries, 0)
    plot = lay_out(across, up, top + 6)
    frame = list(plot.frame)
    for each in courses:
        path = _trace(each, plot, stepped)
        if each.filled:
            first, last = (show(plot.x.place(each.points[at][0])) for at in (0, -1))
            base = show(plot.y.start)
            frame.append(
                element(
                    "path", d=f"{path}L{last} {base}L{first} {base}z", class_=f"f{each.colour}", opacity=0.35
                )
            )
        frame.append(_stroke(path, each.colour))
    if level is not None:
        at = plot.y.place(level.value)
        frame.append(line(plot.x.start, at, plot.x.end, at, f"l{VERMILLION}", **_DASHES))
    return Drawing(plot.bottom, (*shapes, *frame), label)


_DASHES: dict[str, float | str] = {"stroke_width": 2, "stroke_dasharray": "8 4"}


def _stroke(path: str, colour: int) -> str:
    return element(
        "path", d=path, fill="none", class_=f"l{colour}", stroke_width=1.5, stroke_linejoin="round"
    )


def _trace(course: Course, plot: Plot, stepped: bool) -> str:
    places = [(show(plot.x.place(at)), show(plot.y.place(value))) for at, value in course.points]
    (x, y), *others = places
    path = [f"M{x} {y}"]
    for x, y in others:
        path.append(f"H{x}V{y}" if stepped else f"L{x} {y}")
    # A single reading is a point; it is drawn as a short line.
    return "".join(path) + ("h4" if not others else "")
