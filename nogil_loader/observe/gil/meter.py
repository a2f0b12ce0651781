"""The GIL meter as its user sees it."""

from __future__ import annotations

import logging
import os
import weakref
from time import perf_counter
from types import TracebackType
from typing import Self

from nogil_loader.engine.listening import add_listener, remove_listener
from nogil_loader.errors import describe
from nogil_loader.kernels.gilboard import GilBoard
from nogil_loader.observe.gil.place import Unavailable, find_gil
from nogil_loader.observe.gil.recorder import Recorder
from nogil_loader.observe.gil.report import CONSUMER, GilReport, make_report
from nogil_loader.observe.gil.roster import Roster
from nogil_loader.observe.gil.sampler import Sampler, load_watch
from nogil_loader.observe.gil.waits import Sign, find_sign

logger = logging.getLogger("nogil_loader")

_LOWEST, _HIGHEST = 10, 10_000
# What is known of waiting to within this, advice may be based on.
_CERTAIN = 0.1


class GilMeter:
    """Watches the GIL while its ``with`` block runs; made by `gil_meter`.

    If the GIL cannot be watched here nothing is raised: the report says why there is nothing to see.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._session: _Session | None = None
        self._reason = ""

    def __repr__(self) -> str:
        return f"<GIL meter, {self._rate:g} samples per second>"

    def __enter__(self) -> Self:
        """Begin to watch; the calling thread counts as the consumer.

        Raises:
            RuntimeError: The meter was used before.
        """
        if self._session is not None or self._reason:
            raise RuntimeError("a GIL meter can be used once; make another one with gil_meter()")
        try:
            self._session = session = _Session(self._rate)
            # Nobody may forget a meter and leave its thread running.
            weakref.finalize(self, session.abandon).atexit = False
            session.start()
        except Unavailable as reason:
            self._session, self._reason = None, str(reason)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def watch(self, name: str) -> None:
        """Tell the calling thread apart from others, under a name of its own.

        The threads of loaders need not call this, nor the one that entered the ``with`` block. Threads of one
        name are reported together, and those whose names begin with ``"worker "`` as workers.

        Args:
            name: What the report calls the thread.

        Raises:
            TypeError: ``name`` is not a string.
            RuntimeError: The meter was not started.
        """
        if not isinstance(name, str):
            raise TypeError(f"name={describe(name, 100)}: expected a string, not {type(name).__name__}")
        if self._session is not None:
            self._session.recorder.sit(name, name)
        elif not self._reason:
            raise RuntimeError("the GIL meter is not running yet: call watch() inside its `with` block")

    def report(self) -> GilReport:
        """Return what was seen up to now, or up to the end of the ``with`` block."""
        if self._session is None:
            return GilReport(
                False, self._reason or "the meter was not started; it is used in a `with` statement"
            )
        return self._session.report()

    def close(self) -> None:
        """End what leaving the ``with`` block ends; bounded in time, idempotent."""
        if self._session is not None:
            self._session.close()


class _Session:
    """A meter that runs, or has run.

    Raises:
        Unavailable: The GIL cannot be watched.
    """

    def __init__(self, rate: float) -> None:
        gil = find_gil()
        watch = load_watch()
        self._sign, self._reason = _sign_of_waiting(gil)
        self._pid = os.getpid()
        self._began: float | None = None
        self._ended: float | None = None
        board = GilBoard()
        self._roster = Roster(board, calls=self._sign is not None)
        self.recorder = Recorder(board, self._roster)
        self._sampler = Sampler(watch, board, gil, self._sign, 1 / rate, self._roster.close)

    def start(self) -> None:
        """Begin.

        Raises:
            Unavailable: The system gives no more threads.
        """
        self.recorder.sit(CONSUMER, CONSUMER)
        try:
            self._sampler.start()
        except Unavailable:
            self._roster.close()
            raise
        self._began = perf_counter()
        add_listener(self.recorder)

    def abandon(self) -> None:
        """End it some time soon. Safe in a finaliser: it takes no lock and waits for nobody."""
        self.recorder.end_later()
        self._sampler.stop()

    def close(self) -> None:
        """End it, and warn if the workers are in want of the GIL."""
        if self._ended is not None:
            return
        self._ended = perf_counter()
        self.recorder.end_later()
        if os.getpid() != self._pid:
            self._roster.close()
            return
        remove_listener(self.recorder)
        self._sampler.close()
        report = self.report()
        if report.waiting_accuracy < _CERTAIN and (advice := report.advice()):
            logger.warning("%s %s", report.sentence(), advice)

    def report(self) -> GilReport:
        """Return what was seen up to now."""
        if os.getpid() != self._pid:
            return GilReport(False, "the meter runs in the process that this one was forked from")
        seconds = (perf_counter() if self._ended is None else self._ended) - (self._began or 0.0)
        return make_report(self._roster.counts(), seconds, waits=self._sign is not None, reason=self._reason)


def _sign_of_waiting(gil: int) -> tuple[Sign | None, str]:
    """Return how waiting looks, or why nobody knows."""
    try:
        return find_sign(gil), ""
    except Unavailable as reason:
        return None, str(reason)


def gil_meter(*, rate: float = 1000.0) -> GilMeter:
    """Return a meter that tells who has the GIL, and who waits for it, while its ``with`` block runs.

    It watches all loaders of the process, in all their threads::

        with nogil_loader.gil_meter() as meter:
            for batch in loader:
                ...
        print(meter.report())

    It looks at the interpreter's own memory ``rate`` times a second, from a thread that never takes the GIL. That
    works with CPython on 64-bit Linux where numba compiles; elsewhere the report says why there is nothing to see.

    Args:
        rate: Samples per second, on average. More are more exact: what chance does to a share after ``n`` samples
            is less than 1 / sqrt(n) in 19 of 20 cases. Each costs the machine a few microseconds.

    Raises:
        TypeError: ``rate`` is not a number.
        ValueError: It is not from 10 to 10,000.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise TypeError(f"rate={describe(rate, 100)}: expected a number, not {type(rate).__name__}")
    if not _LOWEST <= rate <= _HIGHEST:
        raise ValueError(f"rate={rate}: expected {_LOWEST} to {_HIGHEST:,} samples per second")
    return GilMeter(rate)
