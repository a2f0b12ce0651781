"""Who holds which ticket, and what was delivered: the book that every epoch is audited against.

Guarantees of this file:

* **G1 exactly once**: a position of the plan is delivered once, or stands in a skip record or a failure.
* **G2 no silent end**: the end is reported only when all that was planned is delivered or skipped.
* **G3 order**: with ``in_order`` batches come out in plan order, and a failure does not overtake them.

The ledger is pure: no threads, clocks or I/O; the caller serialises its calls. It has to stay true even if
the thread that calls it is killed between two bytecodes, which ``PyThreadState_SetAsyncExc`` and Ctrl-C can
do. So every transition is *one* store into ``_entries``. Everything else, such as the heap of planned
positions, is a hint where to look: written before the store, and checked against ``_entries`` when read.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

from nogil_loader.engine.account import Account
from nogil_loader.engine.allowance import Allowance
from nogil_loader.engine.outcome import UNWEIGHED, Failure, Loaded, SkipRecord, Weight
from nogil_loader.engine.ticket import (
    Emptied,
    Entry,
    Failed,
    Lease,
    Planned,
    Ready,
    Ticket,
    Verdict,
)
from nogil_loader.plan import Received
from nogil_loader.policies import FailurePolicy

# A MemoryError is met by freeing memory and trying again before it counts as a failure of the batch. Twice,
# because the first retry may coincide with another worker's peak.
MEMORY_RETRIES = 2

#: What `Ledger.peek` returns when all that was planned has been delivered or skipped.
END = object()
_NOWHERE = float("inf")


class Ledger:
    """Tickets of one epoch on their way *planned → leased → ready → delivered*.

    Args:
        policy: How often to try again and how much may be skipped.
        epoch: For the skip records.
        received: What the consumer has of this epoch; kept up to date with each delivery.
        in_order: Deliver in plan order. Otherwise whatever is ready first.
        total: Samples of the whole epoch where known; a share in ``policy.skip`` refers to it.
        records: Where the records of skipped samples go when their batch is delivered.

    Attributes:
        account: What was planned, and what the consumer has of it.
    """

    def __init__(
        self,
        policy: FailurePolicy,
        *,
        epoch: int = 0,
        received: Received | None = None,
        in_order: bool = True,
        total: int | None = None,
        records: list[SkipRecord] | None = None,
    ) -> None:
        self.received = Received() if received is None else received
        self._policy = policy
        self._in_order = in_order
        self._allowance = Allowance(
            policy, epoch=epoch, total=total, records=[] if records is None else records
        )
        self.account = Account(self.received, self._allowance)
        self._entries: dict[int, Entry] = {}
        self._hints: list[int] = []
        self._finished: list[int] = []
        self._ended = False
        self._forgotten = False
        self._condemned: Failed | None = None
        self._failures: list[int] = []

    # What the plan brings

    def plan(self, ticket: Ticket) -> None:
        """Take in the next slice of the plan; a slice that is known already changes nothing."""
        if self._forgotten or ticket.start in self._entries or ticket.start in self.received:
            return
        heapq.heappush(self._hints, ticket.start)
        self.account.plan(ticket.start + ticket.span)
        self._entries[ticket.start] = Planned(ticket)

    def end_plan(self) -> None:
        """Note that nothing more is planned."""
        self._ended = True

    def fail_plan(self, start: int, number: int, failure: Failure) -> None:
        """Note that nothing can be planned from position ``start`` on, because reading it failed."""
        self._failures.append(start)
        self._entries[start] = Failed(Ticket(number, start, 0, []), failure)

    def count(self) -> tuple[int, int, int]:
        """Return how many tickets are planned, leased and ready."""
        kinds = [type(entry) for entry in list(self._entries.values())]
        return kinds.count(Planned), kinds.count(Lease), kinds.count(Ready)

    def waiting(self) -> int:
        """Return how many samples are in batches that wait for the consumer."""
        ready = [entry for entry in list(self._entries.values()) if type(entry) is Ready]
        return sum(len(entry.ticket.keys) for entry in ready)

    @property
    def outstanding(self) -> int:
        """Tickets that are planned, leased or ready."""
        return len(self._entries)

    # What workers do

    def lease(self, worker: Any) -> Lease | None:
        """Give ``worker`` the earliest planned ticket, or None when there is none to load."""
        hints = self._hints
        while hints:
            start = hints[0]
            entry = self._entries.get(start)
            if type(entry) is Planned:
                if self._failures and start >= self._failed_at():
                    return None
                lease = Lease(entry.ticket, worker)
                self._entries[start] = lease
                heapq.heappop(hints)
                return lease
            heapq.heappop(hints)
        return None

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is still good."""
        return self._entries.get(lease.ticket.start) is lease

    def finish(self, lease: Lease, loaded: Loaded, weight: Weight = UNWEIGHED) -> bool:
        """Hand in a batch; False when the lease is void and the batch has to be thrown away.

        If it has only the first samples of the ticket, the others are planned again.
        """
        if not self.holds(lease):
            return False
        ticket, rest = lease.ticket, None
        if loaded.part is not None and loaded.part < len(ticket.keys):
            ticket, rest = ticket.cut(loaded.part)
            heapq.heappush(self._hints, rest.start)
        if ticket.samples is not None:
            ticket = replace(ticket, samples=None)  # the batch has them now, or copies of them
        if not self._in_order:
            self._finished.append(ticket.start)
        ready = Ready(ticket, loaded.batch, weight)
        if rest is None:
            self._entries[ticket.start] = ready
        else:
            self._entries.update({ticket.start: ready, rest.start: Planned(rest)})
        return True

    def revoke(self, start: int) -> Ready | None:
        """Plan a ticket again whose batch nobody has taken yet; return what is to be dropped."""
        entry = self._entries.get(start)
        if type(entry) is not Ready:
            return None
        self._plan_again(entry.ticket)
        return entry

    def fail(self, lease: Lease, failure: Failure, *, final: bool = False, divide: bool = False) -> Verdict:
        """Hand in a failure and learn what follows from it.

        Where memory ran out, the worker is not to blame: the ticket is tried again, in halves if that does not
        help.

        Args:
            lease: What the worker was loading.
            failure: What went wrong.
            final: No further attempt is possible, whatever the policy says.
            divide: The ticket may be divided.
        """
        if not self.holds(lease):
            return Verdict.STALE
        ticket = lease.ticket
        if final:
            return self._give_up(ticket, failure, "")
        if failure.is_memory:
            divide = divide and len(ticket.keys) > 1
            if ticket.memory_retries < (1 if divide else MEMORY_RETRIES):
                self._plan_again(replace(ticket, memory_retries=ticket.memory_retries + 1))
                return Verdict.RETRY
            if divide:
                self.split(lease, len(ticket.keys) // 2)
                return Verdict.RETRY
        elif ticket.rebuilds < self._policy.rebuild:
            self._plan_again(replace(ticket, rebuilds=ticket.rebuilds + 1))
            return Verdict.REBUILD
        return self._skip(ticket, failure)

    def release(self, lease: Lease) -> None:
        """Take a lease back without blame, as when the consumer interrupts an inline load."""
        if self.holds(lease):
            self._plan_again(lease.ticket)

    def leases_of(self, worker: Any) -> list[Lease]:
        """What ``worker`` holds; more than one only if it was killed in the middle of a hand-over."""
        return [
            entry for entry in list(self._entries.values()) if type(entry) is Lease and entry.worker is worker
        ]

    def split(self, lease: Lease, offset: int) -> bool:
        """Cut a leased ticket into two planned ones before ``keys[offset]``; False when the lease is void."""
        ticket = lease.ticket
        if not 0 < offset < len(ticket.keys):
            raise ValueError(
                f"offset={offset}: a ticket of {len(ticket.keys)} samples is cut from 1 to the last"
            )
        if not self.holds(lease):
            return False
        head, tail = ticket.cut(offset)
        heapq.heappush(self._hints, head.start)
        heapq.heappush(self._hints, tail.start)
        # One call into C: a kill cannot leave only one of the halves behind.
        self._entries.update({head.start: Planned(head), tail.start: Planned(tail)})
        return True

    def condemn(self, failure: Failure) -> None:
        """End the epoch with a failure that belongs to no ticket, such as one in ``worker_init_fn``."""
        if self._condemned is None:
            self._condemned = Failed(None, failure)

    # What the consumer gets

    def peek(self) -> Ready | Emptied | Failed | object | None:
        """What is next for the consumer: a batch, nothing of a batch, a failure, ``END``; None: it has to wait.

        The same again until ``deliver`` is called, so being interrupted in between costs nothing.

        Raises:
            LoaderError: The audit at the end does not add up. That would be a defect of the ledger.
        """
        if self._condemned is not None:
            return self._condemned
        start = self._next_start()
        entry = None if start is None else self._entries.get(start)
        if type(entry) is Ready or type(entry) is Emptied:
            return self._allowed(entry) if entry.ticket.skips else entry
        if type(entry) is Failed:
            return entry
        if self._ended:
            self._sweep()
        if self._complete:
            self.account.audit()
            return END
        return None

    def deliver(self, entry: Ready | Emptied) -> None:
        """Note that the consumer has what ``peek`` returned."""
        ticket = entry.ticket
        if ticket.skips:
            self._allowance.settle(ticket)
        if type(entry) is Ready:
            self.account.deliver()
        # This store is the delivery. What comes before it may be off by one, what comes after is swept up.
        self.received.add(ticket.start, ticket.start + ticket.span, ticket.planned_keys())
        self._entries.pop(ticket.start, None)

    @property
    def awaited(self) -> int | None:
        """Where the earliest ticket begins that has to be loaded before the consumer can go on."""
        if self._in_order:
            return self.received.prefix
        loading = (start for start, entry in self._entries.items() if type(entry) in (Planned, Lease))
        return min(loading, default=None)

    def spare(self) -> list[int]:
        """Where tickets begin that are loaded and not what the consumer gets next."""
        following = self._next_start()
        return [
            start for start, entry in self._entries.items() if type(entry) is Ready and start != following
        ]

    @property
    def deliverable(self) -> bool:
        """Whether ``peek`` would return something."""
        if self._condemned is not None or self._complete:
            return True
        start = self._next_start()
        return start is not None and type(self._entries.get(start)) in (Ready, Emptied, Failed)

    @property
    def dead(self) -> bool:
        """Whether the epoch will end with a failure."""
        return self._condemned is not None or self._failed_at() != _NOWHERE

    def forget(self) -> None:
        """Let go of every batch and sample that was not delivered; ``peek`` brings nothing from here on."""
        self._forgotten = True
        self._entries = {}
        self._hints = []
        self._finished = []

    # Inside

    @property
    def _complete(self) -> bool:
        return self._ended and not self._entries and not self._forgotten

    def _plan_again(self, ticket: Ticket) -> None:
        heapq.heappush(self._hints, ticket.start)
        self._entries[ticket.start] = Planned(ticket)

    def _skip(self, ticket: Ticket, failure: Failure) -> Verdict:
        if not self._allowance.exists:
            return self._give_up(ticket, failure, "")
        if failure.offset is None:
            if ticket.isolate:
                return self._give_up(ticket, failure, "no single sample of the batch can be blamed for it")
            self._plan_again(replace(ticket, isolate=True))
            return Verdict.REBUILD
        # Left out for now. Whether it may be is decided when its turn to be delivered comes: then the
        # allowance is spent in plan order, whichever worker was the first to fail.
        rest = ticket.without(failure.offset, failure)
        if rest.keys:
            self._plan_again(rest)
        else:
            if not self._in_order:
                self._finished.append(rest.start)
            self._entries[rest.start] = Emptied(rest)
        return Verdict.REBUILD

    def _allowed(self, entry: Ready | Emptied) -> Ready | Emptied | Failed:
        """The entry of a ticket with skips, turned into a failure if they are too many."""
        ticket = entry.ticket
        excess = self._allowance.excess(ticket, self.received.count + ticket.span)
        if excess is None:
            return entry
        skip, why = excess
        failed = Failed(ticket, replace(skip.failure, index=skip.key, offset=None), why)
        self._failures.append(ticket.start)
        self._entries[ticket.start] = failed
        return failed

    def _give_up(self, ticket: Ticket, failure: Failure, why: str) -> Verdict:
        self._failures.append(ticket.start)
        self._entries[ticket.start] = Failed(ticket, failure, why)
        return Verdict.FATAL

    def _failed_at(self) -> float:
        """Position of the earliest ticket that was given up on."""
        failed = (start for start in self._failures if type(self._entries.get(start)) is Failed)
        return min(failed, default=_NOWHERE)

    def _next_start(self) -> int | None:
        if self._in_order:
            return self.received.prefix
        while self._finished:
            start = self._finished[0]
            if type(self._entries.get(start)) in (Ready, Emptied) and start not in self.received:
                return start
            del self._finished[0]
        # Good batches first, those that are still being loaded as well; then the failure.
        failed = self._failed_at()
        under_way = any(
            type(entry) in (Planned, Lease) and start < failed for start, entry in self._entries.items()
        )
        return None if failed == _NOWHERE or under_way else int(failed)

    def _sweep(self) -> None:
        """Drop an entry that an interrupted delivery left behind, which would keep the end from coming."""
        for start, entry in list(self._entries.items()):
            if start in self.received and type(entry) is not Failed:
                self._entries.pop(start, None)
