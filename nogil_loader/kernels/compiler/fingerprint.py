"""What a function depends on, in one hash.

Two functions have the same fingerprint if a compiler makes the same of them: same bytecode, same constants, and
the same for everything they refer to, however deep: functions (through globals, closures, defaults, attributes of
modules), numba's dispatchers with their options, arrays and numbers by value. Where the code stands, and the
names of its files, do not matter. What belongs to numpy, numba or Python itself counts by its name.

The hash is the same in every process. What cannot be described by value (an object of a class of one's own, what
numba's ``overload`` or ``vectorize`` has made) is *opaque*: it counts by identity, in this process only.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nogil_loader.kernels.compiler.references import MISSING, is_known_by_name, is_own, references


@dataclass(frozen=True)
class Fingerprint:
    """A hash, and whether another process would come to the same one.

    Attributes:
        digest: 32 hexadecimal digits.
        opaque: What was counted by identity, in words; empty if the digest is good in every process.
    """

    digest: str
    opaque: tuple[str, ...] = ()


def fingerprint(value: Any) -> Fingerprint:
    """Return the fingerprint of a function, of a constant, or of a mapping or sequence of such."""
    walk = _Walk()
    walk.add(value, "")
    return Fingerprint(walk.digest(), tuple(dict.fromkeys(walk.opaque)))


def is_parallel(function: Any) -> bool:
    """Whether a function, or anything that it calls, was given to numba with ``parallel=True``.

    Two threads in a parallel region abort the process on one of numba's threading layers.
    """
    walk = _Walk()
    walk.add(function, "")
    return any(bool(options.get("parallel")) for options in walk.options)


def is_dispatcher(value: Any) -> bool:
    """Whether a value is what ``numba.njit`` makes of a function."""
    module = sys.modules.get("numba.core.registry")  # whoever has such a value has imported numba
    return module is not None and isinstance(value, module.CPUDispatcher)


def is_overloaded(function: FunctionType) -> bool:
    """Whether numba has been told, by ``overload``, to compile something else in place of a function."""
    module = sys.modules.get("numba.core.typing.templates")
    if module is None or is_own(function):  # the code of this package's overloads is part of every key
        return False
    for known, kind in module.builtin_registry.globals:
        if known is function:
            for template in getattr(kind, "templates", ()):
                told = getattr(template, "_overload_func", None)
                if not getattr(told, "__qualname__", "").startswith("register_jitable."):
                    return True
    return False


class _Walk:
    def __init__(self) -> None:
        self.opaque: list[str] = []
        self.options: list[dict[str, Any]] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}  # functions and dispatchers: a second encounter refers to the first
        self._open: set[int] = set()  # containers being walked through

    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any, where: str) -> None:
        """Take in a value; ``where`` says in words how it was reached."""
        match value:
            case None | bool() | int() | str() | EllipsisType() if type(value) in _PLAIN:
                self._put(type(value).__name__, repr(value).encode("utf-8", "surrogatepass"))
            case float() | complex() if type(value) in _PLAIN:
                number = complex(value)
                self._put(type(value).__name__, struct.pack("<2d", number.real, number.imag))
            case bytes():
                self._put("bytes", value)
            case np.ndarray() | np.generic() | np.dtype():
                self._add_numpy(value, where)
            case enum.Enum():
                self._put("enum", f"{_name_of(type(value))}.{value.name}".encode())
                self.add(value.value, where)
            case CodeType():
                self._add_code(value, where)
            case dict() | list() | tuple() | set() | frozenset() | range() | slice():
                self._add_container(value, where)
            case FunctionType() if not is_known_by_name(value):
                if not self._is_known(value):
                    self._add_function(value, where)
            case _:
                self._add_other(value, where)

    def _add_other(self, value: Any, where: str) -> None:
        if value is MISSING:
            self._put("missing")
        elif is_dispatcher(value):
            if not self._is_known(value):
                self._add_dispatcher(value, where)
        elif isinstance(value, ModuleType):
            self._put("module", value.__name__.encode())
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            self._put("enum class", _name_of(value).encode())
            self._add_container({name: member.value for name, member in value.__members__.items()}, where)
        elif is_known_by_name(value) or (isinstance(value, type) and type(value) is type):
            self._put("name", f"{_name_of(value)} {getattr(value, '_fields', ())!r}".encode())
        elif type(value).__module__.startswith("numba.core.types"):
            self._put("numba type", repr(value).encode())
        else:
            self.opaque.append(f"{where or 'a value'} ({type(value).__module__}.{type(value).__qualname__})")
            self._put("opaque", str(id(value)).encode())

    def _put(self, kind: str, data: bytes = b"") -> None:
        # With its length before it, no piece can be mistaken for two, or two for one.
        self._hash.update(f"{kind}:{len(data)}:".encode() + data)

    def _is_known(self, value: Any) -> bool:
        number = self._seen.get(id(value))
        if number is not None:
            self._put("seen", str(number).encode())
            return True
        self._seen[id(value)] = len(self._seen)
        return False

    def _add_function(self, function: FunctionType, where: str) -> None:
        name = function.__qualname__
        if is_overloaded(function):
            self.opaque.append(f"{name} (implemented by an overload)")
            self._put("opaque", str(id(function)).encode())
        self._put("function")
        self._add_code(function.__code__, where)
        self.add(function.__defaults__, f"a default of {name}")
        self.add(function.__kwdefaults__, f"a default of {name}")
        for each in references(function):
            self._put("reference", ".".join((*each.path, *each.rest)).encode())
            self.add(each.value, f"{'.'.join(each.path)} in {name}")

    def _add_dispatcher(self, dispatcher: Any, where: str) -> None:
        options = dict(dispatcher.targetoptions)
        self.options.append(options)
        self._put("dispatcher", repr(sorted(options.items(), key=str)).encode())
        self._put("locals", repr(sorted(dispatcher.locals.items())).encode())
        if not getattr(
            dispatcher, "_can_compile", True
        ):  # given signatures convert what the function is called with
            self._put("signatures", repr(dispatcher.nopython_signatures).encode())
        self.add(dispatcher.py_func, where)

    def _add_code(self, code: CodeType, where: str) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._put("code", repr(counts).encode())
        self._put("bytes", code.co_code)
        self._put("table", code.co_exceptiontable)
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self._put("names", ",".join(names).encode())
        self._put("constants", str(len(code.co_consts)).encode())
        for constant in code.co_consts:
            self.add(constant, where)

    def _add_container(self, value: Any, where: str) -> None:
        kind = type(value)
        if id(value) in self._open:
            self._put("itself")
            return
        self._open.add(id(value))
        match value:
            case dict():
                self._put("dict", _name_of(kind).encode() + str(len(value)).encode())
                for key, item in value.items():
                    self.add(key, where)
                    self.add(item, key if isinstance(key, str) and not where else where)
            case set() | frozenset():
                self._put("set", str(sorted(_digests(value, self.opaque))).encode())
            case range() | slice():
                self._put(kind.__name__, repr(value).encode())
            case _:
                fields = repr(getattr(kind, "_fields", ()))
                self._put("sequence", f"{_name_of(kind)} {fields} {len(value)}".encode())
                for item in value:
                    self.add(item, where)
        self._open.discard(id(value))

    def _add_numpy(self, value: Any, where: str) -> None:
        dtype = value if isinstance(value, np.dtype) else value.dtype
        self._put("dtype", (repr(dtype.descr) if dtype.names else dtype.str).encode())
        if isinstance(value, np.dtype):
            return
        array = np.asarray(value)
        flags = (type(value).__name__, array.shape, array.flags.c_contiguous, array.flags.f_contiguous)
        self._put("array", repr(flags).encode())
        if dtype.hasobject:
            self._add_container(array.ravel().tolist(), where)
        elif dtype.itemsize:
            self._hash.update(array.ravel(order="K").view(np.uint8).data)  # in the order of memory: no copy


_PLAIN = {type(None), bool, int, float, complex, str, EllipsisType}


def _digests(values: Any, opaque: list[str]) -> Iterator[str]:
    for value in values:
        walk = _Walk()
        walk.add(value, "")
        opaque += walk.opaque
        yield walk.digest()


def _name_of(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{getattr(value, '__module__', '')}.{name}"
