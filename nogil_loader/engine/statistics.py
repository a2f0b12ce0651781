"""Snapshots of how an epoch goes."""

from __future__ import annotations

from dataclasses import dataclass

from nogil_loader.memory.decision import MemoryStatistics


@dataclass(frozen=True)
class Progress:
    """Samples processed so far, skipped ones and those received before a resume included.

    Attributes:
        items_processed: Samples behind the consumer.
        items_total: Samples of the epoch, None where the dataset does not tell.
    """

    items_processed: int
    items_total: int | None


@dataclass(frozen=True)
class Statistics:
    """What has happened in one epoch so far.

    Attributes:
        epoch: The epoch, from 0.
        planned: Samples planned so far, without those received before a resume.
        delivered: Samples that the consumer received.
        skipped: Samples left out, each with a record in ``loader.skipped``.
        batches: Batches that the consumer received.
        rebuilds: How often a worker was rebuilt.
        abandoned: How many stuck threads were given up on.
        workers_alive: Workers alive now; 0 with ``num_workers=0`` and after the end.
        memory: What the memory governor knows and did; None with ``memory="off"``.
    """

    epoch: int = 0
    planned: int = 0
    delivered: int = 0
    skipped: int = 0
    batches: int = 0
    rebuilds: int = 0
    abandoned: int = 0
    workers_alive: int = 0
    memory: MemoryStatistics | None = None

    @property
    def restarts(self) -> int:
        """The same as ``rebuilds``."""
        return self.rebuilds
