"""Datasets of users and of other libraries, as small as they can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nogil_loader.data import Concat, Mapper, Sampled, Shuffled, Subset, Window, Zip


class OneByOne:
    """A dataset over a list that fetches single samples."""

    def __init__(self, samples: Sequence[Any]) -> None:
        self.samples = list(samples)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Batched(OneByOne):
    """A dataset that fetches many samples in one call, and remembers for what it was asked."""

    def __init__(self, samples: Sequence[Any]) -> None:
        super().__init__(samples)
        self.asked: list[list[Any]] = []

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.asked.append(list(indices))
        return [self.samples[index] for index in indices]


class OneTooFew(OneByOne):
    """A dataset whose batched fetch forgets a sample."""

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self.samples[index] for index in indices[1:]]


class Forwarding:
    """A wrapper that passes on whatever it does not define itself, as proxies do."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet while this is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __getitem__(self, index: int) -> Any:
        return -self.inner[index]


class Stream:
    """A dataset that can only be iterated."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Unsized:
    """A map-style dataset without a length, read by key."""

    def __getitem__(self, key: str) -> str:
        return key.upper()


def double(sample: int) -> int:
    return 2 * sample


def every_kind(dataset: Any) -> list[Any]:
    """One of each of the datasets that are made from others, over a dataset of at least three numbers."""
    return [
        Mapper(dataset, double),
        Subset(dataset, [2, 0, 1]),
        Shuffled(dataset, 3),
        Sampled(dataset, 3, seed=3),
        Concat([[7], dataset]),
        Zip(dataset, range(len(dataset))),
        Window(dataset, 2, drop_last=False),
    ]
