"""Leaves whose first axis differs in length from sample to sample.

The rows of all samples are written one after the other into one growing array while they arrive. At the end
that array is the packed batch, or one call of a kernel lays it out as the padded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import HELD_COPY_LIMIT, Slots, native, plain_array
from nogil_loader.memory.buffers import allocate

_dtype_of = attrgetter("dtype")
# What a batch of nothing but empty lists has: the dtype of Python's ints.
_EMPTY_LIST = np.zeros(0, np.int64)


class Ragged(Protocol):
    """Says what a ragged leaf becomes in the batch."""

    def slots(self, path: str, roster: Roster, tensor_dtype: Any = None) -> Slots:
        """Return the slots for arrays of at least one dimension, or lists of numbers.

        Args:
            path: Where in the sample they are.
            roster: Whose slots they are.
            tensor_dtype: The torch dtype whose bits the arrays carry as integers, if numpy has no such dtype.
        """


class Packed(NamedTuple):
    """A packed batch: row after row without gaps.

    Attributes:
        values: ``(total, …)``, all samples one after the other.
        offsets: ``(B + 1,)`` int64; sample ``i`` is ``values[offsets[i] : offsets[i + 1]]``.
    """

    values: Any
    offsets: Any


class PackedSlots(Slots):
    """Gathers ragged arrays row after row.

    Memory grows by doubling from a first guess, which is that all samples are as long as the first. What it
    never writes to is address space and no memory.
    """

    __slots__ = (
        "_array",
        "_capacity",
        "_dtype",
        "_first_shape",
        "_held_length",
        "_item_shape",
        "_max_length",
        "_ndim",
        "_offsets",
        "_path",
        "_roster",
        "_view",
    )

    def __init__(self, path: str, roster: Roster, max_length: int | None) -> None:
        self._path = path
        self._roster = roster
        self._max_length = max_length
        self._offsets = [0] * (roster.size + 1)
        self._forget()

    def _forget(self) -> None:
        self._array: npt.NDArray[Any] | None = None  # until a sample has a dtype, which an empty list has not
        self._held_length = -1

    def put(self, value: Any, position: int) -> None:
        if value.__class__ is ndarray:
            try:
                length = len(value)
                if length <= self._held_length:
                    offsets = self._offsets
                    begin = offsets[position]
                    end = begin + length
                    self._view[begin:end] = value
                    offsets[position + 1] = end
                    return
            except (TypeError, ValueError):  # no dimensions; other ones, another dtype, no room for it
                pass
        self._put_checked(value, position)

    def _put_checked(self, value: Any, position: int) -> None:
        if (
            self._array is None
            or value.__class__ is not ndarray
            or value.dtype is not self._dtype
            or value.ndim != self._ndim
            or (self._item_shape and value.shape[1:] != self._item_shape)
        ):
            value = self._checked(value, position)
        if self._max_length is not None:
            value = value[: self._max_length]
        offsets = self._offsets
        begin = offsets[position]
        offsets[position + 1] = end = begin + len(value)
        if end > begin:
            if end > self._capacity:
                self._grow(begin, end)
            self._array[begin:end] = value  # type: ignore[index]

    def put_all(self, values: Sequence[Any]) -> None:
        first = values[0]
        if self._max_length is None and set(map(type, values)) == {ndarray} and first.ndim:
            same_dtype = {id(first.dtype)} == set(map(id, map(_dtype_of, values)))
            if same_dtype and first.dtype.isnative:
                try:
                    offsets = [0, *accumulate(map(len, values))]
                    self._start(first, offsets[-1])
                    np.concatenate(values, out=self._array)
                except (TypeError, ValueError):
                    self._forget()  # dimensions or shapes differ: put() finds out where
                else:
                    self._offsets = offsets
                    return
        super().put_all(values)

    def _checked(self, value: Any, position: int) -> npt.NDArray[Any] | list[Any]:
        if isinstance(value, (list, tuple)) and not value:
            return []
        array = self._as_array(value, position)
        if self._array is None:
            self._start(array)
        if array.ndim == 0 or array.shape[1:] != self._item_shape:
            raise self._roster.wrong_shape(
                self._path, position, array.shape, self._first_shape, "only the first axis can be ragged"
            )
        if native(array.dtype) != self._dtype:
            raise self._roster.wrong_dtype(self._path, position, array.dtype, self._dtype)
        return array.astype(self._dtype, copy=False)

    def _as_array(self, value: Any, position: int) -> npt.NDArray[Any]:
        if is_row(value):
            try:
                value = np.asarray(value)
            except (ValueError, OverflowError):
                value = np.empty(0, np.object_)
            if value.dtype.kind not in "biufc":
                raise self._roster.refused(
                    self._path, position, "is a list without a common number type", "return an array"
                )
        if not isinstance(value, ndarray):
            raise self._roster.wrong_kind(self._path, position, value, "a ragged array")
        return plain_array(value, self._path, position, self._roster)

    def _start(self, first: npt.NDArray[Any], total: int | None = None) -> None:
        self._dtype = native(first.dtype)
        self._first_shape = first.shape
        self._item_shape = first.shape[1:]
        self._ndim = first.ndim
        if total is None:  # a guess: all are as long as the first
            length = len(first) if first.ndim else 0
            total = self._roster.size * (
                length if self._max_length is None else min(length, self._max_length)
            )
        self._use(allocate((total, *self._item_shape), self._dtype))

    def _grow(self, filled: int, needed: int) -> None:
        small = self._array
        assert small is not None
        large = allocate((max(needed, 2 * len(small)), *self._item_shape), self._dtype)
        large[:filled] = small[:filled]
        self._use(large)

    def _use(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self._capacity = len(array)
        # memoryview takes a third of the time that numpy needs for a slice, and refuses by itself what does not
        # fit. But it has no complex numbers or datetimes, keeps the GIL and knows one dimension only.
        if array.ndim == 1 and array.dtype.kind in "biuf":
            self._view: Any = memoryview(cast(Any, array))
            self._held_length = HELD_COPY_LIMIT // array.itemsize
            if self._max_length is not None:
                self._held_length = min(self._held_length, self._max_length)

    def packed(self, count: int) -> Packed:
        """Return the first ``count`` samples without gaps; memory beyond them may still belong to the array."""
        if self._array is None:
            self._start(_EMPTY_LIST)
        assert self._array is not None
        offsets = allocate((count + 1,), np.dtype(np.int64))
        offsets[:] = self._offsets[: count + 1]
        return Packed(self._array[: self._offsets[count]], offsets)

    def finish(self, count: int) -> Any:
        values, offsets = self.packed(count)
        assert self._array is not None
        # A quarter more address space than data is not worth a copy; more of it may have been written to.
        if len(self._array) > 1.25 * len(values):
            exact = allocate(values.shape, values.dtype)
            exact[...] = values
            values = exact
        return Packed(values, offsets)

    def row(self, position: int) -> Any:
        if self._array is None:
            return _EMPTY_LIST.copy()
        return self._array[self._offsets[position] : self._offsets[position + 1]].copy()


def is_row(value: Any) -> bool:
    """Say whether ``value`` is a list or tuple of Python or numpy numbers, an empty one included.

    The first item tells: whether the others are numbers too is seen when the list becomes an array.
    """
    return (
        isinstance(value, (list, tuple))
        and not hasattr(value, "_fields")
        and (not value or kind_of(value[0]) == "number" or is_row(value[0]))
    )
