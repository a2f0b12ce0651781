"""Bars that tqdm draws, by the consumer's own thread between two batches."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, TextIO

from nogil_loader.observe.progress.reading import Eye
from nogil_loader.observe.progress.stream import Forgiving
from nogil_loader.observe.progress.surroundings import in_notebook, is_installed


class TqdmBar:
    """One bar.

    Args:
        eye: Reads the epoch.
        description: What stands to the left.
        file: Where it is drawn; None for stderr, or a notebook.
        leave: As in tqdm.
    """

    period = 0.1  # tqdm's own mininterval

    def __init__(self, eye: Eye, description: str, *, file: TextIO | None, leave: bool | None) -> None:
        reading = eye.read()
        kind, is_widget = _kind(file)
        self._eye = eye
        self._bar = kind(
            desc=description,
            total=reading.total,
            initial=reading.done,
            # tqdm keeps its lock when a stream raises, and every other bar would wait for it.
            file=file if is_widget else Forgiving(sys.stderr if file is None else file),
            leave=True if is_widget and leave is None else leave,  # a widget takes None for no
            unit=" samples",
            dynamic_ncols=True,
            miniters=1,
            mininterval=0,
        )

    def look(self) -> None:
        """Draw."""
        self._show(self._eye.read())

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Draw once more and end."""
        self._show(self._eye.last(how))
        with contextlib.suppress(OSError, ValueError):
            self._bar.close()

    def _show(self, reading: Any) -> None:
        self._bar.total = reading.total
        self._bar.set_postfix_str(reading.remarks, refresh=False)
        # A terminal or a stream that was closed costs the bar, nothing else.
        with contextlib.suppress(OSError, ValueError):
            self._bar.update(reading.done - self._bar.n)


def _kind(file: TextIO | None) -> tuple[Any, bool]:
    """Return tqdm's class, and whether it is a notebook's widget."""
    if file is None and in_notebook() and is_installed("ipywidgets"):
        from tqdm.notebook import tqdm as widget

        return widget, True
    from tqdm import tqdm

    return tqdm, False
