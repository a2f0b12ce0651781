"""Sums over all epochs of a loader, which never fall: an epoch counts from its first batch on, and for good."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Generic, Protocol, TypeVar

from nogil_loader.engine.forks import renew_lock_after_fork
from nogil_loader.engine.statistics import StageSeconds, Statistics


@dataclass(frozen=True)
class Totals:
    """What has happened in all epochs that a loader has begun, those that were left early included.

    Attributes:
        epochs: Epochs begun.
        delivered: Samples that the consumer received.
        skipped: Samples left out.
        batches: Batches that the consumer received.
        nbytes: Bytes of delivered batches, as far as they were weighed.
        rebuilds: How often a worker was rebuilt.
        abandoned: How many stuck threads were given up on.
        seconds: Of all epochs, each from ``iter(loader)`` to its end.
        consumer_wait: Seconds that the consumer waited for batches.
        stages: What worker threads spent their time on.
        memory_waits: How often a piece of a batch had to wait for memory.
        memory_splits: How many were made smaller before loading.
        memory_cuts: How many were cut while loading.
        memory_revoked: How many were given up, to be loaded again.
        memory_parks: How often use went above the hard mark.
    """

    epochs: int = 0
    delivered: int = 0
    skipped: int = 0
    batches: int = 0
    nbytes: int = 0
    rebuilds: int = 0
    abandoned: int = 0
    seconds: float = 0.0
    consumer_wait: float = 0.0
    stages: StageSeconds = field(default_factory=StageSeconds)
    memory_waits: int = 0
    memory_splits: int = 0
    memory_cuts: int = 0
    memory_revoked: int = 0
    memory_parks: int = 0

    @classmethod
    def of(cls, epoch: Statistics) -> Totals:
        """Return those of one epoch."""
        memory = epoch.memory
        return cls(
            epochs=1,
            delivered=epoch.delivered,
            skipped=epoch.skipped,
            batches=epoch.batches,
            nbytes=epoch.nbytes,
            rebuilds=epoch.rebuilds,
            abandoned=epoch.abandoned,
            seconds=epoch.seconds,
            consumer_wait=epoch.consumer_wait,
            stages=epoch.stages,
            memory_waits=0 if memory is None else memory.waits,
            memory_splits=0 if memory is None else memory.splits,
            memory_cuts=0 if memory is None else memory.cuts,
            memory_revoked=0 if memory is None else memory.revoked,
            memory_parks=0 if memory is None else memory.parks,
        )

    def __add__(self, other: Totals) -> Totals:
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "stages"
        }
        mine, others = self.stages.as_dict(), other.stages.as_dict()
        return Totals(stages=StageSeconds(**{name: mine[name] + others[name] for name in mine}), **sums)


class Epoch(Protocol):
    """An epoch, under way or over.

    Attributes:
        closed: Whether it is over; what is known of it does not change any more then.
    """

    closed: bool


E = TypeVar("E", bound=Epoch)


class Life(Generic[E]):
    """Adds up the epochs of one loader, of which several may be under way.

    Args:
        read: Tells what is known of an epoch.
    """

    def __init__(self, read: Callable[[E], Statistics]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._past = Totals()
        self._epochs: list[E] = []
        renew_lock_after_fork(self)

    def begin(self, epoch: E) -> None:
        """Count an epoch from here on."""
        with self._lock:
            self._settle()
            self._epochs.append(epoch)

    @property
    def totals(self) -> Totals:
        """The sums up to now."""
        with self._lock:
            self._settle()
            return sum(map(self._sum, self._epochs), self._past)

    def _settle(self) -> None:
        """Keep the numbers of epochs that are over, and nothing else of them."""
        for epoch in self._epochs[:]:
            if epoch.closed:
                self._past += self._sum(epoch)
                self._epochs.remove(epoch)

    def _sum(self, epoch: E) -> Totals:
        return Totals.of(self._read(epoch))
