"""Changes values at some places of a sample and leaves the rest as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import fields
from typing import Any

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.roster import child_path

Change = Callable[[Any], Any]


def change_places(tree: Any, changes: Mapping[str, Change]) -> Any:
    """Return a sample or batch with the values at some paths replaced; containers on the way are copied.

    Args:
        tree: Mappings, lists, tuples and dataclasses, nested.
        changes: Path → function from the value there to the new one.

    Raises:
        KeyError: A path is not there; the argument is the first one that is missing.
    """
    done: set[str] = set()
    changed = _changed(tree, "", changes, done)
    for path in changes:
        if path not in done:
            raise KeyError(path)
    return changed


def known_places(tree: Any) -> list[str]:
    """Return the paths of the values directly in a sample, for messages."""
    return [path for path, _, _ in _children(tree, "")]


def _changed(value: Any, path: str, changes: Mapping[str, Change], done: set[str]) -> Any:
    change = changes.get(path)
    if change is not None:
        done.add(path)
        return change(value)
    if path and not any(other.startswith((path + ".", path + "[")) for other in changes):
        return value
    new = {key: _changed(item, below, changes, done) for below, key, item in _children(value, path)}
    return _rebuilt(value, new)


def _children(value: Any, path: str) -> list[tuple[str, Any, Any]]:
    match kind_of(value):
        case "mapping":
            return [(child_path(path, key), key, item) for key, item in value.items()]
        case "sequence":
            names = getattr(value, "_fields", range(len(value)))
            return [(child_path(path, name), name, item) for name, item in zip(names, value, strict=True)]
        case "record":
            names = [each.name for each in fields(value)]
            return [(child_path(path, name), name, getattr(value, name)) for name in names]
        case _:
            return []


def _rebuilt(value: Any, new: Mapping[Any, Any]) -> Any:
    match kind_of(value):
        case "mapping":
            if not isinstance(value, MutableMapping):
                return dict(new)
            twin = copy.copy(value)
            twin.update(new)
            return twin
        case "sequence":
            items = list(new.values())
            if hasattr(value, "_make"):
                return value._make(items)
            return items if isinstance(value, list) else tuple(items)
        case "record":
            twin = copy.copy(value)
            for name, item in new.items():
                object.__setattr__(twin, name, item)  # of a frozen one too: nobody else has it yet
            return twin
        case _:
            return value
