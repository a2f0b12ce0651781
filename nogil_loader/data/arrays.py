"""Arrays and memory maps as a dataset: sample *i* is row *i* of each."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nogil_loader.data.positions import PositionalDataset, as_position, as_positions
from nogil_loader.data.protocols import BatchSource, Table
from nogil_loader.errors import describe
from nogil_loader.kernels.gather import gather_rows
from nogil_loader.memory.buffers import allocate

Array = NDArray[Any]


class ArrayDataset(PositionalDataset, BatchSource):
    """A dataset over the rows of one or several arrays or memory maps of equal length.

    One array gives samples ``x[i]``; several give tuples ``(x[i], y[i])``; a mapping or keyword arguments
    give dicts ``{"x": x[i], "y": y[i]}``. Samples are views: nothing is copied until a batch is made.

    A memory-mapped file is pickled and deep-copied by its path, and mapped again, so that workers with
    copies of their own neither send nor duplicate what it holds. Other arrays are pickled by value.

    Args:
        *arrays: Arrays, or a single mapping of names to arrays. Objects that convert without a copy, such as
            CPU tensors, are taken as the arrays they share memory with.
        **named: Arrays by name, instead of ``arrays``.

    Raises:
        TypeError: An argument is not an array, or positional and named arrays are mixed.
        ValueError: There is no array, one has no first dimension, or their lengths differ.
    """

    def __init__(self, /, *arrays: Any, **named: Any) -> None:
        if arrays and named:
            raise TypeError("ArrayDataset takes arrays either by position or by name, not both")
        by_name: dict[Any, Any] = dict(named) if named else dict(enumerate(arrays))
        self._names: tuple[Any, ...] | None = tuple(named) if named else None
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            by_name = dict(arrays[0])
            self._names = tuple(by_name)
        if not by_name:
            raise ValueError("ArrayDataset needs at least one array")
        labels = [f"array {name!r}" for name in by_name]
        self._arrays = tuple(map(_as_rows, by_name.values(), labels))
        self._length = len(self._arrays[0])
        for array, label in zip(self._arrays, labels, strict=True):
            if len(array) != self._length:
                raise ValueError(
                    f"arrays of a dataset need equal lengths: {labels[0]} has {self._length} rows and "
                    f"{label} has {len(array)}"
                )

    @property
    def arrays(self) -> Array | tuple[Array, ...] | dict[Any, Array]:
        """The arrays, in the structure of a sample."""
        structured: Array | tuple[Array, ...] | dict[Any, Array] = self._structure(self._arrays)
        return structured

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        position = as_position(index, self._length, self)
        return self._structure([array[position] for array in self._arrays])

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        return [self[index] for index in indices]

    @property
    def take(self) -> Callable[[Any], Any] | None:
        """Function from indices to the collated batch, each of its arrays written in one go.

        The batch has the structure of a sample. Its arrays are fresh, C-contiguous, native-endian and
        64-byte aligned, of shape ``(len(indices), *row_shape)``. None when an array holds Python objects, or
        strings as its rows: their batches are lists, which the collate function makes.
        """
        return self._take if all(map(_rows_stack, self._arrays)) else None

    @property
    def table(self) -> Table | None:
        """The arrays; None where ``take`` is."""
        if self.take is None:
            return None
        names = self._names or (range(len(self._arrays)) if len(self._arrays) > 1 else (None,))
        return Table(dict(zip(names, self._arrays, strict=True)), self._locate, self._structure)

    def _locate(self, indices: Sequence[Any]) -> NDArray[np.int64]:
        return as_positions(indices, self._length, self)

    def _take(self, indices: Sequence[Any]) -> Any:
        positions = self._locate(indices)
        return self._structure([gather_batch(array, positions) for array in self._arrays])

    def _structure(self, parts: Sequence[Any]) -> Any:
        if self._names is not None:
            return dict(zip(self._names, parts, strict=True))
        return parts[0] if len(parts) == 1 else tuple(parts)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": tuple(_MappedFile.of(array) or array for array in self._arrays)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = state.pop("_arrays")
        self.__dict__.update(state)
        self._arrays = tuple(part.open() if isinstance(part, _MappedFile) else part for part in stored)

    def __repr__(self) -> str:
        parts = [f"{array.dtype}{list(array.shape)}" for array in self._arrays]
        if self._names is not None:
            parts = [f"{name}: {part}" for name, part in zip(self._names, parts, strict=True)]
        return f"{type(self).__name__}({', '.join(parts)})"


def _as_rows(value: Any, label: str) -> Array:
    """Return ``value`` as a plain array that shares its memory and has a first dimension."""
    if not hasattr(value, "__array__") and not hasattr(value, "__array_interface__"):
        raise TypeError(
            f"{label} of a dataset is {describe(value, 200)}: expected an array, not {type(value).__name__}"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{label} of a dataset is a masked array, whose mask a batch cannot carry; pass its .data and "
            f".mask as two arrays, or .filled(value)"
        )
    # Indexing a memmap builds a memmap each time; the plain view of it gives plain rows, and faster.
    rows: Array = np.asarray(value)
    if rows.ndim == 0:
        raise ValueError(f"{label} of a dataset is 0-dimensional ({describe(value, 200)}): it has no rows")
    return rows


def _rows_stack(array: Array) -> bool:
    """Whether a batch of the rows is an array; Python objects and single strings stay in a list."""
    return not array.dtype.hasobject and (array.ndim > 1 or array.dtype.kind not in "SU")


def gather_batch(array: Array, positions: NDArray[np.int64]) -> Array:
    """Return the rows of ``array`` at ``positions`` in a fresh batch array."""
    batch = allocate((len(positions), *array.shape[1:]), array.dtype.newbyteorder("="))
    if array.flags.c_contiguous and array.flags.aligned:
        gather_rows(array, positions, batch)
    else:
        # Gathering would first copy the whole source into order; indexing copies the wanted rows only.
        batch[...] = array[positions]
    return batch


@dataclass(frozen=True)
class _MappedFile:
    """Where an array lies within a memory-mapped file: what to pickle instead of its contents."""

    filename: str
    mode: str
    offset: int
    nbytes: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: Array) -> _MappedFile | None:
        """Describe ``array`` if it is a view of a mapped file that can be mapped again, else None."""
        root: Any = array
        while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
            root = root.base
        # In mode "c" changes stay in this process; the file does not have them.
        if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c":
            return None
        return cls(
            filename=str(root.filename),
            # "w+" would empty the file.
            mode="r" if root.mode == "r" else "r+",
            offset=root.offset,
            nbytes=root.nbytes,
            start=array.ctypes.data - root.ctypes.data,
            shape=array.shape,
            strides=array.strides,
            dtype=array.dtype,
        )

    def open(self) -> Array:
        """Map the file again and return the same view of it.

        Raises:
            OSError: The file is gone or may not be read.
            ValueError: The file has become shorter.
        """
        mode: Any = self.mode
        root = np.memmap(self.filename, np.uint8, mode, self.offset, (self.nbytes,))
        return np.ndarray(self.shape, self.dtype, buffer=root, offset=self.start, strides=self.strides)
