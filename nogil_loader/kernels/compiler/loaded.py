"""Loads the kernels that do not depend on transforms, and tells where each came from."""

from __future__ import annotations

import time

from nogil_loader.kernels import compile
from nogil_loader.kernels.compiler.generated import GeneratedKernel
from nogil_loader.kernels.compiler.toolchain import is_disabled, load_numba


def can_compile() -> bool:
    """Whether kernels are compiled at all in this process."""
    numba = load_numba()
    return numba is not None and not is_disabled(numba)


def load_own_kernels() -> list[GeneratedKernel]:
    """Compile this package's kernels for collation, or load them; return what has become of each."""
    load_numba()  # its import shall not count for the first kernel
    loaded = []
    for each in compile._registry:
        began = time.perf_counter()
        each.compile()
        took, made = time.perf_counter() - began, each.compiled
        assert made is not None, "it was compiled"
        loaded.append(
            GeneratedKernel(each.name, made.function, made.origin, took, code=made.code, reason=made.reason)
        )
    return loaded
