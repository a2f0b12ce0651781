"""Where a program runs, as far as bars are concerned."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False for one that is closed or missing."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError, OSError):
        return False


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def is_installed(module: str) -> bool:
    """Whether a top-level module could be imported; does not import it."""
    try:
        return find_spec(module) is not None
    except ValueError:  # it stands in sys.modules without a spec
        return module in sys.modules
