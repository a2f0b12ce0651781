"""Where the tickets of each epoch come from: a plan over a map-style dataset, or the stream of an iterable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nogil_loader.data.protocols import dataset_length, is_map_style
from nogil_loader.engine.epochs import Beginning
from nogil_loader.engine.stream import IteratorMemory, StreamSource
from nogil_loader.engine.tickets import PlannedTickets, StreamTickets
from nogil_loader.errors import ResumeError, describe
from nogil_loader.notices import warn
from nogil_loader.plan import (
    Batching,
    LoaderState,
    RandomSampler,
    Received,
    UserBatchSampler,
    UserSampler,
    check_cut,
    nominal_batches,
)


class TicketSource(Protocol):
    """A loader's arguments about what to deliver, resolved."""

    @property
    def length(self) -> int | None:
        """Length of the dataset, None if it has none."""

    @property
    def kind(self) -> str:
        """The kind of sampler, for the state."""

    @property
    def batch_size(self) -> int | None:
        """Samples per batch."""

    @property
    def drop_last(self) -> bool:
        """Whether an incomplete last batch is left out."""

    @property
    def single(self) -> bool:
        """Whether samples are handed through one by one."""

    def open(self, beginning: Beginning) -> PlannedTickets | StreamTickets:
        """Begin an epoch, without what was received of it before."""

    def nothing_received(self) -> Received:
        """What is received when an epoch begins."""

    def nominal_batches(self) -> int:
        """How many batches an undisturbed epoch has."""

    def check_resume(self, state: LoaderState, seed: int | None) -> None:
        """Refuse a state that does not fit."""

    def with_seed(self, seed: int) -> TicketSource:
        """The same with another seed."""


@dataclass(frozen=True)
class PlanningSource:
    """A map-style dataset and how its keys are drawn and cut into batches."""

    dataset: Any
    batching: Batching

    @property
    def length(self) -> int | None:
        """Length of the dataset now, None if it has none."""
        return dataset_length(self.dataset)

    @property
    def kind(self) -> str:
        """The kind of sampler, for the state."""
        return self.batching.kind

    @property
    def batch_size(self) -> int | None:
        """Samples per batch."""
        return self.batching.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether an incomplete last batch is left out."""
        return self.batching.drop_last

    @property
    def single(self) -> bool:
        """Whether samples are handed through one by one."""
        return self.batch_size is None and not isinstance(self.batching.sampler, UserBatchSampler)

    def open(self, beginning: Beginning) -> PlannedTickets:
        """Begin an epoch, without what was received of it before."""
        batching = self._up_to_date()
        plan = batching.plan(beginning.epoch, beginning.received, announce=beginning.announced)
        return PlannedTickets(plan, beginning.received, exact=not batching.sampler.keyed)

    def nothing_received(self) -> Received:
        """What is received when an epoch begins."""
        return self.batching.start()

    def nominal_batches(self) -> int:
        """How many batches an undisturbed epoch has.

        Raises:
            TypeError: The sampler has no length.
        """
        return self._up_to_date().nominal_batches()

    def _up_to_date(self) -> Batching:
        """The batching for the dataset's present length: a list may have grown since the last epoch."""
        sampler, length = self.batching.sampler, self.length
        if length is None or isinstance(sampler, UserSampler | UserBatchSampler) or sampler.length == length:
            return self.batching
        return replace(self.batching, sampler=sampler.resized(length))

    def check_resume(self, state: LoaderState, seed: int | None) -> None:
        """Refuse a state that does not fit.

        Raises:
            ResumeError: The stream of samples would be another one.
        """
        state.check_fits(sampler=self.kind, length=self.length, seed=seed)

    def with_seed(self, seed: int) -> PlanningSource:
        """The same with another seed."""
        sampler = self.batching.sampler
        if not isinstance(sampler, RandomSampler):
            return self
        return replace(self, batching=replace(self.batching, sampler=RandomSampler(sampler.length, seed)))


@dataclass
class StreamingSource:
    """An iterable dataset."""

    dataset: Any
    batch_size: int | None
    drop_last: bool
    length: int | None
    kind: str = "iterable"
    memory: IteratorMemory = field(default_factory=IteratorMemory)
    warned_length: bool = False
    warned_resume: bool = False

    @property
    def single(self) -> bool:
        """Whether samples are handed through one by one."""
        return self.batch_size is None

    def open(self, beginning: Beginning) -> StreamTickets:
        """Begin an epoch, reading over what was received of it before."""
        received = beginning.received
        if received.prefix and not self.warned_resume:
            self.warned_resume = True
            warn(
                f"resuming an iterable dataset reads over the {received.prefix} samples received before; it is "
                f"exact if {type(self.dataset).__name__} gives the same samples in the same order each time"
            )
        stream = StreamSource(
            self.dataset,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            start=received.prefix,
            memory=self.memory,
        )
        return StreamTickets(stream, self.length, self.compare)

    def nothing_received(self) -> Received:
        """What is received when an epoch begins."""
        return Received()

    def nominal_batches(self) -> int:
        """How many batches an undisturbed epoch has.

        Raises:
            TypeError: The dataset has no length.
        """
        return nominal_batches(self.length, self.batch_size, self.drop_last, source="dataset")

    def check_resume(self, state: LoaderState, seed: int | None) -> None:
        """Refuse a state that does not fit.

        Raises:
            ResumeError: As for a plan, or batches were received out of order.
        """
        state.check_fits(sampler=self.kind, length=self.length, seed=seed)
        if state.ahead:
            raise ResumeError(
                f"state field 'ahead' is {list(state.ahead)}: an iterable dataset has no random access, so it "
                f"cannot go on from batches received out of order; use in_order=True where states are taken",
                field="ahead",
            )

    def with_seed(self, seed: int) -> StreamingSource:
        """The same; the order is the dataset's own."""
        return self

    def compare(self, promised: int | None, came: int) -> None:
        """Warn once if ``len(dataset)`` was not the number of samples that came."""
        if promised is not None and promised != came and not self.warned_length:
            self.warned_length = True
            warn(
                f"len({type(self.dataset).__name__}) is {promised}, but it gave {came} samples; it was read to "
                f"its end all the same, only len(loader) and progress totals are off"
            )


def resolve_source(
    dataset: Any,
    *,
    batch_size: Any,
    shuffle: Any,
    sampler: Any,
    batch_sampler: Any,
    drop_last: Any,
    seed: int,
) -> TicketSource:
    """Resolve the arguments that say what to deliver.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of range, or two exclude each other.
    """
    length = dataset_length(dataset)
    if is_map_style(dataset):
        batching = Batching.of(
            length,
            seed=seed,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            drop_last=drop_last,
        )
        return PlanningSource(dataset, batching)
    _refuse_order(dataset, shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
    size, drop_last = check_cut(batch_size, drop_last)
    return StreamingSource(dataset, size, drop_last, length)


def _refuse_order(dataset: Any, **arguments: Iterable[Any] | bool | None) -> None:
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(
                f"{name}={describe(value, 100)}: {type(dataset).__name__} is an iterable dataset, which decides "
                f"its order itself"
            )
