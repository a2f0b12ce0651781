from __future__ import annotations

import itertools

import pytest

from nogil_loader.bench.report.theme import BLUE, DARK, FILLS, LIGHT, ON_FILLS, STONE, YELLOW, Theme

# Web Content Accessibility Guidelines 2.2, 1.4.3 and 1.4.11.
TEXT, GRAPHICS = 4.5, 3.0


def channels(colour: str) -> list[float]:
    """Linear red, green and blue."""
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in values]


def contrast(one: str, other: str) -> float:
    low, high = sorted(
        sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), channels(colour), strict=True))
        for colour in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_measured_as_the_guidelines_say() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(theme: Theme) -> None:
    for ground in (theme.page, theme.card):
        for colour in (theme.ink, theme.muted, theme.accent):
            assert contrast(colour, ground) >= TEXT, (colour, ground)


def test_text_on_bars_can_be_read() -> None:
    for fill, text in zip(FILLS, ON_FILLS, strict=True):
        assert contrast(fill, text) >= TEXT, (fill, text)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_can_be_seen(theme: Theme) -> None:
    assert len(theme.lines) == len(FILLS)
    for colour in theme.lines:
        assert contrast(colour, theme.card) >= GRAPHICS, colour


# Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision deficiency, IEEE
# Transactions on Visualization and Computer Graphics 15 (2009), full deficiency; for linear channels.
DEFICIENCIES = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def lab(colour: str, deficiency: str) -> tuple[float, float, float]:
    linear = channels(colour)
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True))))
        for row in DEFICIENCIES[deficiency]
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def drawn(theme: Theme) -> tuple[str, ...]:
    """What lines are drawn in: grey is for dotted ones only, and none is yellow."""
    return (*theme.lines[BLUE:YELLOW], theme.lines[STONE])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("colours", [FILLS, drawn(LIGHT), drawn(DARK)], ids=["fills", "light", "dark"])
def test_the_colour_blind_can_tell_the_colours_apart(colours: tuple[str, ...], deficiency: str) -> None:
    for one, other in itertools.combinations(colours, 2):
        distance = sum(
            (a - b) ** 2 for a, b in zip(lab(one, deficiency), lab(other, deficiency), strict=True)
        )
        # Two areas side by side are told apart from about 2 on; 8 leaves room for a poor screen.
        assert distance**0.5 >= 8, (one, other)
