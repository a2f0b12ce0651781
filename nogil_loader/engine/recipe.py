"""How a ticket becomes a batch: fetch, collate, convert, written once.

A recipe holds no state of its own and may be used by any number of threads at once. While it works it keeps
a ``SampleScope`` up to date, so that whoever looks, the watchdog or an error message, knows which sample is
being loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nogil_loader.collate import DefaultCollate, Slots
from nogil_loader.data.protocols import batched_fetch, fetch_list, is_map_style
from nogil_loader.engine.outcome import Failure, Loaded, Outcome
from nogil_loader.engine.scope import SampleScope
from nogil_loader.engine.ticket import Ticket
from nogil_loader.errors import CollateError
from nogil_loader.memory.reading import read_memory

FETCH = "fetch"
COLLATE = "collate"
CONVERT = "output conversion"


@dataclass(frozen=True)
class Recipe:
    """The loader's arguments that say what a batch is made of.

    Attributes:
        collate: Makes a batch of a list of samples; None hands a single sample through (``batch_size=None``).
        convert: Applied to the finished batch, such as the hand-over to torch; None for nothing.
        single: The ticket is one sample, not a batch.
    """

    collate: Callable[[list[Any]], Any] | None
    convert: Callable[[Any], Any] | None = None
    single: bool = False

    def bind(self, dataset: Any) -> Kitchen:
        """Choose, once, how this dataset is read."""
        return Kitchen(self, dataset)


class Kitchen:
    """A recipe bound to one dataset object (each worker has its own with ``clone_dataset``)."""

    def __init__(self, recipe: Recipe, dataset: Any) -> None:
        self.dataset = dataset
        self._collate = recipe.collate
        self._convert = recipe.convert
        self._single = recipe.single
        map_style = is_map_style(dataset)
        # A dataset's ready-made batches are what plain stacking gives; padding and the like want the samples.
        stacks = type(recipe.collate) is DefaultCollate and not recipe.collate.per_key
        self._take = batched_fetch(dataset, "take") if map_style and stacks else None
        self._stream = batched_fetch(dataset, "stream") if map_style else None
        self._fetch_many = batched_fetch(dataset) if map_style and self._stream is None else None
        self._slots = recipe.collate if isinstance(recipe.collate, DefaultCollate) else None

    def attempt(self, ticket: Ticket, scope: SampleScope, worker_id: int) -> Outcome:
        """Load a ticket; whatever is raised on the way comes back as a value.

        ``scope`` is the one that is current in the context of the call.
        """
        try:
            return Loaded(self._load(ticket, scope))
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

    def _load(self, ticket: Ticket, scope: SampleScope) -> Any:
        if ticket.isolate:
            self._try_each_alone(ticket, scope)
        if self._single:
            batch = self._load_single(ticket, scope)
        elif ticket.samples is not None:
            batch = self._collate_read(ticket, ticket.samples, scope)
        elif self._slots is not None and self._take is not None:
            scope.stage = FETCH
            try:
                batch = self._take(ticket.keys)
            except Exception:
                self._try_each_alone(ticket, scope)  # to name the sample; reading an array twice does no harm
                raise
        elif self._fetch_many is not None:
            scope.stage = FETCH
            samples = fetch_list(self.dataset, self._fetch_many, ticket.keys)
            batch = self._collate_read(ticket, samples, scope)
        elif self._slots is not None:
            batch = self._fill_slots(self._slots, ticket.keys, scope)
        else:
            batch = self._collate_read(ticket, self._fetch_each(ticket.keys, scope), scope)
        if self._convert is not None:
            scope.leave_samples(CONVERT)
            batch = self._convert(batch)
        return batch

    def _fill_slots(self, collate: DefaultCollate, keys: list[Any], scope: SampleScope) -> Any:
        dataset, stream = self.dataset, self._open_stream(keys, scope)
        slots: Slots | None = None
        for offset, key in enumerate(keys):
            scope.offset = offset
            scope.key = key
            scope.generator = None
            scope.stage = FETCH
            sample = dataset[key] if stream is None else next(stream)
            scope.stage = COLLATE
            if slots is None:
                slots = collate.begin(sample, keys)
                put = slots.put
            put(sample, offset)
            del sample  # not to be held while the next one is made
        scope.leave_samples(COLLATE)
        assert slots is not None  # a ticket has at least one key
        return slots.finish(len(keys))

    def _fetch_each(self, keys: list[Any], scope: SampleScope) -> list[Any]:
        dataset, stream = self.dataset, self._open_stream(keys, scope)
        samples = []
        for offset, key in enumerate(keys):
            scope.offset = offset
            scope.key = key
            scope.generator = None
            samples.append(dataset[key] if stream is None else next(stream))
        return samples

    def _open_stream(self, keys: list[Any], scope: SampleScope) -> Iterator[Any] | None:
        """Return what gives the samples of ``keys`` in order, if the dataset has such a thing."""
        scope.stage = FETCH
        return None if self._stream is None else iter(self._stream(keys))

    def _collate_read(self, ticket: Ticket, samples: list[Any], scope: SampleScope) -> Any:
        scope.leave_samples(COLLATE)
        if self._slots is not None:
            return self._slots.collate(samples, ticket.keys)
        assert self._collate is not None
        # A copy where the ticket itself holds the samples, since they are needed again if this fails.
        return self._collate(list(samples) if samples is ticket.samples else samples)

    def _load_single(self, ticket: Ticket, scope: SampleScope) -> Any:
        samples = self._fetch_each(ticket.keys, scope) if ticket.samples is None else ticket.samples
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
