"""The charts by themselves: what is more is drawn as more, and whatever the numbers are, it is a drawing."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.report import Bar, bar_chart
from nogil_loader.bench.report.areas import Course, Level, draw_courses
from nogil_loader.bench.report.axes import Axis
from nogil_loader.bench.report.bars import draw_bars
from nogil_loader.bench.report.lines import Guide, Point, Series, draw_lines
from nogil_loader.bench.report.scale import choose_top
from nogil_loader.bench.report.stack import Part, Row, draw_stack
from nogil_loader.bench.report.svg import WIDTH, Drawing
from tests.bench.report.drawings import by_class, numbers, parse, texts

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
RATES = st.floats(0, 1e15)
NAMES = st.text(st.characters(codec=None), max_size=80)
SVG = "{http://www.w3.org/2000/svg}"


def assert_is_sound(drawing: Drawing) -> None:
    """It can be parsed, all numbers are finite, and all of it is inside."""
    root = parse(drawing)
    assert all(math.isfinite(each) for each in numbers(root))
    for rectangle in root.findall("rect"):
        x, y, wide, high = (float(rectangle.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= WIDTH + 0.2
        assert 0 <= y <= y + high <= drawing.height
    for words in root.findall("text"):
        assert 0 <= float(words.attrib["y"]) <= drawing.height


def some_lines(*series: Series, guide: Guide | None = None, ringed: tuple[int, int] | None = None) -> Drawing:
    points = [point for each in series for point in each.points]
    return draw_lines(
        series,
        Axis("workers", choose_top(point.x for point in points)),
        Axis("samples/s", choose_top(point.high for point in points)),
        label="lines",
        guide=guide,
        ringed=ringed,
        ring="recommended",
    )


def points_at(*values: tuple[float, float, float, float]) -> tuple[Point, ...]:
    return tuple(Point(x, y, low, high, f"{x} workers") for x, y, low, high in values)


def test_lines_rise_with_their_values_and_bars_reach_from_low_to_high() -> None:
    root = parse(some_lines(Series("prefetch 2", points_at((1, 10, 9, 12), (2, 18, 17, 18)), 1)))
    first, second = (
        [float(each) for each in group.attrib["transform"].removeprefix("translate(")[:-1].split()]
        for group in root.findall("g/g")
    )
    assert first[0] < second[0]
    assert first[1] > second[1], "down is up"
    whisker = next(each for each in root.findall("g/line") if each.attrib["x1"] == each.attrib["x2"])
    assert float(whisker.attrib["y2"]) < first[1] < float(whisker.attrib["y1"])


def test_the_guide_ends_where_the_chart_does() -> None:
    series = Series("prefetch 2", points_at((1, 10, 9, 12), (8, 20, 17, 21)), 1)
    root = parse(some_lines(series, guide=Guide("ideal", 10)))
    guide = by_class(root, "line", "l0")[-1]
    plot = [float(each.attrib["y1"]) for each in by_class(root, "line", "grid")]
    assert min(plot) >= float(guide.attrib["y2"]) > 0
    assert float(guide.attrib["x2"]) < WIDTH / 2, "20 is reached at 2 of 8"


def test_another_kind_of_line_is_dashed_and_the_ring_is_explained() -> None:
    ours = Series("ours", points_at((1, 10, 9, 12), (2, 18, 17, 18)), 1)
    theirs = Series("theirs", points_at((1, 5, 5, 5), (2, 6, 6, 6)), 2, hollow=True)
    root = parse(some_lines(ours, theirs, ringed=(0, 1)))
    assert [line.attrib.get("stroke-dasharray") for line in by_class(root, "path", "l1")] == [None, None]
    dashes = [line.attrib.get("stroke-dasharray") for line in by_class(root, "path", "l2")]
    assert dashes.count("6 4") == 2, "in the legend and in the chart"
    assert texts(root)[:3] == ["ours", "theirs", "recommended"]
    assert len(root.findall(".//circle")) == 2


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 512), RATES, ANY_FLOAT, ANY_FLOAT), min_size=1, max_size=6),
        min_size=1,
        max_size=7,
    ),
    NAMES,
    st.floats(1e-3, 1e9),
)
def test_any_lines_are_a_drawing(
    lines: list[list[tuple[int, float, float, float]]], name: str, slope: float
) -> None:
    series = [Series(name, points_at(*sorted(each)), at + 1, hollow=at > 3) for at, each in enumerate(lines)]
    assert_is_sound(some_lines(*series, guide=Guide(name, slope)))


def test_areas_go_down_to_zero_and_counts_go_in_steps() -> None:
    course = Course("ready", ((0.0, 2.0), (1.0, 5.0), (4.0, 1.0)), 3, filled=True)
    chart = draw_courses(
        [course], Level("capacity 6", 6), Axis("seconds", 4), Axis("batches", 7), label="x", stepped=True
    )
    area, outline = by_class(parse(chart), "path", "f3")[0], by_class(parse(chart), "path", "l3")[0]
    assert area.attrib["d"].endswith("z")
    assert outline.attrib["d"].count("H") == outline.attrib["d"].count("V") == 2
    level = by_class(parse(chart), "line", "l6")[-1]
    assert level.attrib["y1"] == level.attrib["y2"]


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e15)), min_size=1, max_size=50),
    NAMES,
    st.floats(0, 1e15),
    st.booleans(),
)
def test_any_course_is_a_drawing(
    points: list[tuple[float, float]], name: str, limit: float, stepped: bool
) -> None:
    points.sort()
    top = choose_top([limit, *(value for _, value in points)])
    course = Course(name, tuple(points), 1, filled=stepped)
    across = Axis("seconds", choose_top((at for at, _ in points), headroom=1.0))
    assert_is_sound(
        draw_courses(
            [course], Level(name, limit), across, Axis("bytes", top, "B"), label=name, stepped=stepped
        )
    )


def test_parts_of_a_row_lie_side_by_side_in_their_shares() -> None:
    parts = [Part("fetch", 1), Part("idle", 0)]
    root = parse(
        draw_stack([Row("8", (0.75, 0.25)), Row("9", (0.0, 1.0))], parts, names="workers", label="x")
    )
    fetch, idle = by_class(root, "rect", "f1")[1:], by_class(root, "rect", "f0")[1:]
    assert len(fetch) == 1, "nothing is drawn of nothing"
    wide = [float(each.attrib["width"]) for each in (fetch[0], idle[0])]
    assert wide[0] == pytest.approx(3 * wide[1], abs=0.3)
    assert float(idle[0].attrib["x"]) == pytest.approx(float(fetch[0].attrib["x"]) + wide[0], abs=0.2)
    assert "75\N{NARROW NO-BREAK SPACE}%" in texts(root)


@given(
    st.lists(
        st.tuples(
            NAMES, st.tuples(*[st.floats(0, 2)] * 3), st.none() | st.floats(0, 1), st.none() | st.floats(0, 2)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_rows_are_a_drawing(
    rows: list[tuple[str, tuple[float, float, float], float | None, float | None]],
) -> None:
    parts = [Part("a" * 90, 1), Part("b", 2), Part("c", 8)]
    made = [Row(name, shares, spread=spread, below=below) for name, shares, spread, below in rows]
    assert_is_sound(draw_stack(made, parts, Part("waiting", 4), names="rows", label="stack"))


def test_bars_are_as_long_as_their_values_and_tell_who_is_behind() -> None:
    bars = [Bar("torch", 4.0, 3.5, 4.5), Bar("spdl", 0.5), Bar("grain", None, note="not installed")]
    root = parse(draw_bars(bars, label="x", unit="\N{MULTIPLICATION SIGN}", reference=1.0))
    ahead, behind = by_class(root, "rect", "f1"), by_class(root, "rect", "f2")
    assert len(ahead) == len(behind) == 1
    assert float(ahead[0].attrib["width"]) == pytest.approx(8 * float(behind[0].attrib["width"]), rel=0.01)
    written = texts(root)
    assert "4.00\N{MULTIPLICATION SIGN}" in written
    assert "not installed" in written


@given(
    st.lists(st.builds(Bar, NAMES, st.none() | ANY_FLOAT, ANY_FLOAT, ANY_FLOAT, NAMES, NAMES), max_size=20)
)
def test_any_bars_are_a_drawing(bars: list[Bar]) -> None:
    assert_is_sound(draw_bars(bars, label="bars", unit="samples/s", reference=1.0, reference_name="equal"))


def test_a_bar_chart_for_another_page_stands_by_itself_and_is_always_the_same() -> None:
    bars = [
        Bar("torch DataLoader", 12.1, 11.0, 13.9, group="Hand-off"),
        Bar("SPDL", 1.31, 1.2, 1.5, group="Hand-off"),
        Bar("torch DataLoader", 2.4, group="Collation"),
    ]
    made = bar_chart(bars, label='How many times as fast as "others" <each>')
    assert made == bar_chart(list(bars), label='How many times as fast as "others" <each>')
    root = ET.fromstring(made)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == 'How many times as fast as "others" <each>'
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
    for word in ("href", "url(", "http:", "https:", "<script"):
        assert word not in made.replace("http://www.w3.org/2000/svg", "")
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert [words.count(name) for name in ("Hand-off", "Collation", "torch DataLoader", "SPDL")] == [
        1,
        1,
        2,
        1,
    ]
    tops = [float(rect.attrib["y"]) for rect in root.iter(f"{SVG}rect") if rect.attrib["class"] == "f1"]
    assert all(upper < lower for upper, lower in pairwise(tops))


def test_a_bar_chart_needs_a_bar() -> None:
    with pytest.raises(ValueError, match="bars: expected at least one"):
        bar_chart([], label="nothing")
