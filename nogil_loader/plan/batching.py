"""How a loader's arguments say what each epoch is: which sampler, cut into which batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nogil_loader.checks import as_count, as_flag
from nogil_loader.errors import describe
from nogil_loader.plan.digest import KeyDigest
from nogil_loader.plan.epoch import EpochPlan
from nogil_loader.plan.received import Received
from nogil_loader.plan.samplers import (
    RandomSampler,
    Sampler,
    SequentialSampler,
    UserBatchSampler,
    UserSampler,
)


@dataclass(frozen=True)
class Batching:
    """A sampler and how its keys are cut into batches; makes the plan of every epoch.

    Attributes:
        sampler: Where the keys come from.
        batch_size: Keys per batch; None for single samples that are not collated, and with a batch sampler.
        drop_last: Leave out an incomplete last batch.
    """

    sampler: Sampler
    batch_size: int | None
    drop_last: bool

    @classmethod
    def of(
        cls,
        length: int | None,
        *,
        seed: int,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        drop_last: bool = False,
    ) -> Batching:
        """Resolve the arguments of a ``DataLoader`` over a dataset with ``__getitem__``.

        Args:
            length: Length of the dataset, None if it has none; then a sampler or batch sampler is needed.
            seed: Seed of the shuffled order.
            batch_size: Samples per batch; None hands samples on one by one, uncollated.
            shuffle: True for a new random order in each epoch. None means False.
            sampler: Iterable of dataset keys, instead of ``shuffle``.
            batch_sampler: Iterable of lists of dataset keys, instead of ``batch_size``, ``shuffle``,
                ``sampler`` and ``drop_last``.
            drop_last: Leave out an incomplete last batch.

        Raises:
            TypeError: An argument has a wrong type, or the dataset has no length and there is no sampler.
            ValueError: An argument is out of range, or two arguments contradict each other.
        """
        shuffle = None if shuffle is None else as_flag("shuffle", shuffle)
        if batch_sampler is not None:
            # 1 is the default, so giving it by hand cannot be told from giving nothing.
            size, _ = check_cut(batch_size, drop_last=False)
            _refuse_beside("batch_sampler", "batch_size", batch_size, clash=size != 1)
            _refuse_beside("batch_sampler", "shuffle", shuffle, clash=bool(shuffle))
            _refuse_beside("batch_sampler", "sampler", sampler, clash=sampler is not None)
            _refuse_beside("batch_sampler", "drop_last", drop_last, clash=as_flag("drop_last", drop_last))
            return cls(UserBatchSampler(batch_sampler), None, drop_last=False)
        batch_size, drop_last = check_cut(batch_size, drop_last)
        if sampler is not None:
            _refuse_beside("sampler", "shuffle", shuffle, clash=bool(shuffle))
            return cls(UserSampler(sampler), batch_size, drop_last)
        if length is None:
            raise TypeError("dataset: it has no length (no __len__), so give sampler= or batch_sampler=")
        chosen = RandomSampler(length, seed) if shuffle else SequentialSampler(length)
        return cls(chosen, batch_size, drop_last)

    @property
    def kind(self) -> str:
        """The sampler's kind, as ``LoaderState.sampler`` has it."""
        return self.sampler.kind

    def start(self) -> Received:
        """Return what a consumer has received when an epoch begins: nothing."""
        return Received(digest=KeyDigest() if self.sampler.keyed else None)

    def plan(self, epoch: int, received: Received | None = None, *, announce: bool = True) -> EpochPlan:
        """Return the plan of an epoch, without what was received of it before.

        Args:
            epoch: The epoch, from 0.
            received: What was received of it before.
            announce: Tell a user's sampler the epoch, if it has ``set_epoch``. A loader does so only where its
                caller chose the epoch, since otherwise the caller may have told the sampler another one.

        Raises:
            ResumeError: The sampler's keys are not those that were received.
        """
        return EpochPlan(
            self.sampler,
            epoch,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            received=received,
            announce=announce,
        )

    def nominal_batches(self) -> int:
        """Return the number of batches of an epoch that nothing disturbs.

        Raises:
            TypeError: The sampler or batch sampler has no length.
        """
        if isinstance(self.sampler, UserBatchSampler):
            batches = self.sampler.batches
            return nominal_batches(batches, 1, drop_last=False, source="batch_sampler")
        return nominal_batches(self.sampler.length, self.batch_size, self.drop_last, source="sampler")


def check_cut(batch_size: int | None, drop_last: bool) -> tuple[int | None, bool]:
    """Check the two arguments that say how samples are cut into batches.

    Raises:
        TypeError: One of them has a wrong type.
        ValueError: The batch size is below 1, or there are no batches to drop one of.
    """
    drop_last = as_flag("drop_last", drop_last)
    size = None if batch_size is None else as_count("batch_size", batch_size, least=1)
    if drop_last and size is None:
        raise ValueError("drop_last=True with batch_size=None: without batches there is none to drop")
    return size, drop_last


def nominal_batches(samples: int | None, batch_size: int | None, drop_last: bool, *, source: str) -> int:
    """Return how many batches ``samples`` make, with or without an incomplete last one.

    Args:
        samples: How many samples there are; None if ``source`` has no length.
        batch_size: Samples per batch; None counts samples.
        drop_last: Do not count an incomplete batch.
        source: What gives the samples, for the message.

    Raises:
        TypeError: ``samples`` is None.
    """
    if samples is None:
        raise TypeError(
            f"len(loader): the {source} has no length (no __len__), so the number of batches is not known "
            f"before the epoch has ended"
        )
    size = 1 if batch_size is None else batch_size
    return samples // size if drop_last else -(-samples // size)


def _refuse_beside(given: str, name: str, value: Any, *, clash: bool) -> None:
    if clash:
        raise ValueError(
            f"{given}= and {name}={describe(value, 100)} exclude each other: give only one of them"
        )
