"""Where a thread is at this moment."""

from __future__ import annotations

import sys
import threading
import traceback


def stack_of(thread: threading.Thread) -> str:
    """Return the thread's stack as text, innermost call last; empty if it does not run."""
    frame = None if thread.ident is None else sys._current_frames().get(thread.ident)
    return "" if frame is None else "".join(traceback.format_stack(frame))
