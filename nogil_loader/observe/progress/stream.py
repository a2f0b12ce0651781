"""A stream that never fails: what cannot be shown costs the bar, not the epoch."""

from __future__ import annotations

import contextlib
from typing import Any, TextIO


class Forgiving:
    """A text stream that lets errors go, and writes question marks for what it has no characters for.

    Args:
        stream: Where everything goes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
        except (OSError, ValueError):  # a terminal that is gone, a closed file
            pass
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
