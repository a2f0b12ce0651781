"""System files that are read over and over, and the numbers in them."""

from __future__ import annotations

import os
from pathlib import Path

# The longest of them, memory.stat and meminfo, have up to 4 KB; an unused rest costs no time.
_MOST_BYTES = 1 << 14


class KeptFile:
    """A small system file, opened once and read again from its start each time.

    With the descriptor kept, a read costs a half to a third of opening, reading and closing. The kernel makes
    such a file's contents when it is read, so an old descriptor tells what is new. The descriptor is closed
    with the last reference. Not to be read by two threads at once.
    """

    # Of the class, as an interrupt may break off the making of an object, and it is closed all the same.
    _descriptor: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return what the file says now.

        Raises:
            OSError: The file cannot be opened or read.
        """
        if self._descriptor is not None:
            try:
                return os.pread(self._descriptor, _MOST_BYTES, 0)
            except OSError:
                # The file went away. One of the same name may have taken its place.
                self.close()
        self._descriptor = os.open(self.path, os.O_RDONLY)
        try:
            return os.pread(self._descriptor, _MOST_BYTES, 0)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the descriptor; the next read opens the file again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._os_close(descriptor)

    # At interpreter exit a module's globals may be gone before its objects are; a class keeps its own.
    _os_close = staticmethod(os.close)
    __del__ = close


def field(text: bytes, name: bytes) -> int:
    """Return the number that follows ``name``.

    Raises:
        ValueError: There is no such name, or no number of 0 or more after it.
    """
    start = text.index(name) + len(name)
    return count(text[start : start + 64].lstrip(b" \t").split(None, 1)[0])


def known(text: bytes, name: bytes) -> int:
    """Return the number that follows ``name``, 0 where the kernel does not know that name.

    Raises:
        ValueError: There is no number of 0 or more after it.
    """
    return field(text, name) if name in text else 0


def count(text: bytes) -> int:
    """Return a number of 0 or more.

    Raises:
        ValueError: The text is something else.
    """
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number: {number}")
    return number
