"""What counts as a dataset, and the ways in which a dataset may be read.

Everything here decides by looking at a dataset, never by calling its ``__getitem__``: a probe call could be
slow, could open a file in the wrong thread, or could fail for reasons of its own.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nogil_loader.checks import as_count
from nogil_loader.errors import DatasetError, describe

Sample = TypeVar("Sample", covariant=True)


@runtime_checkable
class MapDataset(Protocol[Sample]):
    """A dataset that is asked for one sample by its index or key.

    It may have more, and what it has is used: ``__getitems__(indices) -> list`` fetches a whole batch of
    samples in one call (see `batched_fetch`).
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Sample: ...


@runtime_checkable
class IterableDataset(Protocol[Sample]):
    """A dataset that can only be read from its beginning. ``__len__`` is optional."""

    def __iter__(self) -> Iterator[Sample]: ...


@dataclass(frozen=True)
class Table:
    """Arrays whose rows are the samples of a dataset.

    Attributes:
        columns: Key in a sample → the array; None for the key where a sample is nothing but the row.
        locate: From indices of the dataset to rows, int64, each of them checked.
        assemble: From one value for each column, in order, to what has the structure of a sample.
    """

    columns: Mapping[Hashable | None, NDArray[Any]]
    locate: Callable[[Sequence[Any]], NDArray[np.int64]]
    assemble: Callable[[Sequence[Any]], Any]


class BatchSource(ABC):
    """A map-style dataset over data at hand that can write a whole collated batch itself.

    Found by inheritance and not by the method's name, because arrays, tensors, data frames and datasets of
    other libraries have a ``take`` that means something else.
    """

    @property
    @abstractmethod
    def take(self) -> Callable[[Any], Any] | None:
        """Function from indices to what the default collate would make of their samples.

        None when this particular dataset cannot do it.
        """

    @property
    def table(self) -> Table | None:
        """The arrays that ``take`` reads; None when it reads something else."""
        return None


class SampleStream(ABC):
    """A map-style dataset that fetches many samples at once and then hands them over one by one.

    What user code does to a sample, it does when that sample is drawn. So whoever draws can say beforehand
    which sample is next: its random generator is the right one, and if it fails, it can be named.
    """

    @property
    @abstractmethod
    def stream(self) -> Callable[[Sequence[Any]], Iterator[Any]] | None:
        """Function from indices to an iterator over exactly their samples, in order.

        None when nothing is gained over asking for the samples singly.
        """


def is_map_style(dataset: object) -> bool:
    """Whether samples are fetched by index or key (``dataset[key]``) rather than by iterating.

    Lists, dicts, arrays and tensors are map-style. What inherits torch's ``IterableDataset`` is not, and
    neither is a torch ``Dataset`` whose only ``__getitem__`` is the inherited one that raises.
    """
    getitem = getattr(type(dataset), "__getitem__", None)
    if getitem is None:
        return False
    # A torch dataset can only exist where torch has been imported, so there is no need to import it to ask.
    torch_dataset = sys.modules.get("torch.utils.data.dataset")
    inherited_stub = getattr(getattr(torch_dataset, "Dataset", None), "__getitem__", None)
    torch_iterable = getattr(torch_dataset, "IterableDataset", ())
    return getitem is not inherited_stub and not isinstance(dataset, torch_iterable)


def check_dataset(dataset: object, name: str = "dataset") -> None:
    """Refuse what can be read neither by index nor by iterating.

    Args:
        dataset: What the caller passed.
        name: The argument's name, for the message.

    Raises:
        TypeError: ``dataset`` has neither ``__getitem__`` nor ``__iter__``, or is a class.
    """
    if isinstance(dataset, type):
        raise TypeError(f"{name}={dataset.__name__}: this is the class itself; pass an instance of it")
    if isinstance(dataset, str | bytes):
        raise TypeError(
            f"{name}={describe(dataset, 200)}: expected a dataset, not {type(dataset).__name__}; samples would be "
            f"its single characters"
        )
    if is_map_style(dataset) or getattr(type(dataset), "__iter__", None) is not None:
        return
    kind = type(dataset).__name__
    missing = "defines neither __getitem__ nor __iter__"
    raise TypeError(
        f"{name}={describe(dataset, 200)}: {kind} {missing}. A map-style dataset needs __getitem__ (and "
        f"__len__), an iterable one needs __iter__"
    )


def check_map_style(dataset: object, name: str = "dataset") -> None:
    """Refuse what cannot be read by index or key.

    Raises:
        TypeError: ``dataset`` is iterable only, or no dataset at all.
    """
    check_dataset(dataset, name)
    if not is_map_style(dataset):
        raise TypeError(
            f"{name}={describe(dataset, 200)}: expected a map-style dataset (with __getitem__), but "
            f"{type(dataset).__name__} can only be iterated"
        )


def dataset_length(dataset: object) -> int | None:
    """Return the number of samples, or None when the dataset does not tell.

    ``__len__`` is called directly, because ``len()`` cannot return more than ``sys.maxsize`` and some
    endless datasets say so.

    Raises:
        TypeError: ``__len__`` returned something that is not an integer.
        ValueError: ``__len__`` returned a negative number.
    """
    length_of = getattr(type(dataset), "__len__", None)
    if length_of is None:
        return None
    try:
        length = length_of(dataset)
    except (TypeError, NotImplementedError):
        return None
    return as_count(f"len({type(dataset).__name__})", length, least=0)


def as_positional(name: str, dataset: object) -> int:
    """Return the length of a dataset that can be read at positions 0 … length - 1.

    Raises:
        TypeError: ``dataset`` is not map-style, does not tell its length, or is a mapping, whose keys need
            not be positions.
    """
    check_map_style(dataset, name)
    if isinstance(dataset, Mapping):
        raise TypeError(
            f"{name}={describe(dataset, 200)}: a {type(dataset).__name__} is read by key, not by position; "
            f"Subset(mapping, list(mapping)) gives its values positions"
        )
    length = dataset_length(dataset)
    if length is None:
        raise TypeError(f"{name}={describe(dataset, 200)}: {type(dataset).__name__} does not tell its length")
    return length


# Methods that a dataset has only by inheriting the class that says what they mean.
_DECLARED = {"take": BatchSource, "stream": SampleStream}


def batched_fetch(dataset: object, name: str = "__getitems__") -> Callable[[Sequence[Any]], Any] | None:
    """Return the dataset's method that fetches many samples in one call, or None if it must not be used.

    The method counts only if it knows about the ``__getitem__`` in force. It does not when a subclass
    overrides ``__getitem__`` alone, nor when a wrapper forwards unknown attributes to the dataset that it
    wraps; using it then would silently bypass the override.

    Args:
        dataset: A map-style dataset.
        name: ``"__getitems__"``: indices to a list of samples; ``"take"``: indices to a collated batch, only
            of a `BatchSource`; ``"stream"``: indices to an iterator over samples, only of a `SampleStream`.
    """
    overrides = {"__getitem__"}
    if name in _DECLARED:
        if not isinstance(dataset, _DECLARED[name]):
            return None
        overrides.add("__getitems__")
    if name not in getattr(dataset, "__dict__", ()):
        for cls in type(dataset).__mro__:
            if name in vars(cls):
                break
            if not overrides.isdisjoint(vars(cls)):
                return None
        else:
            return None
    method = getattr(dataset, name)
    return method if callable(method) else None


def fetch_list(dataset: Any, fetch: Callable[[Sequence[Any]], Any], keys: Sequence[Any]) -> list[Any]:
    """Fetch many samples in one call and check their number.

    Args:
        dataset: For the message.
        fetch: The dataset's ``__getitems__``.
        keys: Passed as a list of its own, since a dataset may sort or empty the one it is given.

    Returns:
        The samples, in a fresh list.

    Raises:
        DatasetError: A wrong number of samples came back.
    """
    fetched = fetch(list(keys))
    kind = type(dataset).__name__
    if isinstance(fetched, Mapping | Set | str | bytes) or not isinstance(fetched, Iterable):
        raise DatasetError(
            f"{kind}.__getitems__ was asked for {len(keys)} samples and returned a {type(fetched).__name__}; it "
            f"has to return a list with one sample for each index, in the same order"
        )
    samples = list(fetched)
    if len(samples) != len(keys):
        raise DatasetError(
            f"{kind}.__getitems__ was asked for {len(keys)} samples and returned "
            f"{len(samples)}; it has to return one for each index, in the same order"
        )
    return samples


def batched_stream(dataset: Any) -> Callable[[Sequence[Any]], Iterator[Any]] | None:
    """Return a function that fetches many samples in one call and iterates over them, or None.

    None also for a `BatchSource`: its samples lie in memory, and fetching them in one call gains nothing.
    """
    stream = batched_fetch(dataset, "stream")
    if stream is not None:
        return stream
    fetch = batched_fetch(dataset)
    if fetch is None or isinstance(dataset, BatchSource):
        return None
    return lambda keys: _draw(dataset, fetch, keys)


def stream_samples(dataset: Any, keys: Sequence[Any]) -> Iterator[Any]:
    """Iterate over the samples of ``keys``, fetched in one call where that pays, else as they are drawn.

    Raises:
        DatasetError: ``__getitems__`` returned a wrong number of samples.
    """
    stream = batched_stream(dataset)
    if stream is not None:
        return stream(keys)
    return (dataset[key] for key in keys)


def _draw(dataset: Any, fetch: Callable[[Sequence[Any]], Any], keys: Sequence[Any]) -> Iterator[Any]:
    # Fetched now, not when the first sample is drawn, so that a failure of the whole batch is not blamed on
    # that sample.
    samples = fetch_list(dataset, fetch, keys)
    samples.reverse()
    return _emptied(samples)


def _emptied(samples: list[Any]) -> Iterator[Any]:
    # Handed over without keeping them: whoever draws decides how long a sample lives.
    while samples:
        yield samples.pop()
