"""Copies of user functions, tied to what they refer to now.

numba compiles a function once and keeps what its globals were at that moment. A constant that was changed, or a
helper that was defined anew in a notebook, would go unnoticed, and a kernel be stored under the fingerprint of
code that it does not contain. So every kernel is compiled with copies of its own.

The copies belong to the kernel's module, which another process can import whatever the functions came from.
Plain functions become known to numba, dispatchers are made again with their options. What belongs to this package,
to numpy, numba or Python, and what numba implements by an overload, stays what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

from nogil_loader.kernels.compiler.fingerprint import is_dispatcher, is_overloaded
from nogil_loader.kernels.compiler.references import MISSING, is_known_by_name, is_own, references


def is_users(value: Any) -> bool:
    """Whether a value is a function, plain or compiled by ``numba.njit``, that this package copies."""
    if is_dispatcher(value):
        value = value.py_func
    return isinstance(value, FunctionType) and not (
        is_own(value) or is_known_by_name(value) or is_overloaded(value)
    )


class Snapshot:
    """Copies of functions and of all that they call.

    Args:
        numba: The module.
        module: Name of the module that the copies shall belong to.
    """

    def __init__(self, numba: Any, module: str) -> None:
        self._numba = numba
        self._module = module
        self._copies: dict[int, Any] = {}
        self._originals: list[Any] = []  # keeps the ids above unique
        self._typed: list[tuple[Any, Any]] = []

    def take(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Return the mapping with copies in place of user functions."""
        taken = {name: self._copy(value) for name, value in names.items()}
        while self._typed:
            copy, dispatcher = self._typed.pop()
            for signature in dispatcher.nopython_signatures:
                copy.compile(signature)
            copy.disable_compile()
        return taken

    def _copy(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(self._copy, value))
        if not is_users(value):
            return value
        if id(value) not in self._copies:
            self._originals.append(value)
            if is_dispatcher(value):
                self._copy_dispatcher(value)
            else:
                copy, fill = self._shell(value)
                self._copies[id(value)] = copy
                fill()
                self._numba.extending.register_jitable(copy)
        return self._copies[id(value)]

    def _copy_dispatcher(self, dispatcher: Any) -> None:
        python, fill = self._shell(dispatcher.py_func)
        pipeline = getattr(dispatcher._compiler, "pipeline_class", None)
        copy = self._numba.jit(locals=dispatcher.locals, pipeline_class=pipeline, **dispatcher.targetoptions)(
            python
        )
        self._copies[id(dispatcher)] = copy
        fill()
        if not getattr(
            dispatcher, "_can_compile", True
        ):  # made for given signatures, which convert arguments
            self._typed.append((copy, dispatcher))

    def _shell(self, function: FunctionType) -> tuple[FunctionType, Callable[[], None]]:
        """Return a copy without globals and closure, and what fills them in: functions may refer to each other."""
        scope: dict[str, Any] = {"__name__": self._module, "__builtins__": __builtins__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = function.__qualname__

        def fill() -> None:
            variables: dict[str, Any] = {}
            for each in references(function):
                if each.value is not MISSING:
                    _place(variables if each.enclosed else scope, each.path, self._copy(each.value))
            for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
                if name in variables:
                    cell.cell_contents = variables[name]

        return copy, fill


class _Standin(ModuleType):
    """What a copy finds in place of a user's module: those of its attributes that the copy refers to."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} {self._number}>"  # numba takes modules that print the same for the same


_numbers = itertools.count()


def _place(scope: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value where a function finds it, behind stand-ins for the user's modules."""
    *modules, last = path
    for name in modules:
        if name not in scope:
            scope[name] = _Standin(name)
        scope = vars(scope[name])
    scope[last] = value
