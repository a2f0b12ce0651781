"""Something that only one thread does at a time, and that no other waits for."""

from __future__ import annotations

import os


class Turn:
    """A line in which only the first one does something; whoever finds himself behind him leaves at once.

    So it is entered and left, with nothing in between that an interrupt could part::

        line, mine = turn.line(), object()
        try:
            line.append(mine)
            if line[0] is not mine:
                return
            ...
        finally:
            line.remove(mine)

    An interrupt strikes after a call, and these two calls are done at once. A method that leaves the line would
    itself be a place for it, and nobody could be the first any more. A signal handler that comes in while its
    own thread is the first stands behind it like any other.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[int, list[object]] = {}

    def line(self) -> list[object]:
        """Return the line. In the child of a fork it is a new one: threads that stood in it are not there."""
        return self._lines.setdefault(os.getpid(), [])
