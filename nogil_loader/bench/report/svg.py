"""Shapes as SVG text. The same arguments always give the same text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nogil_loader.bench.report.theme import drawing_style
from nogil_loader.bench.report.words import escape, fit, width

#: Of every drawing. A phone held upright is 320 to 430 pixels wide, so that one unit is about one pixel there.
WIDTH = 360
#: Of all text, in the same unit.
SIZE = 13
#: From one line of text to the next.
LEADING = 18
# Around a drawing that is a file of its own, and the width that it has on a page which gives it none.
_PADDING, _FILE_WIDTH = 12, 480


@dataclass(frozen=True)
class Drawing:
    """A picture that scales to the width it is given.

    Attributes:
        height: While the width is ``WIDTH``.
        shapes: SVG elements.
        label: What is to be seen, for those who cannot see it.
    """

    height: float
    shapes: tuple[str, ...]
    label: str

    def inline(self) -> str:
        """Return it as an element of a page that has ``drawing_style()``."""
        return self._wrap("", "\n".join(self.shapes), 0)

    def standalone(self) -> str:
        """Return it as the text of an SVG file, with its own ground and colours for light and dark screens."""
        pad = _PADDING
        ground = element(
            "rect", x=-pad, y=-pad, width=WIDTH + 2 * pad, height=self.height + 2 * pad, rx=6, class_="ground"
        )
        inside = "\n".join((f"<style>{drawing_style()}</style>", ground, *self.shapes))
        return self._wrap(f'xmlns="http://www.w3.org/2000/svg" width="{_FILE_WIDTH}" ', inside, pad) + "\n"

    def _wrap(self, more: str, inside: str, pad: float) -> str:
        box = " ".join(map(show, (-pad, -pad, WIDTH + 2 * pad, self.height + 2 * pad)))
        return f'<svg {more}viewBox="{box}" role="img" aria-label="{escape(self.label)}">\n{inside}\n</svg>'


def show(value: float) -> str:
    """Return a place or a length with one decimal at most."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, inside: str = "", /, **attributes: float | str) -> str:
    """Return an element; ``class_`` and ``stroke_width`` stand for ``class`` and ``stroke-width``."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else show(value)}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{named}>{inside}</{tag}>" if inside else f"<{tag}{named}/>"


def tip(text: str) -> str:
    """Return what a pointer shows over the element that this stands in."""
    return f"<title>{escape(text)}</title>"


def text(
    x: float, y: float, words: str, class_: str = "", *, anchor: str = "start", room: float = WIDTH
) -> str:
    """Return one line of text that is no wider than ``room``; ``y`` is the middle of its height."""
    more: dict[str, str] = {"class_": class_} if class_ else {}
    if anchor != "start":
        more["text_anchor"] = anchor
    # A third of the size below the middle is where most fonts have their base line.
    return element("text", escape(fit(words, SIZE, room)), x=x, y=y + 0.35 * SIZE, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, **more: float | str) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **more)


def rectangle(x: float, y: float, wide: float, high: float, class_: str, title: str = "") -> str:
    """Return a filled rectangle."""
    inside = tip(title) if title else ""
    return element("rect", inside, x=x, y=y, width=wide, height=high, class_=class_)


@dataclass(frozen=True)
class Entry:
    """What a legend explains.

    Attributes:
        name: Its text.
        sample: How it looks, drawn in a box of 24 by 12 whose middle is at 0, 0.
    """

    name: str
    sample: str


def legend(entries: Iterable[Entry], top: float) -> tuple[list[str], float]:
    """Return a legend in as many lines as it needs, and where it ends."""
    shapes: list[str] = []
    x, y = 0.0, top + LEADING / 2
    for entry in entries:
        name = fit(entry.name, SIZE, WIDTH - 30)
        wide = 30 + width(name, SIZE)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + LEADING
        shapes.append(element("g", entry.sample, transform=f"translate({show(x + 12)} {show(y)})"))
        shapes.append(text(x + 30, y, name))
        x += wide + 14
    return shapes, (y + LEADING / 2 if shapes else top)
