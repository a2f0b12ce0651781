"""How a ticket becomes a batch: fetch, collate, convert, written once.

A recipe holds no state of its own and may be used by any number of threads at once. While it works it keeps
a ``SampleScope`` up to date, so that whoever looks, the watchdog or an error message, knows which sample is
being loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nogil_loader.collate import DefaultCollate, Slots
from nogil_loader.data.protocols import BatchSource, Table, batched_fetch, fetch_list, is_map_style
from nogil_loader.engine.outcome import Failure, Loaded, Outcome
from nogil_loader.engine.scope import COLLATE, CONVERT, FETCH, TRANSFORM, SampleScope
from nogil_loader.engine.ticket import Ticket
from nogil_loader.engine.watch import Halt, Watch
from nogil_loader.errors import CollateError
from nogil_loader.memory.estimate import Hints
from nogil_loader.memory.reading import read_memory
from nogil_loader.memory.weigh import size_of

if TYPE_CHECKING:
    from nogil_loader.engine.augment import Augmentation


@dataclass(frozen=True)
class Recipe:
    """The loader's arguments that say what a batch is made of.

    Attributes:
        collate: Makes a batch of a list of samples; None hands a single sample through (``batch_size=None``).
        convert: Applied to the finished batch, such as the hand-over to torch; None for nothing.
        single: The ticket is one sample, not a batch.
        augment: Changes samples before they are collated; None for nothing.
    """

    collate: Callable[[list[Any]], Any] | None
    convert: Callable[[Any], Any] | None = None
    single: bool = False
    augment: Augmentation | None = None

    def bind(self, dataset: Any) -> Kitchen:
        """Choose, once, how this dataset is read."""
        return Kitchen(self, dataset)


class Kitchen:
    """A recipe bound to one dataset object (each worker has its own with ``clone_dataset``)."""

    def __init__(self, recipe: Recipe, dataset: Any) -> None:
        self.dataset = dataset
        self.hints = Hints(dataset)
        self._collate = recipe.collate
        self._convert = recipe.convert
        self._single = recipe.single
        map_style = is_map_style(dataset)
        # A dataset's ready-made batches are what plain stacking gives; padding and the like want the samples.
        stacks = type(recipe.collate) is DefaultCollate and not recipe.collate.per_key
        take = batched_fetch(dataset, "take") if map_style and stacks else None
        self._stream = batched_fetch(dataset, "stream") if map_style else None
        self._fetch_many = batched_fetch(dataset) if map_style and self._stream is None else None
        self._slots = recipe.collate if isinstance(recipe.collate, DefaultCollate) else None
        self._augment = augment = recipe.augment
        self._table: Table | None = None
        if augment is not None:
            table = dataset.table if take is not None else None
            if augment.can_take(table):
                self._table = table
            elif isinstance(dataset, BatchSource):
                self._fetch_many = None  # its samples lie in memory: each is transformed into its slot
            take = None
        self._take = take

    def attempt(
        self, ticket: Ticket, scope: SampleScope, worker_id: int, watch: Watch | None = None
    ) -> Outcome:
        """Load a ticket; whatever is raised on the way comes back as a value.

        Args:
            ticket: What to load.
            scope: The one that is current in the context of the call.
            worker_id: For a failure.
            watch: Told about each sample; it may end the batch early or have it dropped.
        """
        try:
            return self._load(ticket, scope, watch)
        except Halt as halt:
            return halt.outcome
        except BaseException as error:  # noqa: BLE001 - whatever ends a worker has to become an outcome
            return Failure(
                worker_id=worker_id,
                cause=error,
                during=scope.stage,
                offset=_blamed(error, ticket, scope),
                memory=read_memory(),
            )
        finally:
            scope.leave_samples("")

    def _load(self, ticket: Ticket, scope: SampleScope, watch: Watch | None) -> Loaded:
        if ticket.isolate:
            self._try_each_alone(ticket, scope)
        count = len(ticket.keys)
        samples: list[Any] | None = None
        if self._single:
            batch = self._load_single(ticket, scope)
        elif ticket.samples is None and (take := self._taking(scope)) is not None:
            batch = self._take_rows(take, ticket, scope, watch)
        elif ticket.samples is None and self._fetch_many is None and self._slots is not None:
            batch, count = self._fill_slots(self._slots, ticket.keys, scope, watch)
        else:
            samples = self._samples_of(ticket, scope, watch)
            count = len(samples)
            batch = self._collate_read(ticket.keys[:count], samples, scope)
        if self._augment is not None and self._augment.mixes_batches:
            scope.leave_samples(TRANSFORM)
            batch = self._augment.mix(batch, ticket.keys[:count], scope, fresh=self._slots is not None)
        raw = batch
        if self._convert is not None:
            scope.leave_samples(CONVERT)
            batch = self._convert(batch)
        if watch is None and ticket.samples is None:
            samples = None  # nobody asks
        return Loaded(batch, None if count == len(ticket.keys) else count, raw, samples)

    def _taking(self, scope: SampleScope) -> Callable[[Any], Any] | None:
        """Return what makes a batch of keys in one go, None if samples are needed one by one."""
        augment, table = self._augment, self._table
        if augment is None or table is None:
            return self._take
        return lambda keys: augment.take(table, keys, scope)

    def _take_rows(
        self, take: Callable[[Any], Any], ticket: Ticket, scope: SampleScope, watch: Watch | None
    ) -> Any:
        scope.stage = FETCH if self._table is None else TRANSFORM
        try:
            if watch is not None and watch.is_blind(ticket.keys):
                watch.size_up(size_of(take(ticket.keys[:1])))
            return take(ticket.keys)
        except Halt:
            raise
        except Exception:
            self._try_each_alone(ticket, scope)  # to name the sample; reading an array twice does no harm
            raise

    def _fill_slots(
        self, collate: DefaultCollate, keys: list[Any], scope: SampleScope, watch: Watch | None
    ) -> tuple[Any, int]:
        self._size_up_stream(keys, scope, watch)
        dataset, stream, augment = self.dataset, self._open_stream(keys, scope), self._augment
        leaves = None if augment is None else augment.begin(scope)
        slots: Slots | None = None
        count = len(keys)
        for offset, key in enumerate(keys):
            scope.offset = offset
            scope.key = key
            scope.generator = None
            scope.stage = FETCH
            sample = dataset[key] if stream is None else next(stream)
            if augment is not None:
                scope.stage = TRANSFORM
                sample = augment.join(sample, key, scope)
            scope.stage = COLLATE
            if slots is None:
                slots = collate.begin(sample, keys, leaves) if leaves else collate.begin(sample, keys)
                put = slots.put
            put(sample, offset)
            if watch is not None and watch.enough(size_of(sample) + (leaves.extra if leaves else 0)):
                count = offset + 1
                break
            del sample  # not to be held while the next one is made
        scope.leave_samples(COLLATE)
        assert slots is not None  # a ticket has at least one key
        return slots.finish(count), count

    def _samples_of(self, ticket: Ticket, scope: SampleScope, watch: Watch | None) -> list[Any]:
        """The samples of a ticket, all of them or the first ones, in a list that nobody else has."""
        if ticket.samples is not None:
            # In a list of our own: they are needed again if this fails.
            return self._transform_all(ticket.keys, list(ticket.samples), scope)
        if self._fetch_many is None:
            return self._fetch_each(ticket.keys, scope, watch)
        if watch is not None and watch.is_blind(ticket.keys):
            watch.size_up(size_of(self._fetch_all(self._fetch_many, ticket.keys[:1], scope)))
        return self._fetch_all(self._fetch_many, ticket.keys, scope)

    def _fetch_all(
        self, fetch_many: Callable[[Sequence[Any]], Any], keys: list[Any], scope: SampleScope
    ) -> list[Any]:
        scope.leave_samples(FETCH)
        return self._transform_all(keys, fetch_list(self.dataset, fetch_many, keys), scope)

    def _fetch_each(self, keys: list[Any], scope: SampleScope, watch: Watch | None = None) -> list[Any]:
        self._size_up_stream(keys, scope, watch)
        dataset, stream = self.dataset, self._open_stream(keys, scope)
        samples = []
        for offset, key in enumerate(keys):
            scope.offset = offset
            scope.key = key
            scope.generator = None
            scope.stage = FETCH
            sample = dataset[key] if stream is None else next(stream)
            samples.append(self._transform(sample, key, scope))
            if watch is not None and watch.enough(size_of(samples[-1])):
                break
        return samples

    def _size_up_stream(self, keys: list[Any], scope: SampleScope, watch: Watch | None) -> None:
        """Draw one sample first where sizes are unknown: a stream may fetch all that it is asked for at once."""
        if self._stream is not None and watch is not None and watch.is_blind(keys):
            (sample,) = self._fetch_each(keys[:1], scope)
            watch.size_up(size_of(sample))

    def _open_stream(self, keys: list[Any], scope: SampleScope) -> Iterator[Any] | None:
        """Return what gives the samples of ``keys`` in order, if the dataset has such a thing."""
        scope.stage = FETCH
        return None if self._stream is None else iter(self._stream(keys))

    def _collate_read(self, keys: list[Any], samples: list[Any], scope: SampleScope) -> Any:
        scope.leave_samples(COLLATE)
        if self._slots is not None:
            return self._slots.collate(samples, keys)
        assert self._collate is not None
        return self._collate(samples)

    def _transform_all(self, keys: list[Any], samples: list[Any], scope: SampleScope) -> list[Any]:
        if self._augment is not None:
            for offset, key in enumerate(keys):
                scope.offset = offset
                scope.key = key
                scope.generator = None
                samples[offset] = self._transform(samples[offset], key, scope)
        return samples

    def _transform(self, sample: Any, key: Any, scope: SampleScope) -> Any:
        if self._augment is None:
            return sample
        scope.stage = TRANSFORM
        return self._augment.sample(sample, key, scope)

    def _load_single(self, ticket: Ticket, scope: SampleScope) -> Any:
        if ticket.samples is None:
            samples = self._fetch_each(ticket.keys, scope)
        else:
            samples = self._transform_all(ticket.keys, list(ticket.samples), scope)
        if self._collate is None:
            return samples[0]
        scope.leave_samples(COLLATE)
        return self._collate(samples[0])

    def _try_each_alone(self, ticket: Ticket, scope: SampleScope) -> None:
        """Provoke the failure of a single sample, so that it can be named."""
        for offset, key in enumerate(ticket.keys):
            scope.stage = FETCH
            scope.offset = offset
            scope.key = key
            scope.generator = None
            if ticket.samples is not None:
                sample = ticket.samples[offset]
            elif self._fetch_many is not None:
                (sample,) = fetch_list(self.dataset, self._fetch_many, [key])
            else:
                sample = self.dataset[key]
            sample = self._transform(sample, key, scope)
            if self._collate is not None:
                scope.stage = COLLATE
                self._collate(sample if self._single else [sample])


def _blamed(error: BaseException, ticket: Ticket, scope: SampleScope) -> int | None:
    """Which of the ticket's samples is at fault, as far as is known."""
    if scope.offset is not None:
        return scope.offset
    if isinstance(error, CollateError) and error.indices:
        culprit = error.indices[-1]
        # By identity first: keys may be objects whose comparison is slow or raises.
        for offset, key in enumerate(ticket.keys):
            if key is culprit:
                return offset
        return ticket.keys.index(culprit) if culprit in ticket.keys else None
    if len(ticket.keys) == 1:
        return 0
    return None
