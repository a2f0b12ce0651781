"""A trace of everything that the loaders of a process do, for Perfetto or chrome://tracing.

The format is the JSON of the Trace Event Format (Google, "Trace Event Format", the document behind
chrome://tracing): complete events for what takes time, instants for what just happens, counters for memory and for
batches that wait.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from nogil_loader.checks import as_count
from nogil_loader.engine.listening import Listener, add_listener, remove_listener
from nogil_loader.engine.scope import current_scope
from nogil_loader.errors import describe_index
from nogil_loader.files import check_writable, whole_file

if TYPE_CHECKING:
    from nogil_loader.engine.ticket import Ticket

logger = logging.getLogger("nogil_loader")

#: Events that are kept, the latest ones; some 20 MB of JSON.
MAX_EVENTS = 100_000
# What is shorter, in seconds, is drawn as part of what it belongs to: a screen does not show it, and a batch of
# thousands of tiny samples would drive out everything else.
_SHORTEST = 20e-6
# Seconds between two readings of memory, at least; one takes some 20 µs.
_BETWEEN_READINGS = 0.02
_NO_KEY: Final = object()
_STATM = Path("/proc/self/statm")


class Event(NamedTuple):
    """Something that happened.

    Attributes:
        phase: ``"X"`` for what took time, ``"i"`` for an instant, ``"C"`` for a counter.
        name: What it was.
        thread: The thread's identifier.
        at: When it began.
        seconds: How long it took.
        details: What else is known.
    """

    phase: str
    name: str
    thread: int
    at: float
    seconds: float
    details: dict[str, Any]


class Trace(Listener):
    """Records what the loaders of this process do, and writes it to a file at the end.

    A context manager, made by `trace`. May be entered once.
    """

    def __init__(
        self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes], max_events: int = MAX_EVENTS
    ) -> None:
        # Also after the program has gone to another folder.
        self._path = Path(os.fsdecode(path)).absolute()
        self._kept = as_count("max_events", max_events, least=1)
        self._events: deque[Event] = deque(maxlen=self._kept)
        self._recorded = 0
        self._threads: dict[int, str] = {}
        # What each thread is in, since when, and for which sample.
        self._open: dict[int, tuple[str, float, Any]] = {}
        self._tickets: dict[int, float] = {}
        self._ready = 0
        self._read_at = 0.0
        self._began = 0.0
        self._pid = 0

    def __enter__(self) -> Self:
        if self._began:
            raise RuntimeError("a trace can be recorded once; make a new one with trace(...)")
        # Whoever traces for an hour should learn now, not then, that the file cannot be written.
        check_writable(self._path)
        self._pid = os.getpid()
        self._began = perf_counter()
        add_listener(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._began:
            raise RuntimeError("a trace that was not entered has nothing to write")
        remove_listener(self)
        if self._pid != os.getpid():
            return  # the child of a fork: the file is its parent's
        try:
            self._write()
        except OSError as failure:
            if error is None:
                raise
            # What ended the block is worth more than what became of its trace.
            logger.warning("%s", failure)

    @property
    def dropped(self) -> int:
        """Events that had to make room for later ones."""
        return self._recorded - len(self._events)

    # What threads tell

    def enter(self, worker: int | str, stage: str, at: float) -> None:
        """See `Listener`."""
        thread, scope = threading.get_ident(), current_scope.get()
        name, since, key = self._open.pop(thread, ("", at, _NO_KEY))
        if stage:
            self._open[thread] = stage, at, _NO_KEY if scope is None or scope.offset is None else scope.key
        if name and at - since >= _SHORTEST:
            details = {} if key is _NO_KEY else {"sample": describe_index(key)}
            self._add("X", name, since, at - since, worker, **details)

    def begin(self, worker: int | str, ticket: Ticket, at: float) -> None:
        """See `Listener`."""
        self._tickets[threading.get_ident()] = at

    def end(self, worker: int | str, ticket: Ticket, nbytes: int, outcome: str, at: float) -> None:
        """See `Listener`."""
        since = self._tickets.pop(threading.get_ident(), at)
        self._add(
            *("X", "batch", since, at - since, worker),
            batch=ticket.number,
            samples=len(ticket.keys),
            bytes=nbytes,
            outcome=outcome,
            attempt=1 + ticket.rebuilds + ticket.memory_retries,
        )
        if outcome == "loaded":
            self._ready += 1
            self._count(at)

    def span(self, worker: int | str, what: str, since: float, at: float) -> None:
        """See `Listener`."""
        self._add("X", {"memory": "wait for memory", "start_up": "start up"}[what], since, at - since, worker)

    def deliver(self, epoch: int, ticket: Ticket, at: float) -> None:
        """See `Listener`."""
        self._ready = max(0, self._ready - 1)
        self._add("i", "take", at, 0.0, "consumer", epoch=epoch, batch=ticket.number)
        self._count(at)

    def waited(self, epoch: int, since: float, at: float) -> None:
        """See `Listener`."""
        self._add("X", "wait for a batch", since, at - since, "consumer", epoch=epoch)

    def tell(self, what: str, at: float, **details: Any) -> None:
        """See `Listener`."""
        self._add("i", what, at, 0.0, "", **details)

    def _count(self, at: float) -> None:
        self._add("C", "batches ready", at, 0.0, "", batches=self._ready)
        if at - self._read_at >= _BETWEEN_READINGS:
            self._read_at = at
            with contextlib.suppress(OSError, ValueError, IndexError):
                pages = int(_STATM.read_bytes().split()[1])
                self._add("C", "memory", at, 0.0, "", resident_bytes=pages * os.sysconf("SC_PAGE_SIZE"))

    def _add(
        self, phase: str, name: str, at: float, seconds: float, worker: int | str, /, **details: Any
    ) -> None:
        thread = threading.get_native_id()
        if worker != "" and thread not in self._threads:
            self._threads[thread] = f"worker {worker}" if isinstance(worker, int) else worker
        self._recorded += 1  # two threads may count as one here; it is only told
        self._events.append(Event(phase, name, thread, at, seconds, details))

    # The file

    def _write(self) -> None:
        head = json.dumps({"events": self._recorded, "dropped": self.dropped})
        with whole_file(self._path, "trace") as file:
            file.write(f'{{"displayTimeUnit": "ms", "otherData": {head}, "traceEvents": [\n'.encode())
            file.write(",\n".join(json.dumps(event) for event in self._as_json()).encode())
            file.write(b"\n]}\n")

    def _as_json(self) -> Iterator[dict[str, Any]]:
        pid = os.getpid()
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "nogil_loader"}}
        for thread, name in self._threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}}
        # What began before the trace did begins with it.
        for event in sorted(self._events, key=lambda event: event.at):
            at = max(event.at, self._began)
            told = {
                "ph": event.phase,
                "name": event.name,
                "pid": pid,
                "tid": event.thread,
                "ts": round((at - self._began) * 1e6, 3),
                "args": event.details,
            }
            if event.phase == "X":
                told["dur"] = round(max(0.0, event.at + event.seconds - at) * 1e6, 3)
            elif event.phase == "i":
                told["s"] = "t"
            yield told


def trace(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes], *, max_events: int = MAX_EVENTS
) -> Trace:
    """Record what all loaders do inside a ``with`` block, and write it to a file that Perfetto opens.

    The file shows a track for each worker, with its batches and what they consist of (fetch, transform,
    collate …), the consumer's waits, the resident memory of the process, batches that are ready, failures and
    rebuilds. It is written when the block is left, by an exception too, and appears as a whole or not at all.

    Args:
        path: Where to write. Open it at https://ui.perfetto.dev or in chrome://tracing.
        max_events: How many events are kept. If there are more, the latest are.

    Returns:
        The context manager.

    Raises:
        OSError: On entering: the file cannot be written there.
        TypeError: ``max_events`` is no integer.
        ValueError: It is less than 1.
    """
    return Trace(path, max_events)
