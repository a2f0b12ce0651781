"""Text from users and of labels: cleaned, escaped, cut to a length or to a width."""

from __future__ import annotations

import html
import re
import unicodedata

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
# What no XML may hold (control characters, lone surrogates, two non-characters), and what turns the reading
# direction of the text around it. A name could hide its end, or a neighbour's, behind the latter.
_UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_BREAKS = {ord(space): " " for space in "\n\r\t\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"}
# Widths in units of the font's size as DejaVu Sans has them, one of the widest fonts that a browser may choose
# for "system-ui": a label that is thought to fit does fit.
_NARROW, _WIDE = (
    frozenset("iljtfrI.,:;'|!()[]{}/\\ \N{NARROW NO-BREAK SPACE}"),
    frozenset("mwMWGOQ@%\N{EM DASH}"),
)
_WIDTHS = (0.40, 1.0, 0.65)


def clean(text: str) -> str:
    """Return the text on one line and of the same length, with a mark for each character that no page can show."""
    return _UNWANTED.sub("\N{REPLACEMENT CHARACTER}", text).translate(_BREAKS)


def clip(text: str, most: int) -> str:
    """Return at most ``most`` characters of the cleaned text: its beginning and its end, which both tell."""
    # Cut before it is cleaned, since a message may be a whole array.
    return clean(text if len(text) <= most else _ends(text, most))


def escape(text: str) -> str:
    """Return the cleaned text as it stands in HTML or SVG, in attributes too."""
    return html.escape(clean(text), quote=True)


def width(text: str, size: float) -> float:
    """Return how wide a text is at most, in the units of the font's size."""
    return size * sum(map(_width, text))


def fit(text: str, size: float, room: float) -> str:
    """Return a cleaned text that is at most ``room`` wide, with its middle left out if it must be."""
    narrowest = min(_WIDTHS)
    text = clip(text, 1 + int(room / (narrowest * size)))
    for most in range(len(text), 0, -1):
        shown = text if most == len(text) else _ends(text, most)
        if width(shown, size) <= room:
            return shown
    return ""


def _ends(text: str, most: int) -> str:
    tail = (most - 1) // 3
    return text[: most - 1 - tail] + _ELLIPSIS + (text[-tail:] if tail else "")


def _width(character: str) -> float:
    narrow, wide, other = _WIDTHS
    if character in _NARROW:
        return narrow
    if character in _WIDE or unicodedata.east_asian_width(character) in "WF":
        return wide
    return other if not unicodedata.combining(character) else 0.0
