"""Leaves that are torch tensors: gathered in numpy memory, handed over as tensors without a copy.

torch is never imported here. A sample that is a tensor proves that it has been imported already.
"""

from __future__ import annotations

import sys
from typing import Any

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import ArraySlots, Slots
from nogil_loader.errors import CollateError, describe_exception

_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def tensor_slots(first: Any, path: str, roster: Roster) -> Slots:
    """Return the slots for tensors like ``first``."""
    torch = sys.modules["torch"]
    if first.layout is not torch.strided or not first.is_cpu or first.is_quantized or first.is_nested:
        return StackedTensorSlots(path, roster)
    return TensorSlots(first, path, roster)


class TensorSlots:
    """Dense tensors in main memory, of one shape and dtype, written into the rows of one batch tensor."""

    __slots__ = ("_dtype", "_path", "_roster", "_rows", "_stand_in", "_tensor_class", "_torch")

    def __init__(self, first: Any, path: str, roster: Roster) -> None:
        self._torch = torch = sys.modules["torch"]
        self._tensor_class = torch.Tensor
        self._dtype = first.dtype
        self._path = path
        self._roster = roster
        # bfloat16, the 8-bit floats and complex32 have no numpy dtype: they travel as integers of their size.
        self._stand_in: Any = None
        try:
            torch.empty(0, dtype=first.dtype).numpy()
        except TypeError:
            self._stand_in = getattr(torch, _INTEGERS[first.element_size()])
        self._rows = ArraySlots(self._as_array(first), path, roster)

    def put(self, value: Any, position: int) -> None:
        if not isinstance(value, self._tensor_class):
            expected = f"a tensor of {self._dtype}"
            raise self._roster.wrong_kind(self._path, position, value, expected)
        if value.dtype is not self._dtype:
            raise self._roster.wrong_dtype(self._path, position, value.dtype, self._dtype)
        try:
            array = self._as_array(value)
        except (TypeError, RuntimeError) as failure:
            raise self._roster.refused(
                self._path,
                position,
                f"is a tensor that has no dense main memory ({describe_exception(failure)})",
                f"{self._roster.name(0)} has a dense CPU tensor: return one kind in every sample",
            ) from failure
        self._rows.put(array, position)

    def _as_array(self, value: Any) -> Any:
        if value.requires_grad:
            value = value.detach()
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        return value.numpy() if self._stand_in is None else value.view(self._stand_in).numpy()

    def finish(self, count: int) -> Any:
        return self._as_tensor(self._rows.finish(count))

    def row(self, position: int) -> Any:
        return self._as_tensor(self._rows.finish(self._roster.size)[position, ...].copy())

    def _as_tensor(self, array: Any) -> Any:
        tensor = self._torch.from_numpy(array)
        return tensor if self._stand_in is None else tensor.view(self._dtype)


class StackedTensorSlots:
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
