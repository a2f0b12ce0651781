"""Leaves that are torch tensors: gathered in numpy memory, handed over as tensors without a copy.

torch is never imported here. A sample that is a tensor proves that it has been imported already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.ragged import Ragged
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import ArraySlots, Slots
from nogil_loader.errors import CollateError, describe_exception

_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def tensor_slots(first: Any, path: str, roster: Roster, ragged: Ragged | None) -> Slots:
    """Return the slots for tensors like ``first``; ``ragged`` gathers them if they have an axis to be ragged."""
    torch = sys.modules["torch"]
    if first.layout is not torch.strided or not first.is_cpu or first.is_quantized or first.is_nested:
        return StackedTensorSlots(path, roster)
    return TensorSlots(first, path, roster, ragged if first.ndim else None)


def bits_dtype(dtype: Any) -> Any:
    """Return the integer dtype that carries the bits of a torch dtype unknown to numpy, None if it is known.

    bfloat16, the 8-bit floats and complex32 are unknown to it.
    """
    torch = sys.modules["torch"]
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return getattr(torch, _INTEGERS[dtype.itemsize])
    return None


class TensorSlots(Slots):
    """Dense tensors in main memory, of one shape and dtype, written into the rows of one batch tensor."""

    __slots__ = ("_bits", "_dtype", "_path", "_roster", "_rows", "_tensor_class", "_torch")

    def __init__(self, first: Any, path: str, roster: Roster, ragged: Ragged | None) -> None:
        self._torch = torch = sys.modules["torch"]
        self._tensor_class = torch.Tensor
        self._dtype = first.dtype
        self._path = path
        self._roster = roster
        self._bits = bits_dtype(first.dtype)
        self._rows: Slots
        if ragged is None:
            self._rows = ArraySlots(self._as_array(first), path, roster)
        else:
            self._rows = ragged.slots(path, roster, None if self._bits is None else first.dtype)

    def put(self, value: Any, position: int) -> None:
        if not isinstance(value, self._tensor_class):
            raise self._roster.wrong_kind(self._path, position, value, f"a tensor of {self._dtype}")
        if value.dtype is not self._dtype:
            raise self._roster.wrong_dtype(self._path, position, value.dtype, self._dtype)
        try:
            array = value.numpy()  # the common case; any other is refused by torch
        except (TypeError, RuntimeError):
            array = self._converted(value, position)
        self._rows.put(array, position)

    def _converted(self, value: Any, position: int) -> Any:
        try:
            return self._as_array(value)
        except (TypeError, RuntimeError) as failure:
            raise self._roster.refused(
                self._path,
                position,
                f"is a tensor that has no dense main memory ({describe_exception(failure)})",
                f"{self._roster.name(0)} has a dense CPU tensor: return one kind in every sample",
            ) from failure

    def _as_array(self, value: Any) -> Any:
        if value.requires_grad:
            value = value.detach()
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        return value.numpy() if self._bits is None else value.view(self._bits).numpy()

    def finish(self, count: int) -> Any:
        batch = self._rows.finish(count)
        if not isinstance(batch, tuple):
            return self._as_tensor(batch)
        values, *extra = batch  # Padded, Masked or Packed
        converted = (self._as_tensor(values), *map(self._torch.from_numpy, extra))
        return type(batch)._make(converted)  # type: ignore[attr-defined]

    def row(self, position: int) -> Any:
        return self._as_tensor(np.array(self._rows.row(position)))

    def _as_tensor(self, array: Any) -> Any:
        tensor = self._torch.from_numpy(array)
        return tensor if self._bits is None else tensor.view(self._dtype)


class StackedTensorSlots(Slots):
    """Tensors whose memory numpy cannot see (on another device, sparse …), stacked by torch at the end."""

    __slots__ = ("_path", "_roster", "_values")

    def __init__(self, path: str, roster: Roster) -> None:
        self._values: list[Any] = [None] * roster.size
        self._path = path
        self._roster = roster

    def put(self, value: Any, position: int) -> None:
        if kind_of(value) != "tensor":
            raise self._roster.wrong_kind(self._path, position, value, "a tensor")
        first = self._values[0]
        if first is not None and value.dtype is not first.dtype:
            raise self._roster.wrong_dtype(self._path, position, value.dtype, first.dtype)
        if first is not None and value.shape != first.shape:
            raise self._roster.wrong_shape(self._path, position, value.shape, first.shape)
        self._values[position] = value

    def finish(self, count: int) -> Any:
        try:
            return sys.modules["torch"].stack(self._values[:count])
        except RuntimeError as failure:
            raise CollateError(
                f"torch cannot stack the tensors at '{self._path}': {describe_exception(failure)}",
                path=self._path,
                indices=self._roster.involved(*range(count)),
            ) from failure

    def row(self, position: int) -> Any:
        return self._values[position].clone()
