"""Reading an iterable on behalf of the workers: one thread, so that nobody shares an iterator.

A failure of the iterable is a failure of the worker ``"reader"``: what was read before it is delivered, then
the epoch ends with an error, or the iterable is opened anew where the policy says to rebuild.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import weakref

from nogil_loader.engine.launch import launch
from nogil_loader.engine.outcome import Failure
from nogil_loader.engine.panic import catch_panics
from nogil_loader.engine.rations import Permit
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.scope import FETCH, READER, SampleScope, current_scope, current_worker
from nogil_loader.engine.stacks import stack_of
from nogil_loader.engine.stream import StreamSource
from nogil_loader.engine.watch import Halt, Watch
from nogil_loader.engine.watchdog import Watchdog
from nogil_loader.memory.reading import read_memory
from nogil_loader.policies import FailurePolicy

logger = logging.getLogger("nogil_loader")

_serial = itertools.count()


class Reading:
    """Moves tickets from a source into a run, and draws the consequences when the source fails.

    Args:
        source: What to read.
        run: Where the tickets go.
        policy: ``rebuild`` is how often in a row the iterable is opened anew at one position.
    """

    def __init__(self, source: StreamSource, run: EpochRun, policy: FailurePolicy) -> None:
        self.source = source
        self.run = run
        self.done = False
        self.watch: Watch | None = None
        self._policy = policy
        self._stopwatch = run.times.stopwatch(READER)
        self._tries = 0
        self._tried_at = -1

    def step(self) -> float:
        """Read and plan one ticket, if there is memory for it. What the iterable raises passes through.

        Returns:
            Seconds to wait for memory before the next step.
        """
        source, rations = self.source, self.run.rations
        permit = Permit(source.wanted)
        if rations is not None:
            permit = rations.ask_to_read(self.run, source.position, source.wanted)
        if permit.failure is not None:
            self.fail(permit.failure, final=True)
        if not permit.samples:
            return permit.pause
        self.watch = permit.watch
        ticket = None
        self._stopwatch.enter(FETCH)
        try:
            ticket = source.read(permit.samples, permit.watch)
        except Halt as halt:
            if isinstance(halt.outcome, Failure):
                self.fail(halt.outcome, final=True)
            return 0.0
        finally:
            self._stopwatch.leave()
            if permit.watch is not None:
                permit.watch.end(0 if ticket is None else ticket.span)
        if ticket is None:
            self.run.end_plan()
            self.done = True
        else:
            self.run.plan(ticket)
            source.advance(ticket)
        return 0.0

    @property
    def mark(self) -> object | None:
        """Changes whenever the reader gets on; None while it reads nothing, or waits for memory."""
        return None if self.watch is not None and self.watch.waiting else self.source.at

    def fail(self, failure: Failure, *, final: bool = False) -> None:
        """Open the iterable anew if the policy allows another attempt at this position, or end the plan here."""
        source = self.source
        if source.position != self._tried_at:
            self._tried_at, self._tries = source.position, 0
        if self._tries < self._policy.rebuild and not (final or source.used_up):
            self._tries += 1
            self.run.rebuilds += 1
            source.reopen(failure.cause)
            logger.info("the iterable is opened anew at sample %d: %s", source.position, failure.describe())
            return
        self.run.fail_plan(source.position, source.number, failure)
        self.done = True

    def failure(self, cause: BaseException | None, kind: str = "raised", stack: str = "") -> Failure:
        """Describe what happened to the sample that is being read."""
        return Failure(
            worker_id=READER,
            cause=cause,
            kind="stuck" if kind == "stuck" else "vanished" if cause is None else "raised",
            during="reading the iterable",
            index=self.source.at,
            stack=stack,
            memory=read_memory(),
        )


class Reader:
    """The thread around a `Reading`.

    As in a worker, the thread holds the iterable only while it reads.
    """

    def __init__(self, reading: Reading, timeout: float) -> None:
        self._reading = reading
        self._watchdog: Watchdog[str] = Watchdog(timeout)
        self._thread = self._start()

    def _start(self) -> threading.Thread:
        run = self._reading.run
        serve = functools.partial(run.context.copy().run, _serve, weakref.ref(self._reading), run)
        thread = threading.Thread(
            target=catch_panics(serve, name=READER),
            name=f"nogil_loader-reader-{next(_serial)}",
            daemon=True,
        )
        launch(thread)
        return thread

    def check(self, now: float) -> None:
        """Notice that the thread is gone or stuck; called by the consumer while it waits."""
        reading = self._reading
        if reading.done or reading.run.closed:
            return
        if not self._thread.is_alive():
            reading.fail(reading.failure(None))
            if not reading.done:
                self._thread = self._start()
            return
        if self._watchdog.stuck(now, [(READER, reading.mark)]):
            # Nobody may read the iterator beside the stuck thread, so there is no second attempt.
            reading.run.abandoned += 1
            reading.fail(reading.failure(None, "stuck", stack_of(self._thread)), final=True)

    def join(self, seconds: float) -> bool:
        """Wait for the thread to end; False when it is still in user code."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return not self._thread.is_alive()


def _serve(weak: weakref.ref[Reading], run: EpochRun) -> None:
    # The reader is no worker, also where the consumer is user code that another loader's worker runs.
    current_worker.set(None)
    current_scope.set(SampleScope(run.seed, run.epoch, run))
    while not run.closed:
        if not run.has_room:
            run.wait_for_room()
            continue
        reading = weak()
        if reading is None or reading.done:
            return
        try:
            pause = reading.step()
        except BaseException as error:  # noqa: BLE001 - whatever ends the reader has to become a failure
            failure = reading.failure(error)
        else:
            del reading
            if pause:
                run.sit_out(pause)
            continue
        reading.fail(failure)
        # It leads to this frame, which would keep the samples of the frames below alive.
        del failure, reading
