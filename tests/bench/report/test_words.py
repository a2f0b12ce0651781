from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.report.words import clean, clip, escape, fit, width

# Surrogates and control characters too, as they come out of undecodable file names.
TEXT = st.text(st.characters(codec=None), max_size=60)


@given(TEXT)
def test_escaped_text_comes_back_from_a_parser_as_the_cleaned_text(text: str) -> None:
    parsed = ET.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>'.encode())
    assert (parsed.text or "") == clean(text) == parsed.attrib["b"]


def test_what_turns_the_reading_direction_and_what_is_invisible_is_marked() -> None:
    assert clean("a\u202eb\x00c\ud800\nd\te") == "a\ufffdb\ufffdc\ufffd d e"


@given(TEXT, st.integers(2, 40))
def test_clipped_text_is_short_and_keeps_both_ends(text: str, most: int) -> None:
    clipped = clip(text, most)
    assert len(clipped) == min(len(text), most)
    if len(text) > most:
        assert "\N{HORIZONTAL ELLIPSIS}" in clipped
        assert clipped[0] == clean(text)[0]


def test_a_message_of_many_megabytes_is_clipped_before_it_is_looked_at() -> None:
    assert clip("x" * 50_000_000 + "end", 10) == "xxxxxx\N{HORIZONTAL ELLIPSIS}end"


@given(TEXT, st.floats(0, 400))
def test_a_fitted_text_fits(text: str, room: float) -> None:
    assert width(fit(text, 13, room), 13) <= room


@pytest.mark.parametrize(
    ("text", "room", "fitted"),
    [
        ("prefetch 2", 360, "prefetch 2"),
        ("abcdefghij" * 3, 60, "abcd\N{HORIZONTAL ELLIPSIS}ij"),
        ("m", 5, ""),
    ],
)
def test_a_text_that_fits_is_left_as_it_is(text: str, room: float, fitted: str) -> None:
    assert fit(text, 13, room) == fitted
