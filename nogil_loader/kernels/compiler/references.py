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
from types import CellType, CodeType, FunctionType, ModuleType
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
        enclosed: Whether the first name is a variable of an enclosing function, not a global one.
    """

    path: tuple[str, ...]
    value: Any
    rest: tuple[str, ...]
    enclosed: bool


def references(function: FunctionType) -> Iterator[Reference]:
    """Yield what the code of a function, and of functions defined in it, refers to outside itself."""
    scope = function.__globals__
    variables = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for enclosed, path in _paths(function.__code__):
        first, *names = path
        if not enclosed:
            value = scope[first] if first in scope else getattr(builtins, first, MISSING)
        elif first in variables:
            value = contents(variables[first])
        else:
            continue  # a variable of the function itself, for functions defined in it
        taken = 1
        for name in names:
            if not isinstance(value, ModuleType) or is_known_by_name(value):
                break
            value = getattr(value, name, MISSING)
            taken += 1
        rest = path[taken:] if isinstance(value, ModuleType) else ()
        yield Reference(path[:taken], value, rest, enclosed)


def contents(cell: CellType) -> Any:
    """Return the value of a variable of an enclosing function, `MISSING` if it is not set yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


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
def _paths(code: CodeType) -> tuple[tuple[bool, tuple[str, ...]], ...]:
    """The dotted names that start outside the code, and whether in an enclosing function, sorted."""
    found: set[tuple[bool, tuple[str, ...]]] = set()
    enclosed, path = False, tuple[str, ...]()
    for instruction in dis.get_instructions(code):
        match instruction.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_DEREF":
                enclosed, path = instruction.opname == "LOAD_DEREF", (instruction.argval,)
                found.add((enclosed, path))
            case "LOAD_ATTR" | "LOAD_METHOD" if path:
                found.discard((enclosed, path))
                path = (*path, instruction.argval)
                found.add((enclosed, path))
            case "CACHE" | "EXTENDED_ARG" | "PUSH_NULL":
                pass
            case _:
                path = ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_paths(constant))
    return tuple(sorted(found))
