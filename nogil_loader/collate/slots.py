"""Leaves of a sample tree: where the values of all samples at one place of the tree are gathered.

Every class here has the three methods of `Slots`. ``put`` is called once for every value of every sample,
with the GIL held, so each begins with the cheapest test that proves the value to be like the first one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy import ndarray  # a look-up in numpy's large module takes a sixth of the time of put()

from nogil_loader.collate.kinds import PYTHON_NUMBERS, kind_of
from nogil_loader.collate.roster import Roster
from nogil_loader.memory.buffers import allocate

# A copy up to this size takes about 3 µs. Done with the GIL held it is twice as fast as numpy's assignment,
# and beside a busy Python thread it does not have to wait for the GIL afterwards (measured: 5.6 µs a row with
# the GIL released, 3.2 µs held, at 64 KiB; the other way round where nothing else runs, at 256 KiB).
HELD_COPY_LIMIT = 64 << 10


class Slots(ABC):
    """Gathers what the samples of a batch have at one place of their trees."""

    __slots__ = ()

    @abstractmethod
    def put(self, value: Any, position: int) -> None:
        """Write ``value`` into the slot at ``position``; a slot may be written again."""

    def put_all(self, values: Sequence[Any]) -> None:
        """Write the values of all slots, which is the same as to `put` them one by one, only faster."""
        for position, value in enumerate(values):
            self.put(value, position)

    @abstractmethod
    def finish(self, count: int) -> Any:
        """Return the first ``count`` slots as they stand in the batch."""

    @abstractmethod
    def row(self, position: int) -> Any:
        """Return what is in one slot, as a sample has it, in memory of its own."""


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return ``dtype`` in this machine's byte order, nested fields included."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def plain_array(value: Any, path: str, position: int, roster: Roster) -> npt.NDArray[Any]:
    """Return an array, array subclass or numpy scalar as a plain array.

    Raises:
        CollateError: It is a masked array, whose mask would be lost.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise roster.refused(
            path,
            position,
            "is a masked array, whose mask a batch array cannot carry,",
            "return .filled(value), or data and mask as two arrays",
        )
    return np.asarray(value)


class ArraySlots(Slots):
    """Arrays of one shape and dtype, written into the rows of one batch array."""

    __slots__ = ("_array", "_dtype", "_path", "_plain_dtype", "_roster", "_rows", "_shape")

    def __init__(self, first: npt.NDArray[Any], path: str, roster: Roster) -> None:
        self._shape = first.shape
        self._dtype = native(first.dtype)
        # References go the long way, where an array inside an array is never taken apart.
        self._plain_dtype = None if self._dtype.hasobject else self._dtype
        self._path = path
        self._roster = roster
        self._array = allocate((roster.size, *first.shape), self._dtype)
        self._rows = _byte_rows(self._array)

    def put(self, value: Any, position: int) -> None:
        if value.__class__ is ndarray and value.dtype is self._plain_dtype and value.shape == self._shape:
            try:
                self._rows[position] = value
            except ValueError:  # strided memory, or a dtype that exports no buffer: numpy's way from here on
                self._rows = self._array
                self._array[position, ...] = value
        else:
            self._put_other(value, position)

    def put_all(self, values: Sequence[Any]) -> None:
        rows, dtype, shape = self._rows, self._plain_dtype, self._shape
        position = 0
        with suppress(ValueError):
            for value in values:
                if value.__class__ is not ndarray or value.dtype is not dtype or value.shape != shape:
                    break
                rows[position] = value
                position += 1
        for rest in range(position, len(values)):
            self.put(values[rest], rest)

    def _put_other(self, value: Any, position: int) -> None:
        # np.memmap is a subclass, so that memory which may wait for a disk is copied here, the GIL released.
        if not isinstance(value, (ndarray, np.generic)):
            value = self._from_python(value, position)
        array = plain_array(value, self._path, position, self._roster)
        if array.shape != self._shape:
            raise self._roster.wrong_shape(self._path, position, array.shape, self._shape)
        if native(array.dtype) != self._dtype:
            raise self._roster.wrong_dtype(self._path, position, array.dtype, self._dtype)
        self._array[position, ...] = array

    def _from_python(self, value: Any, position: int) -> npt.NDArray[Any]:
        for kind, dtype in PYTHON_NUMBERS.items():
            if isinstance(value, kind):
                return number(value, dtype, self._path, position, self._roster)
        expected = f"an array {self._shape} of {self._dtype}" if self._shape else f"a number of {self._dtype}"
        raise self._roster.wrong_kind(self._path, position, value, expected)

    def slot(self, position: int) -> npt.NDArray[Any]:
        """Return the memory of one slot, to be written into."""
        return self._array[position, ...]

    def finish(self, count: int) -> npt.NDArray[Any]:
        if count == self._roster.size:
            return self._array
        if 2 * count >= self._roster.size:
            return self._array[:count]
        # A small part moves out: the block under it may be one that was used before, and is resident as a whole.
        part = allocate((count, *self._shape), self._dtype)
        part[...] = self._array[:count]
        return part

    def row(self, position: int) -> Any:
        return self._array[position, ...].copy() if self._shape else self._array[position]


class NumberSlots(ArraySlots):
    """Python numbers or numpy scalars of one type, written into the items of one batch array."""

    __slots__ = ("_class", "_items")

    _class: type | None

    def __init__(self, first: Any, path: str, roster: Roster) -> None:
        if isinstance(first, np.generic):
            super().__init__(plain_array(first, path, 0, roster), path, roster)
            # A datetime's unit and a structure's fields are not in the type: those are compared as dtypes.
            self._class = None if self._dtype.kind in "mMVO" else first.__class__
        else:
            dtype = next(dtype for kind, dtype in PYTHON_NUMBERS.items() if isinstance(first, kind))
            super().__init__(np.empty((), dtype), path, roster)
            self._class = first.__class__ if first.__class__ in PYTHON_NUMBERS else None
        self._items: Any = self._array
        # memoryview takes two thirds of the time that numpy needs for an item. It would alter the bits of a NaN
        # that is narrower than Python's, and knows no complex numbers.
        if self._class in (bool, int, float):
            self._items = memoryview(cast(Any, self._array))

    def put(self, value: Any, position: int) -> None:
        if value.__class__ is self._class:
            try:
                self._items[position] = value
            except (OverflowError, ValueError):  # numpy raises the one, memoryview the other
                raise too_large(value, self._path, position, self._roster) from None
        else:
            self._put_other(value, position)

    def put_all(self, values: Sequence[Any]) -> None:
        if self._class is not None and set(map(type, values)) == {self._class}:
            try:
                self._array[:] = values
            except OverflowError:
                pass  # put() finds out which one it is
            else:
                return
        Slots.put_all(self, values)

    def row(self, position: int) -> Any:
        value = self._array[position]
        return value.item() if self._class in PYTHON_NUMBERS else value


class ObjectSlots(Slots):
    """Strings, bytes and objects that have no array form, collected in a list."""

    __slots__ = ("_class", "_path", "_roster", "_values")

    def __init__(self, first: Any, path: str, roster: Roster) -> None:
        self._class = first.__class__
        self._path = path
        self._roster = roster
        self._values: list[Any] = [None] * roster.size

    def put(self, value: Any, position: int) -> None:
        if value.__class__ is not self._class and kind_of(value) not in ("text", "object"):
            raise self._roster.wrong_kind(self._path, position, value, f"a {self._class.__name__}")
        self._values[position] = value

    def finish(self, count: int) -> list[Any]:
        return self._values[:count]

    def row(self, position: int) -> Any:
        return self._values[position]


def number(value: Any, dtype: np.dtype[Any], path: str, position: int, roster: Roster) -> npt.NDArray[Any]:
    """Return a Python number as a 0-d array of ``dtype``.

    Raises:
        CollateError: It is an int that 64 bits with a sign cannot hold.
    """
    try:
        return np.array(value, dtype)
    except OverflowError:
        raise too_large(value, path, position, roster) from None


def too_large(value: Any, path: str, position: int, roster: Roster) -> Exception:
    """Return the error for a Python int that does not fit into int64."""
    if 0 <= value < 2**64:
        advice = "return np.uint64(value) in every sample to keep it exactly"
    else:
        advice = "return a string (hex(value)) or an array of 64-bit words in every sample to keep it exactly"
    # Nobody reads more digits than this, and Python refuses to write out some thousands of them.
    shown = value if value.bit_length() <= 128 else f"an int of {value.bit_length()} bits"
    return roster.refused(path, position, f"is {shown}, which int64 cannot hold,", advice)


def _byte_rows(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return ``array`` as one row of opaque bytes for each slot where that makes copies cheaper.

    Assigning to an item of an opaque dtype takes the source's buffer and copies it in one go: no
    broadcasting, no casting, no release of the GIL. The caller has compared shape and dtype, and numpy itself
    refuses a buffer that is not C-contiguous.
    """
    if (
        array.ndim == 1
        or array.dtype.hasobject
        or not 0 < (row := array.nbytes // len(array)) <= HELD_COPY_LIMIT
    ):
        return array
    return array.reshape(len(array), -1).view(f"V{row}")[:, 0]
