"""Kernels made from generated source: compiled once in a process, and kept on disk for the next one.

- A kernel is identified by a hash of its source, its signature, everything that the functions in it depend on, and
  the compiler (see `fingerprint` and `toolchain`). So what is found in the cache is what would be compiled.
- The source is put into the cache folder too: to be read, and shown in tracebacks. It is executed as a module
  under the same name in every process, which is what machine code on disk refers to.
- Whatever is wrong with the folder, the kernel is compiled in memory and one line is logged.
- Without numba, and with NUMBA_DISABLE_JIT=1, the source runs as plain Python: same results, slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

from nogil_loader.kernels.compiler.cache import Entry
from nogil_loader.kernels.compiler.explain import explain_failure, summarise
from nogil_loader.kernels.compiler.fingerprint import fingerprint
from nogil_loader.kernels.compiler.snapshot import Snapshot, is_users
from nogil_loader.kernels.compiler.toolchain import (
    compile_function,
    compiling,
    find_entry,
    is_disabled,
    load_numba,
    logger,
    make_key,
)

# By key; None for what could not be compiled. Kept as long as the process, as numba keeps the code.
_loaded: dict[str, GeneratedKernel | None] = {}


@dataclass(frozen=True)
class GeneratedKernel:
    """A kernel that is ready to be called.

    Attributes:
        name: The function's name.
        function: The function, compiled for its signature.
        origin: Whether this process has compiled it, has loaded it from disk, or runs it as plain Python.
        seconds: What that took.
        file: Where its source stands; None if it could not be written.
        code: Where its machine code stands; None if nowhere.
        reason: Why there is none.
    """

    name: str
    function: Callable[..., Any]
    origin: Literal["compiled", "disk", "python"]
    seconds: float
    file: Path | None = None
    code: Path | None = None
    reason: str = ""

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)


def load_kernel(
    source: str,
    name: str,
    signature: Callable[[Any], Any],
    names: Mapping[str, Any],
    *,
    announce: Callable[[str], None] | None = None,
) -> GeneratedKernel | None:
    """Return the kernel that a piece of source defines, from memory, from disk, or compiled now, in this thread.

    Args:
        source: Python source of a module that defines one function and imports nothing.
        name: The function's name.
        signature: Given ``numba.types``, returns the function's signature.
        names: What the source refers to: functions marked ``@jitable``, user functions (plain, or dispatchers
            made by ``numba.njit``), constants.
        announce: Called with the name before compiling, which takes seconds; not if the kernel is found.

    Returns:
        The kernel. None if the fault is not the user's and the source cannot be compiled here: a warning has been
        logged once, and the caller does without.

    Raises:
        ValueError: A user function cannot be compiled; says which line of it and why.
    """
    began = time.perf_counter()
    numba = load_numba()
    if numba is None or is_disabled(numba):
        module = _execute(source, f"{__name__}_{name}", None, names)
        return GeneratedKernel(name, vars(module)[name], "python", time.perf_counter() - began)
    with compiling:
        types = signature(numba.types)
        depends = fingerprint(dict(sorted(names.items())))
        key = make_key(numba, source, name, str(types), depends.digest)
        if key not in _loaded:
            wanted = _Wanted(source, name, types, names, key, find_entry(name, key, depends.opaque))
            _loaded[key] = _load(numba, wanted, announce, began)
        return _loaded[key]


@dataclass(frozen=True)
class _Wanted:
    source: str
    name: str
    signature: Any
    names: Mapping[str, Any]
    key: str
    entry: Entry | str


def _load(
    numba: Any, wanted: _Wanted, announce: Callable[[str], None] | None, began: float
) -> GeneratedKernel | None:
    name = wanted.name
    file = _write_source(wanted)
    module = _execute(wanted.source, f"{__name__}_{wanted.key}", file, wanted.names)
    sys.modules[module.__name__] = module  # machine code on disk belongs to a module that can be imported
    python: FunctionType = vars(module)[name]

    def prepare() -> None:
        if announce is not None:
            announce(name)
        vars(module).update(Snapshot(numba, module.__name__).take(wanted.names))

    try:
        compiled = compile_function(numba, python, wanted.signature, wanted.entry, prepare)
    except Exception as error:
        users = {each: value for each, value in wanted.names.items() if is_users(value)}
        if (told := explain_failure(error, users, python)) is not None:
            raise told from error
        logger.warning(
            "kernel %s cannot be compiled, numpy does its work, slower: %s", name, summarise(error)
        )
        return None
    took = time.perf_counter() - began
    if compiled.origin == "disk":
        logger.debug("loaded kernel %s in %.2f s", name, took)
    else:
        logger.info("compiled kernel %s in %.1f s", name, took)
    return GeneratedKernel(
        name, compiled.function, compiled.origin, took, file, compiled.code, compiled.reason
    )


def loaded_kernels() -> list[GeneratedKernel]:
    """Return the kernels that this process has, in the order of their first use."""
    return [each for each in _loaded.values() if each is not None]


def _write_source(wanted: _Wanted) -> Path | None:
    if isinstance(wanted.entry, str):
        return None
    with contextlib.suppress(OSError):  # told when the machine code cannot be written either
        wanted.entry.write_source(wanted.source)
        return wanted.entry.source
    return None


def _execute(source: str, module_name: str, file: Path | None, names: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(module_name)
    place = str(file)
    if file is None:  # tracebacks show the source nonetheless
        place = f"<{module_name} {hashlib.blake2b(source.encode(), digest_size=4).hexdigest()}>"
        linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    vars(module).update(names, __file__=place)
    exec(compile(source, place, "exec"), vars(module))
    return module
