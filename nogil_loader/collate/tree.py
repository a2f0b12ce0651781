"""Turns the first sample of a batch into the tree of slots that all of its samples are written into."""

from __future__ import annotations

from typing import Any, Literal

from nogil_loader.collate.containers import MappingSlots, RecordSlots, SequenceSlots
from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.roster import Roster
from nogil_loader.collate.slots import ArraySlots, NumberSlots, ObjectSlots, Slots, plain_array
from nogil_loader.collate.tensors import tensor_slots

#: What becomes of None: an error, or an item of a list.
NonePolicy = Literal["raise", "list"]


def build(value: Any, path: str, roster: Roster, none: NonePolicy) -> Slots:
    """Return the slots for what the first sample has at ``path``.

    Raises:
        CollateError: ``value`` cannot be collated: a None that is not allowed, or a masked array.
    """
    if none == "list":
        return NullableSlots(path, roster)
    return _build_present(value, path, roster, none)


def _build_present(value: Any, path: str, roster: Roster, none: NonePolicy) -> Slots:
    def build_child(child: Any, child_path: str) -> Slots:
        return build(child, child_path, roster, none)

    match kind_of(value):
        case "none":
            raise roster.unexpected_none(path, 0)
        case "array":
            return ArraySlots(plain_array(value, path, 0, roster), path, roster)
        case "number":
            return NumberSlots(value, path, roster)
        case "tensor":
            return tensor_slots(value, path, roster)
        case "mapping":
            return MappingSlots(value, path, roster, build_child)
        case "sequence":
            return SequenceSlots(value, path, roster, build_child)
        case "record":
            return RecordSlots(value, path, roster, build_child)
        case _:
            return ObjectSlots(value, path, roster)


class NullableSlots:
    """Slots in which None is a value: as soon as one sample has it, the values of all are kept in a list."""

    __slots__ = ("_inner", "_path", "_roster", "_values")

    def __init__(self, path: str, roster: Roster) -> None:
        self._inner: Slots | None = None
        self._values: list[Any] | None = None
        self._path = path
        self._roster = roster

    def put(self, value: Any, position: int) -> None:
        if self._values is None and value is not None:
            if self._inner is None:
                self._inner = _build_present(value, self._path, self._roster, "list")
            self._inner.put(value, position)
            return
        if self._values is None:
            self._values = [None if self._inner is None else self._inner.row(at) for at in range(position)]
            self._values += [None] * (self._roster.size - position)
            self._inner = None
        self._values[position] = None if value is None else self._alone(value)

    def _alone(self, value: Any) -> Any:
        """Return ``value`` in memory of its own, as all that a batch delivers."""
        slots = _build_present(value, self._path, Roster(1, None), "list")
        slots.put(value, 0)
        return slots.row(0)

    def finish(self, count: int) -> Any:
        if self._values is not None:
            return self._values[:count]
        return [] if self._inner is None else self._inner.finish(count)

    def row(self, position: int) -> Any:
        if self._values is not None:
            return self._values[position]
        return None if self._inner is None else self._inner.row(position)
