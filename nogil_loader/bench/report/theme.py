"""Colours that colour-blind readers can tell apart, for light and dark pages, and the style sheet of drawings.

The seven colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/, 2008). As lines on a light ground
some of them would be too faint, and are darker there. Nothing is told by a colour alone: lines have markers, parts
of bars have a fixed order and stand in a legend in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW = range(1, 8)
#: For what is no work: idle time, and what has no colour of its own.
GREY, STONE = 0, 8

FILLS = ("#c4cad0", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#5f6870")
#: Text that stands on a fill.
ON_FILLS = ("#14171a", "#ffffff", *("#14171a",) * 6, "#ffffff")


@dataclass(frozen=True)
class Theme:
    """Colours of a page.

    Attributes:
        page, card: Grounds.
        ink, muted: Text, and text of less weight.
        grid: Lines behind a drawing.
        accent: Of headings' marks and links.
        lines: Of lines and markers, in the order of ``FILLS``.
    """

    page: str
    card: str
    ink: str
    muted: str
    grid: str
    accent: str
    lines: tuple[str, ...]


LIGHT = Theme(
    page="#f4f5f7",
    card="#ffffff",
    ink="#1a1e23",
    muted="#565e67",
    grid="#dfe3e7",
    accent="#00639c",
    lines=("#79828b", "#0072b2", "#c48200", "#008a64", "#b45c8c", "#2b8fc9", "#b04600", "#8f8500", "#4f575f"),
)
DARK = Theme(
    page="#111418",
    card="#1a1e23",
    ink="#e9ecef",
    muted="#a3acb5",
    grid="#343a41",
    accent="#6cbcf0",
    lines=("#8b949d", "#3394d6", "#e69f00", "#1fb98c", "#d991b7", "#7cc6f2", "#f07a2c", "#f0e442", "#d3d9df"),
)


def drawing_style() -> str:
    """Return the style sheet that every drawing needs, once a page."""
    rules = [
        "svg text{font-family:system-ui,sans-serif;font-size:13px;fill:currentColor}",
        "svg .strong{font-weight:600}",
        *_themed(LIGHT),
        *(f".f{at}{{fill:{fill}}}.on{at}{{fill:{ON_FILLS[at]}}}" for at, fill in enumerate(FILLS)),
        # On paper the page is light, whatever the screen is.
        f"@media screen and (prefers-color-scheme:dark){{{''.join(_themed(DARK))}}}",
    ]
    return "\n".join(rules)


def _themed(theme: Theme) -> Iterator[str]:
    yield f"svg{{color:{theme.ink}}}"
    for name, colour in (("ground", theme.card), ("muted", theme.muted)):
        yield f"svg .{name}{{fill:{colour}}}"
    for name, colour in (
        ("grid", theme.grid),
        ("axis", theme.muted),
        ("ink", theme.ink),
        ("edge", theme.card),
    ):
        yield f"svg .{name}{{stroke:{colour}}}"
    for at, colour in enumerate(theme.lines):
        yield f".l{at}{{stroke:{colour}}}.m{at}{{fill:{colour}}}"
