"""The compiler: whether there is one, what distinguishes it from others, and how a function is given to it.

numba is imported here, and in modules that are imported here, when the first kernel is needed and not before.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.compiler.cache import Entry, cache_folder
from nogil_loader.kernels.compiler.fingerprint import fingerprint

logger = logging.getLogger("nogil_loader.kernels")

#: Held while a kernel is compiled or loaded. numba's own lock covers compilation, not the question whether a
#: kernel has been compiled.
compiling: Final = threading.RLock()

#: What every kernel is compiled with. ``parallel``: two threads in a parallel region abort the process on one of
#: numba's threading layers. ``error_model``: division by zero gives what numpy gives, it does not raise.
OPTIONS: Final[Mapping[str, Any]] = {"nogil": True, "parallel": False, "error_model": "numpy"}

# What of numba's settings ends up in machine code.
_SETTINGS = (
    *("CPU_NAME", "CPU_FEATURES", "OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"),
    *("LOOP_VECTORIZE", "SLP_VECTORIZE", "DISABLE_INTEL_SVML"),
)

# Modules that give plain functions machine code of their own. They import numba. No reference leads to them, so
# their code is part of every key.
_OVERLOADS = (
    "nogil_loader.kernels.intrinsics",
    "nogil_loader.kernels.images.blocks",
    "nogil_loader.kernels.images.vectors",
)

_numba: Any = None
_unavailable = False
_told: set[str] = set()


@dataclass(frozen=True)
class Compiled:
    """A function ready to be called, and where its machine code is.

    Attributes:
        function: The function.
        origin: Whether this process has compiled it, has found it on disk, or runs it as plain Python.
        code: The file of its machine code, None if there is none.
        reason: Why there is none.
    """

    function: Any
    origin: Literal["compiled", "disk", "python"]
    code: Path | None = None
    reason: str = ""


def load_numba() -> Any:
    """Return the module numba, None (with one warning) if it is missing or broken."""
    global _numba, _unavailable
    if _numba is None and not _unavailable:
        try:
            import numba

            for name in _OVERLOADS:
                importlib.import_module(name)
        except Exception as failure:  # noqa: BLE001 - missing, or broken in whatever way
            _unavailable = True
            logger.warning("kernels run as plain Python, much slower: numba cannot be imported (%r)", failure)
        else:
            _numba = numba
    return _numba


def is_disabled(numba: Any) -> bool:
    """Whether numba has been told not to compile (NUMBA_DISABLE_JIT)."""
    return bool(numba.config.DISABLE_JIT)


def make_key(numba: Any, *parts: str) -> str:
    """Return 32 hexadecimal digits for the parts, the versions of all that compiles, and the processor."""
    import llvmlite
    import llvmlite.binding

    compiler = (
        *(numba.__version__, llvmlite.__version__, np.__version__, _own_version()),
        *map(_code_of, _OVERLOADS),
        *(sys.implementation.cache_tag or "", *map(str, sys.version_info), getattr(sys, "abiflags", "")),
        *(sys.platform, platform.machine(), llvmlite.binding.get_host_cpu_name()),
        llvmlite.binding.get_host_cpu_features().flatten(),
        *(f"{name}={getattr(numba.config, name, None)!r}" for name in _SETTINGS),
    )
    digest = hashlib.blake2b(digest_size=16)
    for part in (*parts, *compiler):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def find_entry(name: str, key: str, opaque: tuple[str, ...] = ()) -> Entry | str:
    """Return where a kernel's files are or will be, or why it cannot have any."""
    if opaque:
        return f"it depends on {', '.join(opaque)}"
    folder = cache_folder()
    if folder is None:
        return "no folder for it is known, NOGIL_LOADER_CACHE_DIR can name one"
    return Entry(folder, name, key)


def compile_function(
    numba: Any,
    python: Callable[..., Any],
    signature: Any,
    entry: Entry | str,
    prepare: Callable[[], None] = lambda: None,
) -> Compiled:
    """Return a function compiled for a signature, or loaded from the cache.

    Args:
        numba: The module.
        python: The function; the module that its ``__module__`` names must be importable.
        signature: What it takes and returns.
        entry: See `find_entry`.
        prepare: Called if it has to be compiled, before that.

    Raises:
        Exception: What the compiler raises about the function. Whatever happens with the cache is logged.
    """
    dispatcher = numba.njit(**OPTIONS)(python)

    def introduce() -> None:
        jit.introduce(numba)
        prepare()

    try:
        from nogil_loader.kernels.compiler.stored import Stored
    except ImportError as failure:  # a release of numba that is arranged otherwise
        introduce()
        dispatcher.compile(signature)
        compiled = Compiled(dispatcher, "compiled", None, repr(failure))
        _tell_uncached(python.__name__, compiled.reason)
    else:
        # numba's own cache needs a source file that stays as it is, and loads whatever its files contain.
        dispatcher._cache = cache = Stored(
            entry, introduce, lambda reason: _tell_uncached(python.__name__, reason)
        )
        dispatcher.compile(signature)
        compiled = Compiled(dispatcher, "disk" if cache.found else "compiled", cache.file, cache.reason)
    dispatcher.disable_compile()
    return compiled


def _tell_uncached(name: str, reason: str) -> None:
    """Log that a kernel is not cached on disk; one line in a process for each reason."""
    if reason not in _told:
        _told.add(reason)
        logger.info("kernel %s is compiled in memory and not cached on disk: %s", name, reason)


def _own_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("nogil_loader")
    except metadata.PackageNotFoundError:  # run from a folder or a zip
        return "unknown"


def _code_of(module: str) -> str:
    loader: Any = sys.modules[module].__loader__
    return fingerprint(loader.get_code(module)).digest


if hasattr(os, "register_at_fork"):
    # What is locked while a thread compiles, numba's own lock among it, would stay locked in a child.
    os.register_at_fork(
        before=compiling.acquire, after_in_parent=compiling.release, after_in_child=compiling.release
    )
