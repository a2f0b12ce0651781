"""Starting threads without waiting for ever.

``Thread.start`` waits, without a limit, for a sign of life of the new thread. One that is ended before it can
give it, by an exception from outside or because there is no memory for its first steps, would hold its starter for
good.
"""

from __future__ import annotations

import threading

# Many times what a thread needs to come to life on a busy machine.
LAUNCH_SECONDS = 5.0


class _SignOfLife(threading.Event):
    """Is waited for at most `LAUNCH_SECONDS`."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(LAUNCH_SECONDS if timeout is None else timeout)


def launch(thread: threading.Thread) -> None:
    """Start a thread; one that gives no sign of life in time counts as dead from here on.

    Raises:
        RuntimeError: The system gives no more threads.
    """
    # What ``start`` waits for, in all versions of CPython up to 3.14; there is no other way to bound it.
    thread._started = _SignOfLife()  # type: ignore[attr-defined]
    thread.start()
