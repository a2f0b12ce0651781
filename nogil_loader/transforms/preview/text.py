"""Text that is broken into lines of a given width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

    Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

Colour: TypeAlias = tuple[int, int, int]
INK: Colour = (32, 33, 36)
GREY: Colour = (105, 108, 114)

#: A space at which lines are not broken.
UNBROKEN = "\N{NO-BREAK SPACE}"

# As wide as the font's own, spaces of small letters are hard to see.
_SPACE = 1.3
# Continued lines begin a little further right, so that one sees where the next item begins.
_INDENT = 10


def load_font(size: int) -> Font:
    """Return the font that comes with Pillow, which has the letters of Western languages."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


@dataclass(frozen=True)
class Text:
    """Items one under the other, each a name and what belongs to it, laid out in a column.

    Attributes:
        font: For all of it.
        height: Of one line, in pixels.
        lines: For each line its words: left edge, the word, its colour.
    """

    font: Font
    height: int
    lines: tuple[tuple[tuple[float, str, Colour], ...], ...]

    @classmethod
    def of(cls, items: Sequence[tuple[str, str]], size: int, width: int, most: int) -> Text:
        """Lay text out.

        Args:
            items: Names, and what belongs to them; either may be empty.
            size: Of the font, in pixels.
            width: Of the column, in pixels.
            most: Lines; what does not fit is left out, which an ellipsis shows.
        """
        font = load_font(size)
        lines = [line for item in items for line in _break(item, font, width)]
        if len(lines) > most:
            lines = [*lines[: most - 1], [(0.0, "…", GREY)]]
        return cls(font, round(size * 1.35), tuple(map(tuple, lines)))

    @property
    def total_height(self) -> int:
        """Of all lines, in pixels."""
        return self.height * len(self.lines)

    def draw(self, canvas: ImageDraw.ImageDraw, left: int, top: int) -> None:
        """Put the text on a picture."""
        for number, line in enumerate(self.lines):
            for offset, word, colour in line:
                canvas.text((left + offset, top + number * self.height), word, colour, self.font)


def _break(item: tuple[str, str], font: Font, width: int) -> Iterator[list[tuple[float, str, Colour]]]:
    name, rest = item
    words = [
        (word, colour) for text, colour in ((name, INK), (rest, GREY)) for word in text.split(" ") if word
    ]
    space = _SPACE * font.getlength(" ")
    line: list[tuple[float, str, Colour]] = []
    left = 0.0
    for word, colour in words:
        for piece in _cut(word.replace(UNBROKEN, " "), font, width - _INDENT):
            length = font.getlength(piece)
            if line and left + length > width:
                yield line
                line, left = [], float(_INDENT)
            line.append((left, piece, colour))
            left += length + space
    yield line


def _cut(word: str, font: Font, width: float) -> Iterator[str]:
    """Cut a word that is wider than a line into pieces that are not."""
    while font.getlength(word) > width and len(word) > 1:
        fitting = next(n for n in range(len(word) - 1, 0, -1) if n == 1 or font.getlength(word[:n]) <= width)
        yield word[:fitting]
        word = word[fitting:]
    yield word
