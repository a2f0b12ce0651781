"""Bars in a notebook: an HTML element that is replaced, for which nothing has to be installed."""

from __future__ import annotations

import html
from typing import Any

from nogil_loader.observe.progress.reading import Eye, Reading


class NotebookBar:
    """One bar, drawn by the consumer's own thread, so that it stands below the cell that runs.

    Args:
        eye: Reads the epoch.
        description: What stands to the left.
        leave: Whether the bar stays when it has ended.
    """

    period = 0.25  # each drawing is a message to the browser

    def __init__(self, eye: Eye, description: str, *, leave: bool | None) -> None:
        from IPython.display import display

        self._eye = eye
        self._description = description
        self._stays = leave is not False
        show: Any = display
        self._handle = show(self._bundle(eye.read()), raw=True, display_id=True)

    def look(self) -> None:
        """Draw."""
        self._handle.update(self._bundle(self._eye.read()), raw=True)

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Draw once more, or remove what was drawn."""
        reading = self._eye.last(how)
        self._handle.update(
            self._bundle(reading) if self._stays else {"text/plain": "", "text/html": ""}, raw=True
        )

    def _bundle(self, reading: Reading) -> dict[str, str]:
        filled = "" if reading.total is None else f' value="{reading.done}" max="{max(1, reading.total)}"'
        name, text = self._description, f"{reading.figures}  {reading.remarks}"
        return {
            "text/plain": f"{name}  {text}",
            "text/html": f"<div>{html.escape(name)} <progress{filled}></progress> {html.escape(text)}</div>",
        }
