"""Reads drawings as a browser would: as XML, with the places of shapes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from nogil_loader.bench.report.svg import Drawing


def parse(drawing: Drawing) -> ET.Element:
    """The root; the drawing as it stands in a page has no namespace, so tags are plain."""
    return ET.fromstring(drawing.inline())


def texts(root: ET.Element) -> list[str]:
    """All text that is drawn, in its order."""
    return [each.text or "" for each in root.iter("text")]


def by_class(root: ET.Element, tag: str, look: str) -> list[ET.Element]:
    """Elements with a class."""
    return [each for each in root.iter(tag) if look in each.attrib.get("class", "").split()]


def numbers(root: ET.Element) -> Iterator[float]:
    """All numbers of all places and lengths."""
    for each in root.iter():
        for name, value in each.attrib.items():
            if name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "d", "transform", "viewBox"):
                yield from (float(found) for found in re.findall(r"-?[\d.]+", value))
