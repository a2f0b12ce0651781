"""Looks into a dataset: what it holds that threads would share."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import numpy as np

# A dataset's own objects are few; a list of file names is not looked through.
_MOST_OBJECTS = 3_000
_MOST_ITEMS = 200

# Classes whose objects are one thing with one position, or belong to one thread, by module and name: found without
# importing anything. The words are what the report calls them.
_HANDLES = {
    ("_io", "BufferedReader"): "an open file",
    ("_io", "BufferedRandom"): "an open file",
    ("_io", "FileIO"): "an open file",
    ("_io", "TextIOWrapper"): "an open text file",
    ("_io", "BytesIO"): "a BytesIO",
    ("tempfile", "_TemporaryFileWrapper"): "an open file",
    ("gzip", "GzipFile"): "an open gzip file",
    ("bz2", "BZ2File"): "an open bz2 file",
    ("lzma", "LZMAFile"): "an open lzma file",
    ("zipfile", "ZipFile"): "an open zip archive",
    ("zipfile", "ZipExtFile"): "an open member of a zip archive",
    ("tarfile", "TarFile"): "an open tar archive",
    ("tarfile", "ExFileObject"): "an open member of a tar archive",
    ("mmap", "mmap"): "a memory map",
    ("sqlite3", "Connection"): "a connection of sqlite3",
    ("sqlite3", "Cursor"): "a cursor of sqlite3",
    ("h5py._hl.files", "File"): "an open HDF5 file",
    ("h5py._hl.dataset", "Dataset"): "a dataset of an open HDF5 file",
    ("builtins", "generator"): "a generator",
    ("lmdb.cpython", "Environment"): "an environment of lmdb",
    ("lmdb.cpython", "Transaction"): "a transaction of lmdb",
    ("builtins", "Environment"): "an environment of lmdb",
    ("builtins", "Transaction"): "a transaction of lmdb",
}


def walk(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a dataset reaches, with the way there: attributes, items of short containers, closures.

    Of functions and methods, also the globals that their code names. What cannot be looked at is left out.
    """
    queue: deque[tuple[str, Any]] = deque([("dataset", dataset)])
    queue.extend(_globals_of(getattr(type(dataset), "__getitem__", None)))
    queue.extend(_globals_of(getattr(type(dataset), "__getitems__", None)))
    queue.extend(_globals_of(getattr(type(dataset), "__iter__", None)))
    seen: dict[int, Any] = {}
    while queue and len(seen) < _MOST_OBJECTS:
        path, value = queue.popleft()
        if id(value) in seen or value is None or isinstance(value, str | bytes | int | float | np.generic):
            continue
        seen[id(value)] = value
        yield path, value
        try:
            queue.extend(_children_of(path, value))
        except Exception:  # noqa: BLE001 - someone else's object
            continue


def generators_of(dataset: Any) -> list[tuple[str, Any]]:
    """Return the generators of random numbers that a dataset holds, with the way there."""
    torch = sys.modules.get("torch")
    kinds: tuple[Any, ...] = (np.random.Generator, np.random.RandomState, random.Random)
    if torch is not None:
        kinds += (torch.Generator,)
    # SystemRandom has no state; those that belong to the modules are known anyway.
    known = [getattr(random, "_inst", None), getattr(np.random, "mtrand", None) and np.random.mtrand._rand]
    if torch is not None:
        known.append(torch.default_generator)
    return [
        (path, value)
        for path, value in walk(dataset)
        if isinstance(value, kinds)
        and not isinstance(value, random.SystemRandom)
        and not any(value is each for each in known)
    ]


def handles_of(dataset: Any) -> list[tuple[str, str]]:
    """Return open files, archives, connections and iterators of a dataset: the way there and what it is."""
    return [(path, what) for path, what, _ in find_handles(dataset)]


def find_handles(dataset: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the same, with the objects themselves."""
    for path, value in walk(dataset):
        names = [(each.__module__, each.__name__) for each in type(value).__mro__]
        what = next((_HANDLES[name] for name in names if name in _HANDLES), "")
        if not what and names[0][0] in ("builtins", "itertools") and hasattr(type(value), "__next__"):
            what = "an iterator"
        if what:
            yield path, what, value


def _children_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        if len(value) <= _MOST_ITEMS:
            yield from ((f"{path}[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        if len(value) <= _MOST_ITEMS:
            yield from ((f"{path}[{at}]", item) for at, item in enumerate(list(value)))
    elif isinstance(value, MethodType):
        yield path, value.__self__
        yield from _globals_of(value.__func__)
    elif isinstance(value, FunctionType):
        yield from _globals_of(value)
    elif not isinstance(value, type) and type(value).__module__ not in ("builtins", "threading", "logging"):
        state = getattr(value, "__dict__", None)
        if isinstance(state, dict):
            yield from ((f"{path}.{name}", item) for name, item in list(state.items()))
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else tuple(slots):
                if hasattr(value, name):
                    yield f"{path}.{name}", getattr(value, name)


def _globals_of(function: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(function, FunctionType):
        return
    names = function.__code__.co_names
    yield from (
        (name, function.__globals__[name])
        for name in names
        if name in function.__globals__ and not isinstance(function.__globals__[name], type)
    )
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet bound
            continue
