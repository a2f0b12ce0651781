"""What a function's code refers to: globals, attributes of modules, variables of enclosing functions.

Read from the bytecode, so that it works for functions without source: in a zip, a notebook, made by ``exec``.
"""

from __future__ import annotations

import builtins
import dis
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

#: Stands for a global name that nothing is bound to.
MISSING: Final = object()

# Their functions are what the compiler knows by name; their code is not what runs in a kernel, and their versions
# are part of every key.
_KNOWN_BY_NAME = frozenset(sys.stdlib_module_names) | {"numpy", "numba", "llvmlite"}
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


@dataclass(frozen=True)
class Reference:
    """One thing that a function refers to.

    Attributes:
        path: The names that lead there, as in ``helpers.blend``: ``("helpers", "blend")``.
        value: What is there now, or `MISSING`.
        rest: Further attribute names when ``value`` is a module of numpy, numba or the standard library.
    """

    path: tuple[str, ...]
    value: Any
    rest: tuple[str, ...] = ()


def references(function: FunctionType) -> Iterator[Reference]:
    """Yield what the code of a function, and of functions defined in it, refers to by global name."""
    for path in _paths(function.__code__):
        first, *names = path
        scope = function.__globals__
        value = scope[first] if first in scope else getattr(builtins, first, MISSING)
        taken = 1
        for name in names:
            if not isinstance(value, ModuleType) or is_known_by_name(value):
                break
            value = getattr(value, name, MISSING)
            taken += 1
        rest = path[taken:] if isinstance(value, ModuleType) else ()
        yield Reference(path[:taken], value, rest)


def enclosed(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the variables of enclosing functions, `MISSING` for one that is not set yet."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            yield name, MISSING


def is_known_by_name(value: Any) -> bool:
    """Whether a module, function or class belongs to numpy, numba or Python itself."""
    if isinstance(value, FunctionType):
        # What wraps a function takes over its __module__; the globals tell where the code is from.
        module = value.__globals__.get("__name__")
    elif isinstance(value, ModuleType):
        module = value.__name__
    elif isinstance(getattr(value, "__name__", None), str):
        module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None)
    else:
        return False
    top = module.partition(".")[0] if isinstance(module, str) else ""
    if top not in _KNOWN_BY_NAME:
        return False
    return top in {"numpy", "numba", "llvmlite"} or not _shadows(value)


def is_own(function: FunctionType) -> bool:
    """Whether a function is part of this package."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == __name__.partition(".")[0]


def _shadows(value: Any) -> bool:
    """Whether a function or module is only named like one of the standard library: its file lies elsewhere."""
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    else:
        file = getattr(value, "__file__", None) or "<built in>"
    inside = (
        file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file and "dist-packages" not in file
    )
    return not inside and not file.startswith("<")


@functools.lru_cache(maxsize=4096)
def _paths(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The dotted names that start at a global name, sorted."""
    found: set[tuple[str, ...]] = set()
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        match instruction.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME":
                path = (instruction.argval,)
                found.add(path)
            case "LOAD_ATTR" | "LOAD_METHOD" if path:
                found.discard(path)
                path = (*path, instruction.argval)
                found.add(path)
            case "CACHE" | "EXTENDED_ARG" | "PUSH_NULL":
                pass
            case _:
                path = ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_paths(constant))
    return tuple(sorted(found))
