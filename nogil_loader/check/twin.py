"""Copies of a dataset as it is before its first call, for faults that show only then, and of what changes in it.

A twin has Python objects and small containers of its own, so that a handle which is opened at the first call, an
index that is built then, or a counter starts afresh in each twin. Everything else (arrays, open files, locks) it
shares with the dataset, so that a twin costs next to nothing.
"""

from __future__ import annotations

import functools
import struct
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import MethodType
from typing import Any

import numpy as np

# Longer containers are data, not state; copying them for each twin would take longer than the calls.
_MOST_ITEMS = 1_000
_MOST_OBJECTS = 3_000
# The same for arrays, in bytes.
_SMALL = 1 << 16
# No count gets that far; a float cannot count beyond it.
_LARGEST = 2**53

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by an extension module at run time
_POINTER = struct.calcsize("P")

_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.generic, np.dtype, type, range, slice)
_CONTAINERS = (dict, list, tuple, set, deque, OrderedDict, defaultdict, Counter)
_SYNCHRONISATION = (type(threading.Lock()), type(threading.RLock()), threading.local)


class NoTwinError(Exception):
    """There can be no twin of this dataset."""


def twin_of(dataset: Any) -> Any:
    """Return a copy of the objects that make up a dataset, sharing its data and its handles.

    Raises:
        NoTwinError: It is no plain object of Python, or destroying the copy might close what both share.
    """
    home = _home_of(dataset)
    if not _is_plain_object(dataset, home):
        raise NoTwinError(f"{type(dataset).__name__} is not a plain Python object")
    survey = _Survey(home)
    survey.visit(dataset)
    if survey.has_finalizer and survey.shares:
        # Not one copy may be made to find that out: its end would do the harm.
        raise NoTwinError(f"{type(dataset).__name__} has a __del__, which might close what copies share")
    return _Copier(home).copy(dataset)


def state_of(twin: Any) -> dict[str, float]:
    """Return how far the counts in a twin have got: the way to each number that it holds, and the number.

    Lengths of containers are among them, as ``len(...)``, and sums of short arrays.
    """
    state: dict[str, float] = {}
    _State(state, _home_of(twin)).visit(twin, "")
    return state


class _Survey:
    """Looks at what a copy would be made of.

    Attributes:
        has_finalizer: Whether an object that would be copied has a ``__del__``.
        shares: Whether copies would have in common what may be a handle.
    """

    def __init__(self, home: str) -> None:
        self.has_finalizer = False
        self.shares = False
        self._home = home
        self._seen: dict[int, Any] = {}

    def visit(self, value: Any) -> None:
        """Look at a value and all that is in it."""
        if isinstance(value, _PLAIN) or id(value) in self._seen:
            return
        if len(self._seen) >= _MOST_OBJECTS:
            raise NoTwinError("it consists of too many objects")
        self._seen[id(value)] = value
        if _is_container(value):
            items: Iterable[Any] = value.values() if isinstance(value, dict) else value
            for item in items:
                self.visit(item)
        elif _is_plain_object(value, self._home):
            self.has_finalizer = self.has_finalizer or hasattr(type(value), "__del__")
            for _, item in _attributes_of(value):
                self.visit(item)
        else:
            self.shares = self.shares or not _is_harmless(value)


class _Copier:
    """Copies one dataset."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if id(value) not in self._copies:
            self._copy(value)
        return self._copies[id(value)]

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if _is_container(value):
            self._copy_container(value)
        elif kind is np.ndarray:
            self._copies[id(value)] = value.copy() if value.nbytes <= _SMALL else value
        elif kind is MethodType and id(value.__self__) in self._copies:
            self._copies[id(value)] = MethodType(value.__func__, self._copies[id(value.__self__)])
        elif _is_plain_object(value, self._home):
            made = self._copies[id(value)] = object.__new__(kind)
            for name, item in _attributes_of(value):
                object.__setattr__(made, name, self.copy(item))
        else:
            self._copies[id(value)] = value

    def _copy_container(self, value: Any) -> None:
        if type(value) is tuple:
            self._copies[id(value)] = tuple(self.copy(item) for item in value)
            return
        made = self._copies[id(value)] = value.copy()
        if isinstance(value, dict):
            for key, item in value.items():
                made[key] = self.copy(item)
        elif not isinstance(value, set):
            made.clear()
            made.extend(self.copy(item) for item in value)


class _State:
    """Writes down how far the counts in an object have got."""

    def __init__(self, state: dict[str, float], home: str) -> None:
        self._state = state
        self._home = home
        self._seen: dict[int, Any] = {}

    def visit(self, value: Any, path: str) -> None:
        if isinstance(value, int | float | np.integer | np.floating):
            if -_LARGEST < value < _LARGEST:
                self._state[path] = float(value)
        elif isinstance(value, np.ndarray):
            if value.nbytes <= _SMALL and value.dtype.kind in "iuf":
                self._state[f"sum({path})"] = float(value.sum(dtype=np.float64))
        elif id(value) in self._seen or len(self._seen) >= _MOST_OBJECTS:
            return
        elif _is_container(value):
            self._seen[id(value)] = value
            self._state[f"len({path})"] = float(len(value))
            if isinstance(value, dict):
                for key, item in list(value.items()):
                    self.visit(item, f"{path}[{key!r}]")
        elif _is_plain_object(value, self._home):
            self._seen[id(value)] = value
            for name, item in _attributes_of(value):
                self.visit(item, f"{path}.{name}")


def _is_container(value: Any) -> bool:
    """Whether each copy has its own; a longer one is data, not state."""
    return type(value) in _CONTAINERS and len(value) <= _MOST_ITEMS


def _attributes_of(value: Any) -> list[tuple[str, Any]]:
    """Return what a plain object consists of."""
    found = list(getattr(value, "__dict__", {}).items())
    return found + [(name, getattr(value, name)) for name in _slots_of(type(value)) if hasattr(value, name)]


def _is_plain_object(value: Any, home: str) -> bool:
    """Whether an object consists of nothing but its attributes, so that they make up a copy.

    Args:
        value: The object.
        home: Name of the package that the dataset's class is from. What belongs to other installed packages, or to
            Python, may depend on more than its attributes, and is shared.
    """
    kind = type(value)
    if isinstance(value, type) or not kind.__flags__ & _HEAP_TYPE or _is_others(kind.__module__, home):
        return False
    slots = _slots_of(kind)
    if not slots and not hasattr(value, "__dict__"):
        return False
    # Whatever a class of C keeps for itself lies in the object, which is longer then.
    return kind.__basicsize__ <= object.__basicsize__ + _POINTER * (2 + len(slots))


@functools.lru_cache(maxsize=1024)
def _is_others(module: str, home: str) -> bool:
    package = module.partition(".")[0]
    if package == home:
        return False
    if package in sys.stdlib_module_names:
        return package != "__main__"
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _home_of(dataset: Any) -> str:
    return type(dataset).__module__.partition(".")[0]


def _is_harmless(value: Any) -> bool:
    """Whether nothing that a destroyed copy does could matter to this one."""
    return (
        isinstance(value, (*_SYNCHRONISATION, np.ndarray))
        or type(value).__module__ in ("threading", "_thread", "pathlib")
        or (callable(value) and type(value).__module__ == "builtins")
    )


def _slots_of(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names.extend((slots,) if isinstance(slots, str) else slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]
