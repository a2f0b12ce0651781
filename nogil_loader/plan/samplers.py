"""Where the keys of an epoch come from: the built-in orders, and what a user hands in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.errors import describe
from nogil_loader.plan.mixing import MASK64
from nogil_loader.plan.permutation import Int64Array, Permutation


class Order(Protocol):
    """The dataset indices of one epoch, by position."""

    def indices(self, start: int, stop: int) -> Int64Array:
        """Return the dataset indices at positions ``start`` to ``stop``, shape ``(stop - start,)``, int64."""


class Ascending:
    """The order of counting."""

    def indices(self, start: int, stop: int) -> Int64Array:
        """Return ``start`` to ``stop`` as an array, shape ``(stop - start,)``, int64."""
        return np.arange(start, stop, dtype=np.int64)


class SequentialSampler:
    """Every index of ``range(length)`` in ascending order, in every epoch."""

    kind: ClassVar[str] = "sequential"
    keyed: ClassVar[bool] = False

    def __init__(self, length: int) -> None:
        self.length = as_count("length", length, least=0)

    def order(self, epoch: int) -> Order:
        """Return the order of an epoch, which is always the same."""
        return Ascending()


class RandomSampler:
    """Every index of ``range(length)`` in an order that is a pure function of (seed, epoch)."""

    kind: ClassVar[str] = "random"
    keyed: ClassVar[bool] = False

    def __init__(self, length: int, seed: int) -> None:
        self.length = as_count("length", length, least=0)
        self.seed = as_count("seed", seed, least=0, most=MASK64)

    def order(self, epoch: int) -> Order:
        """Return the order of an epoch."""
        return Permutation(self.length, self.seed, epoch)


class UserSampler:
    """An iterable of dataset keys of any type, handed in by the user.

    Raises:
        TypeError: ``sampler`` is not iterable.
    """

    kind: ClassVar[str] = "sampler"
    keyed: ClassVar[bool] = True

    def __init__(self, sampler: Iterable[Any]) -> None:
        _check_iterable("sampler", sampler, "an iterable of dataset keys")
        self.sampler = sampler

    @property
    def length(self) -> int | None:
        """How many keys an epoch has, None if the sampler does not say."""
        return length_of(self.sampler)

    def open(self, epoch: int) -> Iterator[Any]:
        """Start an epoch: ``set_epoch`` if there is one, ``iter``, and the first key, which is kept.

        Raises:
            ValueError: The sampler is an iterator that was used up before.
        """
        return _open("sampler", self.sampler, epoch)


class UserBatchSampler:
    """An iterable of batches of dataset keys, handed in by the user.

    Raises:
        TypeError: ``batch_sampler`` is not iterable.
    """

    kind: ClassVar[str] = "batch_sampler"
    keyed: ClassVar[bool] = True

    def __init__(self, batch_sampler: Iterable[Any]) -> None:
        _check_iterable("batch_sampler", batch_sampler, "an iterable of lists of dataset keys")
        self.batch_sampler = batch_sampler

    @property
    def batches(self) -> int | None:
        """How many batches an epoch has, None if the batch sampler does not say."""
        return length_of(self.batch_sampler)

    def open(self, epoch: int) -> Iterator[list[Any]]:
        """Start an epoch as ``UserSampler.open`` does; the batches come checked and as fresh lists.

        Raises:
            ValueError: The batch sampler is an iterator that was used up before.
        """
        batches = _open("batch_sampler", self.batch_sampler, epoch)
        return (_as_batch(number, batch) for number, batch in enumerate(batches))


Sampler: TypeAlias = SequentialSampler | RandomSampler | UserSampler | UserBatchSampler


def length_of(sized: Any) -> int | None:
    """Return ``len(sized)``, or None where there is none.

    An object may have a ``__len__`` that raises TypeError or NotImplementedError to say that it has none.
    """
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def plain_keys(keys: list[Any]) -> list[Any]:
    """Return keys with 0-d integers of array libraries turned into int and all others as they are.

    Datasets index lists and dicts with them, write them into file names and send them as JSON, where
    ``np.int64(3)`` or ``tensor(3)`` is not the same as 3.
    """
    if set(map(type, keys)) <= {int, str}:
        return keys
    return [int(key) if _is_scalar_integer(key) else key for key in keys]


def _is_scalar_integer(key: Any) -> bool:
    if isinstance(key, np.integer):
        return not isinstance(key, np.timedelta64)
    # 0-d arrays of numpy, torch, jax … alike: the name of the dtype is int64 or torch.int64.
    if getattr(key, "shape", None) != ():
        return False
    name = str(getattr(key, "dtype", "")).rpartition(".")[2]
    return name.startswith(("int", "uint"))


def _check_iterable(name: str, value: Any, expected: str) -> None:
    # An object with the old protocol (__getitem__ and IndexError) is iterable too and has no __iter__.
    if not hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
        raise TypeError(f"{name}={describe(value, 200)}: expected {expected}, not {type(value).__name__}")


def _open(name: str, source: Any, epoch: int) -> Iterator[Any]:
    set_epoch = getattr(source, "set_epoch", None)
    if set_epoch is not None:
        set_epoch(epoch)
    iterator = iter(source)
    # The body of a generator runs at its first next(). One that reads self.epoch there would read the epoch of
    # another iterator of the loader if that was opened in between, so the first item is drawn at once.
    for first in iterator:
        return chain([first], iterator)
    if iterator is source:
        raise ValueError(
            f"{name}={describe(source, 200)}: an iterator that has nothing (more) to give, so epoch {epoch} "
            f"would be empty; give an iterable that starts anew at each iter(), such as a list or an object "
            f"whose __iter__ is a generator function"
        )
    return iter(())


def _as_batch(number: int, batch: Any) -> list[Any]:
    # Sets and mappings can be iterated, but the order of a set is no plan and a mapping is no list of keys;
    # a string is nearly always a sampler that was meant to be sampler=.
    if isinstance(batch, str | bytes | bytearray | Mapping | Set) or not hasattr(batch, "__iter__"):
        raise TypeError(
            f"batch_sampler: batch {number} is {describe(batch, 200)}, of type {type(batch).__name__}; "
            f"expected a list of dataset keys (an iterable of single keys is a sampler=)"
        )
    keys = list(batch)
    if not keys:
        raise ValueError(f"batch_sampler: batch {number} is empty; expected at least one dataset key")
    return plain_keys(keys)
