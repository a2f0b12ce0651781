"""Loaders as a measurement sees them: epochs of batches, and how many samples have come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from nogil_loader.bench.subject import Subject
from nogil_loader.data.protocols import batched_fetch, fetch_list
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.engine.statistics import Statistics
from nogil_loader.errors import LoaderError
from nogil_loader.loader import DataLoader
from nogil_loader.testing import sample_scope


class Feed(Protocol):
    """A loader that is read epoch after epoch."""

    @property
    def note(self) -> str:
        """What a reader of the figures has to know."""

    def epoch(self) -> Iterator[Any]:
        """Begin an epoch."""

    def delivered(self) -> int:
        """Samples that came so far, in all epochs."""

    def close(self) -> None:
        """End its workers."""


@dataclass(frozen=True)
class Totals:
    """What our loader did in all epochs so far.

    Attributes:
        stages: Worker-seconds by stage.
        waited: Seconds that the consumer waited.
    """

    stages: Counter[str]
    waited: float

    def since(self, earlier: Totals) -> Totals:
        """Return what was added."""
        stages = {name: max(0.0, seconds - earlier.stages[name]) for name, seconds in self.stages.items()}
        return Totals(Counter(stages), max(0.0, self.waited - earlier.waited))


class OurFeed:
    """Our loader.

    Args:
        loader: Not iterated yet.
    """

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self._iterator: LoaderIterator | None = None
        self._ended = 0
        self._longest = Statistics()
        self._stages: Counter[str] = Counter()
        self._waited = 0.0

    @property
    def note(self) -> str:
        """What a reader of the figures has to know."""
        skipped = self.loader.totals.skipped
        return f"{skipped:,} samples were left out, since they raised" if skipped else ""

    def epoch(self) -> Iterator[Any]:
        """Begin an epoch."""
        self._end_epoch()
        self._iterator = iter(self.loader)
        return self._iterator

    def _end_epoch(self) -> None:
        now = self.now()
        self._ended += now.delivered
        self._stages.update(now.stages.as_dict())
        self._waited += now.consumer_wait
        if now.batches >= self._longest.batches:
            self._longest = now
        self._iterator = None

    def now(self) -> Statistics:
        """The statistics of the present epoch."""
        return Statistics() if self._iterator is None else self._iterator.statistics()

    def typical(self) -> Statistics:
        """The statistics of the epoch with the most batches."""
        now = self.now()
        return now if now.batches >= self._longest.batches else self._longest

    def delivered(self) -> int:
        """Samples that came so far, in all epochs."""
        return self._ended + (0 if self._iterator is None else self._iterator.statistics().delivered)

    def totals(self) -> Totals:
        """What was done so far, in all epochs."""
        now = self.now()
        stages = Counter(now.stages.as_dict())
        stages.update(self._stages)
        return Totals(stages, self._waited + now.consumer_wait)

    def close(self) -> None:
        """End its workers."""
        self._iterator = None
        self.loader.close()


class Plan:
    """The batches of each epoch as lists of keys, for loaders that are given them; and their number of samples.

    Args:
        subject: Map-style.
        batch_size: None for the subject's own.
        seed: Of the order, where it is shuffled.
    """

    def __init__(self, subject: Subject, batch_size: int | None, seed: int) -> None:
        arguments = subject.arguments
        self.batch_size = arguments.get("batch_size", 1) if batch_size is None else batch_size
        self.single = self.batch_size is None and arguments.get("batch_sampler") is None
        self._subject = subject
        self._rng = np.random.default_rng(seed)
        self._sizes: list[int] = []
        self._delivered = 0
        self._samples = 0

    def __iter__(self) -> Iterator[list[Any]]:
        """Begin an epoch: its batches."""
        self._sizes, self._delivered = [], 0
        return self._count(self._batches())

    def _count(self, batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
        sizes = self._sizes
        for batch in batches:
            sizes.append(len(batch))
            yield batch

    def _batches(self) -> Iterator[list[Any]]:
        arguments = self._subject.arguments
        if arguments.get("batch_sampler") is not None:
            yield from map(list, arguments["batch_sampler"])
            return
        keys = iter(self._keys())
        size = self.batch_size or 1
        while batch := list(islice(keys, size)):
            if len(batch) == size or not arguments.get("drop_last"):
                yield batch

    def _keys(self) -> Iterable[Any]:
        arguments, length = self._subject.arguments, self._subject.length
        sampler: Iterable[Any] | None = arguments.get("sampler")
        if sampler is not None:
            return sampler
        assert length is not None, "asked for before"
        if arguments.get("shuffle"):
            order: list[int] = self._rng.permutation(length).tolist()
            return order
        return range(length)

    def arrived(self) -> None:
        """Count the next batch of the epoch.

        Raises:
            LoaderError: It was not planned.
        """
        if self._delivered >= len(self._sizes):
            raise LoaderError(f"batch {self._delivered} of the epoch came, and was not planned")
        self._samples += self._sizes[self._delivered]
        self._delivered += 1

    def check_complete(self) -> None:
        """Refuse an epoch that ended before all that was planned has come.

        Raises:
            LoaderError: As said.
        """
        if self._delivered != len(self._sizes):
            raise LoaderError(f"the epoch ended after {self._delivered} of {len(self._sizes)} batches")

    @property
    def samples(self) -> int:
        """Samples that came so far, in all epochs."""
        return self._samples


class InScope:
    """A dataset whose samples draw random numbers by ``sample_rng``, for a loader that knows nothing of it.

    Args:
        dataset: Map-style.
        seed: Of the numbers.
    """

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset = dataset
        self._seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, key: Any) -> Any:
        with sample_scope(seed=self._seed, index=key):
            return self.dataset[key]


def as_read_by_peers(dataset: Any, seed: int) -> Any:
    """Return a dataset as other loaders can read it: where it asks for ``sample_rng``, in a scope that has it."""
    try:
        dataset[0]
    except RuntimeError as error:
        if "sample_rng() was called outside" in str(error):
            return InScope(dataset, seed)
    except Exception:  # noqa: BLE001, S110 - it will be told of the sample that raises when it is measured
        pass
    return dataset


class Load:
    """Makes a batch of keys, as a worker of a peer does.

    Args:
        dataset: Map-style.
        collate: From a list of samples to a batch; None hands single samples through.

    Attributes:
        failed: The key of the sample that could not be read, if one could not.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self.dataset = dataset
        self.failed: Any = None
        self._collate = collate
        self._fetch = batched_fetch(dataset)

    def __call__(self, keys: Sequence[Any]) -> Any:
        """Return the batch."""
        if self._collate is None:
            return self._read(keys[0])
        if self._fetch is not None:
            return self._collate(fetch_list(self.dataset, self._fetch, keys))
        return self._collate([self._read(key) for key in keys])

    def _read(self, key: Any) -> Any:
        try:
            return self.dataset[key]
        except BaseException:
            self.failed = key
            raise


class PeerFeed:
    """Another loader.

    Args:
        loader: Iterated once for each epoch; gives the batches of the plan in order.
        plan: What it is to load.
        note: How it is driven.
        load: What its threads call; None for a loader that reads the dataset itself.
    """

    def __init__(self, loader: Iterable[Any], plan: Plan, note: str, load: Load | None = None) -> None:
        self.note = note
        self._loader: Iterable[Any] | None = loader
        self._plan = plan
        self._load = load

    @property
    def failed(self) -> Any:
        """The key of the sample that could not be read; None if that is not known."""
        return None if self._load is None else self._load.failed

    def epoch(self) -> Iterator[Any]:
        """Begin an epoch."""
        assert self._loader is not None, "closed"
        for batch in self._loader:
            self._plan.arrived()
            yield batch
        self._plan.check_complete()

    def delivered(self) -> int:
        """Samples that came so far, in all epochs."""
        return self._plan.samples

    def close(self) -> None:
        """Let go of the loader, whose workers end with it."""
        self._loader = None
