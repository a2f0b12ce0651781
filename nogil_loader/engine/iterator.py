"""The consumer's side of an epoch: batches in plan order, then the end or an error, never silence.

* **G2**: ``StopIteration`` comes only after the ledger's audit, and every later call repeats how it ended.
* **G7**: waiting is done in bounded steps; each step that brings nothing checks that the workers are alive.
* **G8**: no thread refers to the iterator, so dropping it ends the epoch. Its finaliser only signals.

The plan of a map-style dataset is drawn here, in the consumer's thread, since samplers are the caller's code:
their errors pass through as they are, after the batches that were planned before.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol

from nogil_loader.engine.ledger import END
from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.scope import current_scope
from nogil_loader.engine.snapshot import snapshot
from nogil_loader.engine.statistics import Progress, Statistics
from nogil_loader.engine.ticket import Emptied, Failed, Ready
from nogil_loader.engine.tickets import PlannedTickets, StreamTickets
from nogil_loader.errors import DeadWorkerError, LoaderError, WorkerTimeoutError

logger = logging.getLogger("nogil_loader")

# At the end of an epoch idle threads get this long, in seconds, to be gone before the consumer goes on.
# Those in user code end by themselves; waiting longer for them would hold up an error message.
_LAST_WORDS = 0.2
# What close() grants to threads that are still in user code, all together.
CLOSE_SECONDS = 1.0


def _nobody(_: Any) -> bool:
    """Hears how an epoch ended that has ended already. Keeps an ended iterator from keeping its loader."""
    return False


class Crew(Protocol):
    """Who loads the tickets: threads, or the consumer's own thread."""

    def wait(self) -> None:
        """Let time pass until something may have happened."""

    @property
    def starting(self) -> bool:
        """Whether nothing may be delivered yet."""

    def alive(self) -> int:
        """How many workers are alive."""

    def retire(self, seconds: float, *, keep: bool) -> None:
        """End what is of no use after the epoch; with ``keep``, only what serves no other one."""

    def stop(self) -> None:
        """Tell all threads to end."""

    def join(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the threads to end; False when some are still in user code."""


class LoaderIterator(Iterator[Any]):
    """One epoch of a loader; made by ``iter(loader)``.

    Also a context manager that closes on leaving. Batches already delivered stay valid.

    Args:
        run: The epoch.
        crew: Who works for it.
        tickets: What to load.
        timeout: For the error message.
        on_end: Told once how the epoch ended: ``COMPLETE``, ``CLOSED``, or the error that ended it. Returns
            True to keep the crew's threads.
    """

    COMPLETE = object()
    CLOSED = object()

    def __init__(
        self,
        run: EpochRun,
        crew: Crew,
        tickets: PlannedTickets | StreamTickets,
        *,
        timeout: float,
        on_end: Callable[[Any], bool],
    ) -> None:
        self._run = run
        self._crew = crew
        self._tickets = tickets
        self._timeout = timeout
        self._on_end = on_end
        self._turn = threading.Lock()
        self._served: int | None = None
        self._drawing = tickets.stream is None
        self._plan_error: BaseException | None = None
        self._complete = False
        self._error: BaseException | None = None
        self._error_trace: TracebackType | None = None
        self._started = False
        self._refill()

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: Every planned sample was delivered or skipped.
            DeadWorkerError: A worker died and the policy allows no (further) rebuild; raised again by every
                later call.
            LoaderError: The iterator was closed, or belongs to another process.
        """
        if self._run.pid != os.getpid():
            raise LoaderError(
                f"this iterator belongs to process {self._run.pid}, and threads do not survive a fork; make a "
                f"new one here with iter(loader)"
            )
        inside = self._served == threading.get_ident() and self._turn.locked()
        if inside or self._run.is_loading_in(current_scope.get()):
            raise RuntimeError("next() was called on an iterator by code that runs for its own next()")
        # For another thread inside next(), all of whose own waits have limits. ``with`` is the one way to hold
        # a lock that a Ctrl-C between two bytecodes cannot leave locked.
        with self._turn:
            self._served = threading.get_ident()
            try:
                item = self._next()
            finally:
                self._served = None
            # The last thing that is done, so that an interrupted call has taken nothing.
            self._run.deliver(item)
        return item.batch

    def _next(self) -> Ready:
        while True:
            if self._complete:
                raise StopIteration
            if self._error is not None:
                raise self._error.with_traceback(self._error_trace)
            if self._run.closed:
                raise LoaderError("this iterator is closed; iter(loader) starts a new epoch")
            if self._started or not self._crew.starting:
                self._started = True
                if self._drawing:
                    self._refill()
                item = self._run.peek()
                if type(item) is Ready:
                    return item
                if type(item) is Emptied:
                    self._run.deliver(item)
                    continue
                if item is not None:
                    self._finish(item)
                    continue
            elif self._run.ledger.dead:
                self._started = True
                continue
            self._crew.wait()

    def _refill(self) -> None:
        run, tickets = self._run, self._tickets
        while self._drawing and run.has_room:
            try:
                ticket = tickets.draw()
            except StopIteration:
                self._end_plan()
            except Exception as error:  # noqa: BLE001 - the caller's own; raised when its turn comes
                self._plan_error = error
                self._end_plan()
            except BaseException as error:
                # Ctrl-C inside the sampler: it cannot be asked again, so the epoch will end here.
                self._plan_error = error
                self._end_plan()
                raise
            else:
                run.plan(ticket)
                tickets.planned(ticket)

    def _end_plan(self) -> None:
        self._run.end_plan()
        self._drawing = False

    def _finish(self, item: Any) -> None:
        if item is not END:
            self._error = self._death(item)
        elif self._plan_error is not None:
            self._error = self._plan_error
        else:
            self._tickets.check_end()
            self._complete = True
        if self._error is not None:
            self._error_trace = self._error.__traceback__
        self._run.close()
        keep = self._on_end(self.COMPLETE if self._complete else self._error)
        self._crew.retire(_LAST_WORDS, keep=keep)
        self._on_end = _nobody

    def _death(self, failed: Failed) -> LoaderError:
        failure, ticket = failed.failure, failed.ticket
        if failure.kind == "shortage" and isinstance(failure.cause, LoaderError):
            return failure.cause  # it has the numbers; no worker died of it
        if failure.is_memory and ticket is not None and ticket.keys and self._run.rations is not None:
            return self._run.rations.exhausted(failure, ticket)
        details: dict[str, Any] = {
            "worker_id": failure.worker_id,
            "cause": failure.cause,
            "epoch": self._run.epoch,
            "index": failure.index,
            "memory": failure.memory,
            "during": failure.during,
        }
        if ticket is not None:
            details.update(batch=ticket.number, indices=ticket.planned_keys(), rebuilds=ticket.rebuilds)
            if failure.offset is not None and failure.offset < len(ticket.keys):
                details["index"] = ticket.keys[failure.offset]
        if failure.kind == "stuck":
            return WorkerTimeoutError(stack=failure.stack, timeout=self._timeout, **details)
        if failed.why:
            details["detail"] = f"{failure.describe()} ({failed.why})"
        return DeadWorkerError(**details)

    def progress(self) -> Progress:
        """How many of the epoch's samples are behind the consumer."""
        return Progress(self._run.ledger.received.count, self._tickets.total)

    def statistics(self) -> Statistics:
        """A snapshot of the epoch."""
        return snapshot(self._run, 0 if self._run.closed else self._crew.alive())

    def close(self) -> None:
        """End the epoch and its threads; bounded in time, idempotent, callable from any thread.

        A worker that is in user code at that moment ends as soon as that code returns.
        """
        if self._run.closed:
            return
        self._abandon()
        if self._run.pid == os.getpid() and not self._crew.join(CLOSE_SECONDS):
            logger.info("closed while a worker is still in user code; its thread ends when that returns")

    def _abandon(self) -> None:
        self._run.close()
        self._crew.stop()
        self._on_end(self.CLOSED)

    def __enter__(self) -> LoaderIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # May run on any thread, in the middle of anything, so it takes no lock and waits for nobody.
        run = getattr(self, "_run", None)
        if run is not None and not run.closed:
            self._abandon()
