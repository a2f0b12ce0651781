"""How much data a sample or a batch carries, and whose death gives the memory back.

Guarantees of this file:

* Nothing raises, whatever the objects of a sample do when they are looked at. Only what is meant to end a thread
  (`KeyboardInterrupt`, `SystemExit`) passes through.
* Cyclic structures come to an end, and endless ones that are made while they are looked at.
* No framework is imported: tensors and images are known by what they offer.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from operator import attrgetter
from sys import getsizeof
from typing import Any

import numpy as np
from numpy import ndarray

from nogil_loader.memory.buffers import ALIGNMENT
from nogil_loader.memory.pool import Lease

# A list that is longer and starts with a number is taken to hold such numbers only: a million of them would
# take 50 ms one by one.
_SHORT = 64
# Containers looked into, at about half a microsecond each. What is left after them is taken to be like them.
_MOST_CONTAINERS = 20_000
# Values taken from a mapping or set of someone else's making, which may be endless.
_MOST_VALUES = 1 << 16
# What owns more than so many times the bytes that a batch has in it is not the batch's own: the dataset's array.
_MOST_OWNED = 2

_NUMPY_SCALARS: tuple[type, ...] = tuple(
    {kind for kind in np.sctypeDict.values() if not issubclass(kind, (np.flexible, np.object_))}
)
_nbytes_of: Callable[[Any], int] = attrgetter("nbytes")
_NUMBERS: dict[type, Callable[[Any], int]] = {
    **dict.fromkeys((int, float, bool, complex), getsizeof),
    **dict.fromkeys(_NUMPY_SCALARS, _nbytes_of),
}
_NOTHING: dict[int, Any] = {}
#: How the values of exact types are weighed that hold no others.
_LEAVES: dict[type, Callable[[Any], int]] = {
    **_NUMBERS,
    **dict.fromkeys((str, bytes, bytearray), len),
    memoryview: _nbytes_of,
    type(None): getsizeof,
}


def size_of(tree: Any) -> int:
    """Return the bytes of data in a sample or batch.

    Arrays, tensors and views count with their own ``nbytes``, arrays of Python objects with their references
    only, text with its characters, Python's numbers as the interpreter stores them, images with one byte for each
    pixel and band. Lists, tuples, mappings, sets and dataclasses count with what is in them; keys do not.
    Anything else counts with an integer ``nbytes`` if it has one, else with ``sys.getsizeof``.
    """
    if type(tree) is ndarray:
        return tree.nbytes
    total = 0
    done = 0
    stack = [tree]
    seen: dict[int, Any] = _NOTHING
    while stack and done < _MOST_CONTAINERS:
        node = stack.pop()
        try:
            kind = type(node)
            items: Iterable[Any] | None
            if kind is dict:
                items = node.values()
            elif kind is list or kind is tuple:
                if (
                    len(node) > _SHORT
                    and (weigh := _NUMBERS.get(type(node[0])))
                    and type(node[-1]) in _NUMBERS
                ):
                    total += len(node) * weigh(node[0])
                    continue
                items = node
            elif (weigh := _LEAVES.get(kind)) is not None:
                total += weigh(node)
                continue
            else:
                items = _items_of(node)
                if items is None:
                    total += _leaf_size(node)
                    continue
            if id(node) in seen:
                continue
            done += 1
            depth = len(stack)
            for item in items:
                kind = type(item)
                if kind is ndarray:
                    total += item.nbytes
                elif (weigh := _LEAVES.get(kind)) is not None:
                    total += weigh(item)
                else:
                    stack.append(item)
            if len(stack) > depth:
                # Only a container of others can hold itself. It is kept, so that its id remains its own.
                if seen is _NOTHING:
                    seen = {}
                seen[id(node)] = node
        except Exception:  # noqa: BLE001 - someone else's property, or a container that was changed
            continue
    return total + total * len(stack) // done if stack else total


def owners_of(tree: Any) -> list[tuple[Any, int]]:
    """Return the objects whose death tells that the memory of a batch is free, with the batch's bytes in each.

    For an array that is the last array in its chain of bases, which every view and alias of it keeps alive; for a
    torch tensor its storage; for anything else that says how many bytes it has, the object itself. Each can be
    weakly referenced and occurs once. Left out are numbers and text, and owners of more than twice the bytes that
    the batch has in them (a view of the dataset's array does not free it), unless they are blocks of the pool.
    """
    owners: dict[int, tuple[Any, int, int]] = {}
    for leaf in _leaves_of(tree):
        try:
            owner, used, whole = _owner_of(leaf)
            if owner is None:
                continue
            weakref.ref(owner)
        except Exception:  # noqa: BLE001 - someone else's object
            continue
        before = owners[id(owner)][1] if id(owner) in owners else 0
        owners[id(owner)] = owner, min(whole, before + used), whole
    return [
        (owner, used)
        for owner, used, whole in owners.values()
        if used and (whole <= _MOST_OWNED * used + ALIGNMENT or type(getattr(owner, "base", None)) is Lease)
    ]


def _owner_of(leaf: Any) -> tuple[Any, int, int]:
    """Return the owner of a leaf's memory, the leaf's bytes and the owner's."""
    if isinstance(leaf, ndarray):
        owner: Any = leaf
        while isinstance(owner.base, ndarray):
            owner = owner.base
        return owner, leaf.nbytes, owner.nbytes
    if type(leaf) in _LEAVES or isinstance(leaf, np.generic):
        return None, 0, 0
    nbytes = _declared_size(leaf)
    if nbytes is None:  # it may be anyone's: a function, a tokenizer
        return None, 0, 0
    storage_of = getattr(leaf, "untyped_storage", None)
    if callable(storage_of):
        storage = storage_of()
        if storage_of() is storage:  # one object for as long as the memory lives, since torch 2.1
            return storage, nbytes, int(storage.nbytes())
    return leaf, nbytes, nbytes


def _leaves_of(tree: Any) -> Iterator[Any]:
    stack = [tree]
    seen: dict[int, Any] = {}
    while stack and len(seen) < _MOST_CONTAINERS:
        node = stack.pop()
        try:
            kind = type(node)
            if kind is list or kind is tuple:
                if len(node) > _SHORT and type(node[0]) in _LEAVES and type(node[-1]) in _LEAVES:
                    continue
                items: Iterable[Any] | None = node
            else:
                items = None if kind is ndarray else _items_of(node)
            if items is not None:
                if id(node) not in seen:
                    seen[id(node)] = node
                    stack.extend(item for item in items if type(item) not in _LEAVES)
                continue
        except Exception:  # noqa: BLE001 - someone else's container
            continue
        yield node


def _items_of(node: Any) -> Iterable[Any] | None:
    """Return what a container holds, None for anything else."""
    if isinstance(node, ndarray):
        return None
    if isinstance(node, dict):  # a subclass may load what it is asked for; what it has is enough
        return dict.values(node)
    if isinstance(node, list):
        return list.__iter__(node)
    if isinstance(node, tuple):
        return tuple.__iter__(node)
    fields = getattr(type(node), "__dataclass_fields__", None)
    if isinstance(fields, dict):
        return [getattr(node, name) for name in fields if hasattr(node, name)]
    if type(getattr(node, "nbytes", None)) is int:
        return None
    if isinstance(node, Mapping):
        return islice(node.values(), _MOST_VALUES)
    if isinstance(node, Set | deque):
        return islice(node, _MOST_VALUES)
    return None


def _leaf_size(leaf: Any) -> int:
    nbytes = _declared_size(leaf)
    return getsizeof(leaf, 0) if nbytes is None else nbytes


def _declared_size(leaf: Any) -> int | None:
    """Return the bytes of data that an object says it has, None if it says nothing."""
    if isinstance(leaf, str | bytes | bytearray):
        return len(leaf)
    for ask in (_nbytes_of, _tensor_size, _image_size):
        try:
            nbytes: Any = ask(leaf)
        except Exception:  # noqa: BLE001 - no such attribute, or one that fails
            continue
        if isinstance(nbytes, (int, np.integer)) and not isinstance(nbytes, bool) and nbytes >= 0:
            return int(nbytes)
    return None


def _tensor_size(leaf: Any) -> int:
    size: int = leaf.numel() * leaf.element_size()
    return size


def _image_size(leaf: Any) -> int:
    width, height = leaf.size
    # Of Pillow's modes, integers and floats of 32 bits are the ones with more than a byte for each band.
    size: int = width * height * (4 if leaf.mode in ("I", "F") else len(leaf.getbands()))
    return size
