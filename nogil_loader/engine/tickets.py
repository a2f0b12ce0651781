"""The tickets of one epoch, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from nogil_loader.engine.stream import StreamSource
from nogil_loader.engine.ticket import Ticket
from nogil_loader.errors import LoaderError
from nogil_loader.plan import EpochPlan, Received


class PlannedTickets:
    """The tickets of one epoch of a plan; drawn by the consumer, since samplers are its own code."""

    stream: ClassVar[None] = None

    def __init__(self, plan: EpochPlan, received: Received, *, exact: bool) -> None:
        self._plan = plan
        self._number = 0
        self._drawn: Ticket | None = None
        self._gaps = dict(received.ahead)
        self._next = received.prefix
        self._end = plan.total if exact else None

    @property
    def total(self) -> int | None:
        """Samples of the epoch, None while unknown."""
        return self._plan.total

    def draw(self) -> Ticket:
        """Return the next ticket, the same again until ``planned`` is called.

        A sampler's errors pass through.

        Raises:
            StopIteration: There are no more.
            LoaderError: Ctrl-C came between the plan and this, and a ticket is lost.
        """
        if self._drawn is None:
            drawn = next(self._plan, None)
            if drawn is None:
                self._check(self._end)
                raise StopIteration
            self._check(drawn.start)
            self._drawn = Ticket(self._number, drawn.start, len(drawn.keys), drawn.keys)
        return self._drawn

    def planned(self, ticket: Ticket) -> None:
        """Note that a ticket is in the ledger."""
        self._next = ticket.start + ticket.span
        self._number = ticket.number + 1
        self._drawn = None

    def _check(self, start: int | None) -> None:
        while self._next in self._gaps:
            self._next = self._gaps[self._next]
        if start is not None and start != self._next:
            raise LoaderError(
                f"drawing the plan was interrupted, and the samples from position {self._next} on were lost to "
                f"it; state_dict() leads on exactly from what was received"
            )

    def check_end(self) -> None:
        """Nothing was promised."""


class StreamTickets:
    """The tickets of one epoch of an iterable; read by a reader."""

    def __init__(
        self, stream: StreamSource, total: int | None, compare: Callable[[int | None, int], None]
    ) -> None:
        self.stream = stream
        self._total = total
        self._compare = compare

    @property
    def total(self) -> int | None:
        """Samples of the epoch, None while unknown."""
        return self.stream.position if self.stream.ended else self._total

    def draw(self) -> Ticket:
        """A stream is not drawn from by the consumer."""
        raise StopIteration

    def planned(self, ticket: Ticket) -> None:
        """A stream's reader keeps its own account."""

    def check_end(self) -> None:
        """Warn once if ``len(dataset)`` was not the number of samples that came."""
        self._compare(self._total, self.stream.read_samples)
