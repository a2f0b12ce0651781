"""Draws pictures in rows and columns, with text around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nogil_loader.transforms.preview.curves import draw_curves
from nogil_loader.transforms.preview.display import Curves, Picture
from nogil_loader.transforms.preview.text import Colour, Text

if TYPE_CHECKING:
    from PIL.Image import Image

# In pixels. Captions of 12 can be read at normal size, and some 35 letters of them fit under a picture.
_CELL = 208
_CURVE_HEIGHT = 130
_GAP = 14
_MARGIN = 24
_TITLE, _HEADER, _CAPTION = 16, 13, 12
# What is longer is cut off, so that one sample does not take a page.
_TITLE_LINES, _CAPTION_LINES = 8, 16
_PAPER: Colour = (255, 255, 255)
_RULE: Colour = (225, 226, 229)


@dataclass(frozen=True)
class Cell:
    """A picture or curves with text under it: items of a name and what belongs to it."""

    shown: Picture | Curves
    caption: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Sheet:
    """Pictures in rows and columns.

    Attributes:
        title: At the top.
        subtitle: Under it, smaller.
        columns: What stands over each column.
        rows: As many cells in each as there are columns.
    """

    title: str
    subtitle: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def draw(self) -> Image:
        """Return the sheet as a picture."""
        from PIL import Image, ImageDraw

        width = len(self.columns) * (_CELL + _GAP) - _GAP
        title = Text.of([(self.title, "")], _TITLE, width, _TITLE_LINES)
        subtitle = Text.of([("", self.subtitle)], _CAPTION, width, _TITLE_LINES)
        headers = [Text.of([(each, "")], _HEADER, _CELL, 1) for each in self.columns]
        rows = [_LaidOut.of(row) for row in self.rows]

        head = _MARGIN + title.total_height + 4 + subtitle.total_height + _GAP
        body = head + headers[0].total_height + 6
        height = body + sum(row.height for row in rows) + _MARGIN - _GAP
        image = Image.new("RGB", (2 * _MARGIN + width, height), _PAPER)
        canvas = ImageDraw.Draw(image)
        title.draw(canvas, _MARGIN, _MARGIN)
        subtitle.draw(canvas, _MARGIN, _MARGIN + title.total_height + 4)
        for column, text in enumerate(headers):
            text.draw(canvas, _left(column), head)
        top = body
        for number, row in enumerate(rows):
            if number:
                canvas.line((_MARGIN, top - _GAP // 2, _MARGIN + width, top - _GAP // 2), _RULE)
            for column, (picture, caption) in enumerate(zip(row.pictures, row.captions, strict=True)):
                left = _left(column)
                image.paste(picture, (left, top))
                canvas.rectangle(
                    (left, top, left + picture.width - 1, top + picture.height - 1), outline=_RULE
                )
                caption.draw(canvas, left, top + row.picture_height + 4)
            top += row.height
        return image


@dataclass(frozen=True)
class _LaidOut:
    """A row of a sheet, drawn but not put anywhere yet."""

    pictures: list[Image]
    captions: list[Text]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> _LaidOut:
        captions = [Text.of(_caption(cell), _CAPTION, _CELL, _CAPTION_LINES) for cell in cells]
        return cls([_draw(cell.shown) for cell in cells], captions)

    @property
    def picture_height(self) -> int:
        return max(picture.height for picture in self.pictures)

    @property
    def height(self) -> int:
        return self.picture_height + 4 + max(text.total_height for text in self.captions) + 2 * _GAP


def _left(column: int) -> int:
    return _MARGIN + column * (_CELL + _GAP)


def _caption(cell: Cell) -> list[tuple[str, str]]:
    shown = cell.shown
    span = [f"axis from {shown.span[0]:.3g} to {shown.span[1]:.3g}"] if isinstance(shown, Curves) else []
    return [*cell.caption, *(("", note) for note in (*span, *shown.notes))]


def _draw(shown: Picture | Curves) -> Image:
    """Return a picture as wide or as high as a cell."""
    from PIL import Image

    if isinstance(shown, Curves):
        return draw_curves(shown.values, shown.span, _CELL, _CURVE_HEIGHT)
    image = Image.fromarray(shown.pixels)
    factor = _CELL / max(image.size)
    if factor >= 2:  # few pixels: they shall be seen
        size = image.width * int(factor), image.height * int(factor)
        return image.resize(size, Image.Resampling.NEAREST)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    return image.resize(size, Image.Resampling.BICUBIC)
