"""Inner nodes of a sample tree: mappings, lists, tuples and dataclasses, taken apart and put together again.

A container in the batch has the type that it has in the samples. It is never built by calling that type,
since nobody can guess what a constructor wants: tuples and dataclasses are made by ``__new__``, the
others are a shallow copy of the first sample's container with its items replaced. Both carry extra attributes
over. Where that cannot work, the plain ``dict``, ``list`` or ``tuple`` takes the place.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nogil_loader.collate.roster import Roster, child_path
from nogil_loader.collate.slots import Slots

#: Makes the slots for what the first sample has at a path.
Build = Callable[[Any, str], Slots]


class MappingSlots(Slots):
    """Mappings with one set of keys."""

    __slots__ = ("_blank", "_class", "_count", "_items", "_keys", "_nodes", "_path", "_roster")

    def __init__(self, first: Mapping[Any, Any], path: str, roster: Roster, build: Build) -> None:
        self._class = first.__class__
        self._keys = list(first)
        self._count = len(self._keys)
        self._nodes = [build(first[key], child_path(path, key)) for key in self._keys]
        self._items = [(key, node.put) for key, node in zip(self._keys, self._nodes, strict=True)]
        self._blank = _blank_mapping(first)
        self._path = path
        self._roster = roster

    def put(self, sample: Any, position: int) -> None:
        # Only a plain dict is asked for its keys by fetching them: a defaultdict would make up a missing one.
        if sample.__class__ is not dict or len(sample) != self._count:
            self._compare(sample, position)
        try:
            for key, put in self._items:
                put(sample[key], position)
        except KeyError:
            self._compare(sample, position)
            raise

    def put_all(self, values: Sequence[Any]) -> None:
        if set(map(type, values)) == {dict} and set(map(len, values)) == {self._count}:
            try:
                columns = [[sample[key] for sample in values] for key in self._keys]
            except KeyError:
                pass  # put() finds out whose keys differ
            else:
                for node, column in zip(self._nodes, columns, strict=True):
                    node.put_all(column)
                return
        super().put_all(values)

    def _compare(self, sample: Any, position: int) -> None:
        if not isinstance(sample, Mapping):
            raise self._roster.wrong_kind(self._path, position, sample, f"a {self._class.__name__}")
        keys = list(sample)
        if len(keys) != self._count or not all(key in keys for key in self._keys):
            raise self._roster.wrong_keys(self._path, position, keys, self._keys)

    def finish(self, count: int) -> Mapping[Any, Any]:
        return self._rebuild([node.finish(count) for node in self._nodes])

    def row(self, position: int) -> Mapping[Any, Any]:
        return self._rebuild([node.row(position) for node in self._nodes])

    def _rebuild(self, values: list[Any]) -> Mapping[Any, Any]:
        if self._blank is None:
            return dict(zip(self._keys, values, strict=True))
        mapping: Mapping[Any, Any] = _filled_mapping(copy.copy(self._blank), self._keys, values)
        return mapping


class SequenceSlots(Slots):
    """Lists, tuples or named tuples of one length, item by item."""

    __slots__ = ("_blank", "_class", "_count", "_fields", "_items", "_nodes", "_path", "_roster")

    def __init__(self, first: Sequence[Any], path: str, roster: Roster, build: Build) -> None:
        self._class = first.__class__
        self._fields = getattr(first, "_fields", None)
        keys: Iterable[Any] = self._fields if self._fields is not None else range(len(first))
        self._nodes = [build(item, child_path(path, key)) for key, item in zip(keys, first, strict=True)]
        self._items = [(at, node.put) for at, node in enumerate(self._nodes)]
        self._count = len(self._nodes)
        self._blank = _blank_sequence(first)
        self._path = path
        self._roster = roster

    def put(self, sample: Any, position: int) -> None:
        if sample.__class__ is not self._class:
            self._compare(sample, position)
        if len(sample) != self._count:
            raise self._roster.wrong_length(self._path, position, len(sample), self._count)
        for at, put in self._items:
            put(sample[at], position)

    def put_all(self, values: Sequence[Any]) -> None:
        if set(map(type, values)) == {self._class} and set(map(len, values)) == {self._count}:
            for node, column in zip(self._nodes, zip(*values, strict=True), strict=True):
                node.put_all(column)
        else:
            super().put_all(values)

    def _compare(self, sample: Any, position: int) -> None:
        if not isinstance(sample, (list, tuple)) or getattr(sample, "_fields", None) != self._fields:
            raise self._roster.wrong_kind(self._path, position, sample, f"a {self._class.__name__}")

    def finish(self, count: int) -> Sequence[Any]:
        return self._rebuild([node.finish(count) for node in self._nodes])

    def row(self, position: int) -> Sequence[Any]:
        return self._rebuild([node.row(position) for node in self._nodes])

    def _rebuild(self, values: list[Any]) -> Sequence[Any]:
        if self._class is list:
            return values
        if self._class is tuple:
            return tuple(values)
        return _rebuilt_sequence(self._class, self._blank, values)


class RecordSlots(Slots):
    """Instances of one dataclass, field by field."""

    __slots__ = ("_attributes", "_class", "_items", "_names", "_nodes", "_path", "_roster")

    def __init__(self, first: Any, path: str, roster: Roster, build: Build) -> None:
        self._class = first.__class__
        # A field that __init__ does not set may not be there at all.
        self._names = [field.name for field in dataclasses.fields(first) if hasattr(first, field.name)]
        self._nodes = [build(getattr(first, name), child_path(path, name)) for name in self._names]
        self._items = [(name, node.put) for name, node in zip(self._names, self._nodes, strict=True)]
        self._attributes = {k: v for k, v in getattr(first, "__dict__", {}).items() if k not in self._names}
        self._path = path
        self._roster = roster

    def put(self, sample: Any, position: int) -> None:
        if sample.__class__ is not self._class:
            raise self._roster.wrong_kind(self._path, position, sample, f"a {self._class.__name__}")
        for name, put in self._items:
            put(getattr(sample, name, None), position)

    def finish(self, count: int) -> Any:
        return self._rebuild([node.finish(count) for node in self._nodes])

    def row(self, position: int) -> Any:
        return self._rebuild([node.row(position) for node in self._nodes])

    def _rebuild(self, values: list[Any]) -> Any:
        try:
            record: Any = object.__new__(self._class)
        except TypeError:  # a dataclass that is an exception as well, or another C type
            record = self._class.__new__(self._class)
        if self._attributes:
            record.__dict__.update(self._attributes)
        for name, value in zip(self._names, values, strict=True):
            object.__setattr__(record, name, value)  # frozen dataclasses forbid the ordinary way
        return record


def _blank_mapping(first: Mapping[Any, Any]) -> Any:
    """Return a copy of ``first`` that holds none of its values, or None where a plain dict must do.

    ``copy.copy`` copies the items of a dict subclass, and of a class that says how by ``__copy__``. Of any
    other mapping it copies a reference to the storage, and blanking the copy would blank the sample.
    """
    if first.__class__ is dict or not (isinstance(first, dict) or hasattr(first, "__copy__")):
        return None
    try:
        clone = copy.copy(first)
        if clone is first or clone.__class__ is not first.__class__:
            return None
        return _filled_mapping(clone, list(first), [None] * len(first))
    except Exception:  # noqa: BLE001 - a user's class may refuse to be copied or written to in any way
        return None


def _filled_mapping(clone: Any, keys: Sequence[Any], values: Sequence[Any]) -> Any:
    for key, value in zip(keys, values, strict=True):
        clone[key] = value
    return clone


def _blank_sequence(first: Sequence[Any]) -> Any:
    """Return an empty copy of a list subclass, None where there can be none; of a tuple, its attributes."""
    if isinstance(first, tuple):
        return dict(getattr(first, "__dict__", {}))
    if first.__class__ is list:
        return None
    try:
        clone = copy.copy(first)
        if clone is first or clone.__class__ is not first.__class__:
            return None
        list.clear(clone)  # type: ignore[arg-type]
        return clone
    except Exception:  # noqa: BLE001 - as for mappings
        return None


def _rebuilt_sequence(cls: type, blank: Any, values: list[Any]) -> Sequence[Any]:
    try:
        if issubclass(cls, tuple):
            made = tuple.__new__(cls, values)
            if blank:
                made.__dict__.update(blank)
            return made
        if blank is None:
            return values
        clone: list[Any] = copy.copy(blank)
        list.extend(clone, values)
        return clone
    except Exception:  # noqa: BLE001 - tuple.__new__ refuses C structures, a list subclass may refuse to be copied
        return tuple(values) if issubclass(cls, tuple) else values
