"""``num_workers=0``: the consumer's own thread does a worker's work, with the same outcomes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from nogil_loader.engine.outcome import Failure, GivenBack, Loaded, Outcome
from nogil_loader.engine.reader import Reading
from nogil_loader.engine.recipe import Kitchen, Recipe
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.scope import MEMORY, SampleScope, current_scope
from nogil_loader.engine.ticket import Ticket, Verdict
from nogil_loader.engine.watch import Watch
from nogil_loader.memory.relief import relieve

INLINE_WORKER = 0


class InlineCrew:
    """Loads one ticket each time the consumer has to wait for one.

    Args:
        make_dataset: Returns what to read.
        recipe: How to make batches of it.
        run: The epoch.
        reading: Where the tickets of an iterable come from.
    """

    def __init__(
        self, make_dataset: Callable[[], Any], recipe: Recipe, run: EpochRun, reading: Reading | None
    ) -> None:
        self._make_dataset = make_dataset
        self._recipe = recipe
        self._kitchen: Kitchen | None = None
        self._at_work = False
        self._scope = SampleScope(run.seed, run.epoch, run)
        # User code runs in a copy of the context here as well, so nothing has to be put back after it.
        self._context = run.context.copy()
        self._context.run(current_scope.set, self._scope)
        self._run = run
        self._stopwatch = run.times.stopwatch(INLINE_WORKER, inline=True)
        self._reading = reading

    def wait(self) -> None:
        """Load the next ticket, or read one."""
        run = self._run
        if self._kitchen is None:
            self._start_up()
            return
        if self._at_work:
            # An exception from outside, Ctrl-C as a rule, came between two lines of an earlier call.
            self._context.run(current_scope.set, self._scope)
            for left_behind in run.leases_of(self):
                run.release(left_behind)
        self._at_work = True
        self._load_or_read(self._kitchen)
        self._at_work = False

    def _load_or_read(self, kitchen: Kitchen) -> None:
        run = self._run
        lease = run.lease(self)
        if lease is None:
            if self._reading is not None and not self._reading.done:
                self._read(self._reading)
            return
        watch = None
        if run.rations is not None:
            permit = self._context.run(run.rations.ask, run, lease, kitchen.hints)
            if not permit.samples:
                began = perf_counter()
                run.sit_out(permit.pause)
                self._stopwatch.spend(MEMORY, began)
                return
            watch = permit.watch
        stopwatch = self._stopwatch
        began = stopwatch.began = perf_counter()
        if began < stopwatch.due:
            outcome = self._context.run(kitchen.attempt, lease.ticket, self._scope, INLINE_WORKER, watch)
            ended = perf_counter()
            stopwatch.wall += ended - began
            stopwatch.ended = ended
            stopwatch.tickets += 1
            if ended - began > stopwatch.slow:
                stopwatch.note_slow(ended - began)
        else:
            outcome = self._context.run(self._attempt_timed, kitchen, lease.ticket, watch)
        if isinstance(outcome, Loaded):
            run.finish(lease, outcome)
        elif isinstance(outcome, GivenBack):
            run.release(lease)
        elif outcome.cause is not None and issubclass(type(outcome.cause), KeyboardInterrupt):
            # Ctrl-C is meant for the program, which is what runs here; the ticket stays to be loaded.
            run.release(lease)
            raise outcome.cause
        elif run.fail(lease, outcome, final=outcome.kind == "shortage") is Verdict.RETRY:
            del outcome
            relieve()

    def _attempt_timed(self, kitchen: Kitchen, ticket: Ticket, watch: Watch | None) -> Outcome:
        timed = self._stopwatch.scope(self._scope)
        return self._stopwatch.time(
            ticket, timed, partial(kitchen.attempt, ticket, timed, INLINE_WORKER, watch)
        )

    def _start_up(self) -> None:
        began = perf_counter()
        try:
            self._kitchen = self._recipe.bind(self._context.run(self._make_dataset))
            self._stopwatch.spend("start_up", began)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - as in a worker's thread
            self._run.fail_outside_ticket(Failure(INLINE_WORKER, error, during="clone_dataset"))

    def _read(self, reading: Reading) -> None:
        self._run.times.pace.begin_wait()
        try:
            pause = self._context.run(reading.step)
        except KeyboardInterrupt:
            reading.source.reopen()
            raise
        except BaseException as error:  # noqa: BLE001 - as in a reader's thread
            failure = reading.failure(error)
        else:
            if pause:
                self._run.sit_out(pause)
            return
        reading.fail(failure)
        del failure

    @property
    def starting(self) -> bool:
        """There is no start-up."""
        return False

    def alive(self) -> int:
        """There are no threads."""
        return 0

    def retire(self, seconds: float, *, keep: bool) -> None:
        """Nothing runs beside the consumer."""

    def stop(self) -> None:
        """Nothing runs beside the consumer; only an iterator may have to go."""
        if self._reading is not None:
            self._reading.source.close()

    def join(self, seconds: float) -> bool:
        """Nothing runs beside the consumer."""
        return True
