"""Warnings that point at the caller's line, not at one in here."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(message: str) -> None:
    """Issue a ``UserWarning`` for the innermost caller outside this package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
