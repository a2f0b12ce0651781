"""Where the keys of an epoch come from: the built-in orders, and what a user hands in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
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

    def resized(self, length: int) -> SequentialSampler:
        """Return the same kind of order over another length."""
        return SequentialSampler(length)

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

    def resized(self, length: int) -> RandomSampler:
        """Return the same kind of order over another length."""
        return RandomSampler(length, self.seed)

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

    def open(self, epoch: int, *, announce: bool = True) -> Iterator[Any]:
        """Start an epoch: ``set_epoch`` if there is one, ``iter``, and the first key, which is kept.

        Args:
            epoch: The epoch, from 0.
            announce: Call ``set_epoch``.

        Raises:
            ValueError: The sampler is an iterator that was used up before.
        """
        return _open("sampler", self.sampler, epoch, announce)


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

    def open(self, epoch: int, *, announce: bool = True) -> Iterator[list[Any]]:
        """Start an epoch as ``UserSampler.open`` does; the batches come checked and as fresh lists.

        Raises:
            ValueError: The batch sampler is an iterator that was used up before.
        """
        batches = _open("batch_sampler", self.batch_sampler, epoch, announce)
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
    if getattr(key, "shape", None) != ():
        return False
    dtype = getattr(key, "dtype", None)
    if isinstance(dtype, np.dtype):  # numpy, and whoever uses its dtypes, such as jax
        return dtype.kind in "iu"
    return str(dtype).removeprefix("torch.").startswith(("int", "uint"))


def _check_iterable(name: str, value: Any, expected: str) -> None:
    if isinstance(value, type):
        raise TypeError(f"{name}={value.__name__}: this is the class itself; pass an instance of it")
    # An object with the old protocol (__getitem__ and IndexError) is iterable too and has no __iter__.
    if not hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
        raise TypeError(f"{name}={describe(value, 200)}: expected {expected}, not {type(value).__name__}")


def _open(name: str, source: Any, epoch: int, announce: bool) -> Iterator[Any]:
    set_epoch = getattr(source, "set_epoch", None)
    if announce and set_epoch is not None:
        set_epoch(epoch)
    iterator = iter(source)
    # The body of a generator runs at its first next(). One that reads self.epoch there would read the epoch of
    # another iterator of the loader if that was opened in between, so the first item is drawn at once.
    try:
        first = next(iterator)
    except StopIteration:
        if iterator is not source:
            return iter(())
    else:
        return _go_on(first, iterator)
    raise ValueError(
        f"{name}={describe(source, 200)}: an iterator that has nothing (more) to give, so epoch {epoch} "
        f"would be empty; give an iterable that starts anew at each iter(), such as a list or an object "
        f"whose __iter__ is a generator function"
    )


def _go_on(first: Any, iterator: Iterator[Any]) -> Iterator[Any]:
    # Not itertools.chain and not a for loop, which call iter() once more. An iterator whose __iter__ starts anew
    # would give the first item twice.
    yield first
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        yield item


def _as_batch(number: int, batch: Any) -> list[Any]:
    # Sets and mappings can be iterated, but the order of a set is no plan and a mapping is no list of keys;
    # a string is nearly always a sampler that was meant to be sampler=.
    refused = isinstance(batch, str | bytes | bytearray | Mapping | Set)
    # A 0-d array has __iter__ too, to say that it has none.
    if refused or not hasattr(batch, "__iter__") or getattr(batch, "shape", None) == ():
        raise TypeError(
            f"batch_sampler: batch {number} is {describe(batch, 200)}, of type {type(batch).__name__}; "
            f"expected a list of dataset keys (an iterable of single keys is a sampler=)"
        )
    keys = list(batch)
    if not keys:
        raise ValueError(f"batch_sampler: batch {number} is empty; expected at least one dataset key")
    return plain_keys(keys)
