"""What was planned and what the consumer has of it: the sums that have to agree before an epoch may end."""

from __future__ import annotations

from nogil_loader.engine.allowance import Allowance
from nogil_loader.engine.ticket import Progress
from nogil_loader.errors import LoaderError
from nogil_loader.plan import Received


class Account:
    """The sums of one epoch.

    Args:
        received: What the consumer has; the ledger keeps it up to date.
        allowance: The account of skipped samples.

    Attributes:
        batches: What the consumer got.
    """

    def __init__(self, received: Received, allowance: Allowance) -> None:
        self._received = received
        self._allowance = allowance
        self._before = Received(received.prefix, received.ahead)
        self._reach = received.prefix
        self.batches = 0
        self._delivered = 0

    def plan(self, stop: int) -> None:
        """Note that the plan reaches up to position ``stop``."""
        self._reach = max(self._reach, stop)

    def deliver(self) -> None:
        """Note that the consumer got a batch."""
        self.batches += 1

    @property
    def planned(self) -> int:
        """Samples planned so far, without those received before."""
        return (
            self._reach
            - self._before.prefix
            - sum(min(stop, self._reach) - start for start, stop in self._before.ahead if start < self._reach)
        )

    @property
    def progress(self) -> Progress:
        """What the consumer has of this epoch, without what it received before."""
        skipped = self._allowance.spent
        # A ticket's skips are settled just before it is received: who looks in between must not see a step back.
        delivered = max(self._delivered, self._received.count - self._before.count - skipped)
        self._delivered = delivered
        return Progress(delivered, skipped, self.batches)

    def audit(self) -> None:
        """Compare what was planned with what came.

        Raises:
            LoaderError: The sums differ.
        """
        done = self.progress
        if self.planned != done.delivered + done.skipped:
            raise LoaderError(
                f"the epoch does not add up: {self.planned} samples were planned, {done.delivered} delivered, "
                f"{done.skipped} skipped; please report this as a defect"
            )
