"""Looks on while a loader is read: memory, the queue and the GIL over time; in a pass that is not timed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from types import TracebackType

from nogil_loader.bench.feeds import Feed, OurFeed
from nogil_loader.bench.measure import used_bytes
from nogil_loader.bench.result import Gil

# Often enough to see a queue run empty, and at 20 times a second no work to speak of.
_STEP_SECONDS = 0.05
# Adding up what several processes share takes the kernel milliseconds.
_STEP_SECONDS_WITH_CHILDREN = 0.25
# A look takes milliseconds; whoever has to wait for longer has no use for it any more.
_LAST_LOOK_SECONDS = 5.0


def watch_gil(read: Callable[[], object], *, workers: int) -> Gil | None:
    """Return who held the GIL while ``read`` ran, and how long workers waited for it.

    None where the one or the other cannot be seen: a setting in which workers are not known to wait must not look
    like one in which they do not.
    """
    from nogil_loader.observe.gil import gil_meter
    from nogil_loader.observe.gil.roster import OTHER_THREADS

    with gil_meter() as meter:
        read()
    report = meter.report()
    waiting = report.workers_waiting if workers else 0.0
    if not report.samples or waiting is None:
        return None
    by_stage = {name: share for name, share in report.by_stage.items() if name != OTHER_THREADS}
    return Gil(report.held, by_stage, waiting, report.accuracy)


class Timelines:
    """Samples memory and queue in a thread of its own; a context manager.

    Attributes:
        memory: Seconds since the beginning, and bytes then.
        ready: The same for batches ready; empty where the loader does not tell.
    """

    def __init__(self, feed: Feed) -> None:
        import psutil

        self.memory: list[tuple[float, float]] = []
        self.ready: list[tuple[float, float]] = []
        self._feed = feed if isinstance(feed, OurFeed) else None
        self._children = psutil.Process().children(recursive=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nogil_loader bench timelines", daemon=True)

    def _watch(self) -> None:
        start = perf_counter()
        step = _STEP_SECONDS_WITH_CHILDREN if self._children else _STEP_SECONDS
        while True:
            at = round(perf_counter() - start, 3)
            self.memory.append((at, float(used_bytes(self._children))))
            if self._feed is not None:
                self.ready.append((at, float(self._feed.now().queue.ready)))
            if self._over.wait(step):
                return

    def __enter__(self) -> Timelines:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_LAST_LOOK_SECONDS)
