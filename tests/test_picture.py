"""The picture in the documentation is drawn from what was recorded, and stands by itself."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

from benchmarks.picture import Record, draw
from tests.scripts import REPOSITORY

_SVG = "{http://www.w3.org/2000/svg}"
_MB = 10**6
RECORD = Record(
    limit=1000 * _MB,
    full=6,
    used=[(0.0, 100 * _MB, 0), (5.0, 800 * _MB, 300 * _MB), (10.0, 500 * _MB, 0)],
    said=[(0.0, 32, 800 * _MB, 6), (5.0, 8, 400 * _MB, 3), (10.0, 32, 800 * _MB, 6)],
    takes=2.0,
    gives=7.0,
    whole=32,
)


def test_the_picture_has_a_dot_for_each_batch_and_a_scale_for_each_panel() -> None:
    picture = ET.fromstring(draw(RECORD))
    heights = [float(dot.attrib["cy"]) for dot in picture.iter(f"{_SVG}circle")]
    assert heights[0] == heights[2] < heights[1]
    words = [text.text for text in picture.iter(f"{_SVG}text")]
    for expected in ("limit 1,000 MB", "1,000", "100", "32", "0 s", "10 s", "a neighbour comes"):
        assert expected in words


def test_more_memory_in_use_is_a_larger_area() -> None:
    more = [(at, used + 100 * _MB, others) for at, used, others in RECORD.used]

    def highest(record: Record) -> float:
        area = next(ET.fromstring(draw(record)).iter(f"{_SVG}polygon"))
        return min(float(point.split(",")[1]) for point in area.attrib["points"].split())

    assert highest(dataclasses.replace(RECORD, used=more)) < highest(RECORD)


def test_the_documentations_picture_needs_nothing_else() -> None:
    text = (REPOSITORY / "docs" / "explanation" / "memory-run.svg").read_text(encoding="utf-8")
    ET.fromstring(text)
    assert "href" not in text
    assert "url(" not in text
