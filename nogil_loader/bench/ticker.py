"""One line on a terminal that says how far a sweep is."""

from __future__ import annotations

import shutil
from typing import TextIO

from nogil_loader.bench.sweep import Step


class Ticker:
    """Shows each step in place of the one before; nothing where there is no terminal.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shows = stream.isatty()
        self._width = 0

    def __call__(self, step: Step) -> None:
        """Show a step."""
        if not self._shows:
            return
        told = "done" if step.case is None else str(step.case)
        if step.last is not None:
            rate = step.last.median
            told += f"; last: {'failed' if rate is None else f'{rate:,.0f} samples/s'}"
        self._put(f"[{step.done}/{step.total}] {told}")

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            self._put("")
            self._stream.write("\r")
            self._stream.flush()

    def _put(self, line: str) -> None:
        # A line as wide as the terminal would wrap, and the next one could not cover it.
        line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)
