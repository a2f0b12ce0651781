"""How many samples of an epoch may be left out, and the records of those that were."""

from __future__ import annotations

from nogil_loader.engine.outcome import SkipRecord, detach_traceback
from nogil_loader.engine.ticket import Skip, Ticket
from nogil_loader.policies import FailurePolicy


class Allowance:
    """The account of skipped samples, settled in the order of delivery.

    Settled only then, the allowance is spent in plan order, whichever worker was the first to fail.

    Args:
        policy: How many may be skipped.
        epoch: For the records.
        total: Samples of the whole epoch where known; a share refers to it. Otherwise to those that came.
        records: Where the records go.
    """

    def __init__(
        self, policy: FailurePolicy, *, epoch: int, total: int | None, records: list[SkipRecord]
    ) -> None:
        self.spent = 0
        self._policy = policy
        self._epoch = epoch
        self._total = total
        self._records = records

    @property
    def exists(self) -> bool:
        """Whether anything may be skipped at all."""
        return bool(self._policy.skip)

    def excess(self, ticket: Ticket, come: int) -> tuple[Skip, str] | None:
        """The first skip of a ticket that is one too many, and why; None while all are allowed.

        Args:
            ticket: The next to be delivered.
            come: Samples of the epoch up to its end.
        """
        allowed = self._policy.skip_allowance(come if self._total is None else self._total)
        if self.spent + len(ticket.skips) <= allowed:
            return None
        why = f"{allowed} samples were skipped already, which is all that {self._policy} allows"
        return ticket.skips[max(0, allowed - self.spent)], why

    def settle(self, ticket: Ticket) -> None:
        """Record the skips of a delivered ticket."""
        self.spent += len(ticket.skips)
        self._records.extend(self._record(skip) for skip in ticket.skips)

    def _record(self, skip: Skip) -> SkipRecord:
        cause = skip.failure.cause
        return SkipRecord(
            index=skip.key,
            epoch=self._epoch,
            error=cause,
            reason=skip.failure.describe(),
            position=skip.position,
            traceback=detach_traceback(cause),
        )
