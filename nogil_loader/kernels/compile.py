"""Compiles kernels: plain functions over bytes and offsets that run without the GIL.

- numba is imported when the first kernel is needed and not before. Machine code is kept on disk (see `cache`).
- A kernel has one declared signature. Whatever the dtype, rank or layout of the arrays it serves, they reach
  it as bytes, so a program never compiles more kernels than there are in the source.
- A kernel neither raises (an exception leaks its array arguments) nor allocates (a second allocation that
  fails leaks the first). Its caller checks bounds and provides memory.
- Without numba, and with NUMBA_DISABLE_JIT=1, the plain function runs in its place: same results, slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from nogil_loader.kernels.compiler.fingerprint import fingerprint
from nogil_loader.kernels.compiler.toolchain import (
    Compiled,
    compile_function,
    compiling,
    find_entry,
    is_disabled,
    load_numba,
    logger,
    make_key,
)

#: What a kernel may take: bytes to read or write, positions to read (int64), one number (int64).
Argument = Literal["bytes", "writable bytes", "positions", "number"]

_registry: list[Kernel] = []


class Kernel:
    """A function that is compiled at its first call, once for all threads.

    Args:
        python: The function. It runs as it is where numba cannot be had.
        arguments: What it takes, in order.

    Attributes:
        compiled: What has become of it; None before its first call.
    """

    def __init__(self, python: Callable[..., None], arguments: tuple[Argument, ...]) -> None:
        self.python = python
        self.name = python.__name__
        self._arguments = arguments
        self.compiled: Compiled | None = None

    def __call__(self, *args: Any) -> None:
        """Run the kernel on arrays and numbers as declared."""
        (self.compiled.function if self.compiled is not None else self.compile())(*args)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self._arguments)})>"

    @property
    def compiled_signatures(self) -> int:
        """How many machine code variants exist: 0 or 1."""
        return 0 if self.compiled is None else len(getattr(self.compiled.function, "signatures", ()))

    def compile(self) -> Callable[..., None]:
        """Compile the kernel, or load it from the cache on disk, unless that has been done."""
        with compiling:
            if self.compiled is None:
                self.compiled = _compile(self.python, self._arguments)
            function: Callable[..., None] = self.compiled.function
            return function


def kernel(*arguments: Argument) -> Callable[[Callable[..., None]], Kernel]:
    """Declare the decorated function a kernel that takes ``arguments``."""

    def declare(python: Callable[..., None]) -> Kernel:
        declared = Kernel(python, arguments)
        _registry.append(declared)
        return declared

    return declare


def warm_up(kernels: Iterable[Kernel] | None = None) -> float:
    """Compile kernels in the calling thread, so that no worker and no timeout ever waits for a compiler.

    With nothing cached this takes 1 to 3 s for the first kernel (most of it is numba's import and start) and
    some 0.2 s for each further one; from the cache on disk 1 s together. What is compiled already costs
    nothing. One line is logged when something was compiled.

    Args:
        kernels: Which kernels; all of this package by default.

    Returns:
        Seconds that it took.
    """
    began = time.perf_counter()
    wanted = [k for k in (_registry if kernels is None else kernels) if k.compiled is None]
    for each in wanted:
        each.compile()
    took = time.perf_counter() - began
    if wanted:
        logger.info("%d kernels ready after %.1f s: %s", len(wanted), took, ", ".join(k.name for k in wanted))
    return took


def _compile(python: Callable[..., None], arguments: tuple[Argument, ...]) -> Compiled:
    numba = load_numba()
    if numba is None or is_disabled(numba):
        return Compiled(python, "python")
    signature = numba.void(*(_numba_type(numba.types, argument) for argument in arguments))
    depends = fingerprint(python)
    key = make_key(numba, python.__name__, str(signature), depends.digest)
    entry = find_entry(python.__name__, key, depends.opaque)
    try:
        return compile_function(numba, python, signature, entry)
    except Exception as failure:  # noqa: BLE001 - a platform that cannot compile still has to load data
        logger.warning("kernel %s runs as plain Python, much slower: %r", python.__name__, failure)
        return Compiled(python, "python", None, repr(failure))


def _numba_type(types: Any, argument: Argument) -> Any:
    match argument:
        case "bytes":  # a readonly argument takes both kinds of arrays, any other refuses read-only ones
            return types.Array(types.uint8, 1, "C", readonly=True)
        case "writable bytes":
            return types.Array(types.uint8, 1, "C")
        case "positions":
            return types.Array(types.int64, 1, "C", readonly=True)
        case "number":
            return types.int64
