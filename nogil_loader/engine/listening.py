"""Who wants to see what the threads of all loaders do, while they do it.

Nobody does, as a rule, and then it costs nothing: threads look here only at the end of a ticket that they time
anyway (see `nogil_loader.engine.stopwatch`), and where something rare happens.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nogil_loader.engine.ticket import Ticket


class Listener:
    """Is told what happens; each method does nothing by itself.

    The methods run in the thread that it happens in, between a sample and the next one, so they have to be quick
    and must not raise. Times are those of ``time.perf_counter``. A worker is told by its id, from 0; the thread
    that reads an iterable is ``"reader"``.
    """

    def enter(self, worker: int | str, stage: str, at: float) -> None:
        """The calling thread enters a stage of its ticket: ``"fetch"``, ``"collate"`` …; ``""`` for none."""

    def begin(self, worker: int | str, ticket: Ticket, at: float) -> None:
        """The calling thread begins to load a ticket."""

    def end(self, worker: int | str, ticket: Ticket, nbytes: int, outcome: str, at: float) -> None:
        """The calling thread is done with a ticket.

        Args:
            worker: Who.
            ticket: Which one.
            nbytes: Of the batch.
            outcome: ``"loaded"``, ``"failed"`` or ``"given back"``.
            at: When.
        """

    def span(self, worker: int | str, what: str, since: float, at: float) -> None:
        """The calling thread has spent a time outside of any ticket: ``"memory"`` or ``"start_up"``."""

    def deliver(self, epoch: int, ticket: Ticket, at: float) -> None:
        """The consumer, in whose thread this runs, gets a batch."""

    def waited(self, epoch: int, since: float, at: float) -> None:
        """The consumer, in whose thread this runs, waited for a batch and has it now."""

    def tell(self, what: str, at: float, **details: Any) -> None:
        """Something rare, such as a ``"failure"``, a ``"rebuild"`` or a change of what ``"memory"`` allows.

        ``details`` are numbers and strings.
        """


_lock = threading.Lock()
#: Those who listen now; replaced, never changed.
listeners: tuple[Listener, ...] = ()


def add_listener(listener: Listener) -> None:
    """Let ``listener`` be told from here on."""
    global listeners
    with _lock:
        listeners = (*listeners, listener)


def tell(what: str, **details: Any) -> None:
    """Tell all who listen of something rare that happens now."""
    for listener in listeners:
        listener.tell(what, perf_counter(), **details)


def remove_listener(listener: Listener) -> None:
    """Tell ``listener`` nothing any more; does nothing if it is not told."""
    global listeners
    with _lock:
        listeners = tuple(each for each in listeners if each is not listener)
