"""The key of a kernel names all that its code depends on beside its functions, and those are copied faithfully."""

from __future__ import annotations

import platform
import sys
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest

from nogil_loader.kernels.compiler import toolchain
from nogil_loader.kernels.compiler.snapshot import Snapshot
from nogil_loader.kernels.compiler.toolchain import make_key


@pytest.fixture(autouse=True)
def _loaded() -> None:
    assert toolchain.load_numba() is numba


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (numba, "__version__", "0.0"),
        (llvmlite, "__version__", "0.0"),
        (np, "__version__", "0.0"),
        (llvmlite.binding, "get_host_cpu_name", lambda: "z80"),
        (llvmlite.binding, "get_host_cpu_features", lambda: llvmlite.binding.FeatureMap({"mmx": True})),
        (platform, "machine", lambda: "other"),
        (sys, "version_info", (3, 99, 0)),
        (numba.config, "BOUNDSCHECK", 1),
        (numba.config, "CPU_NAME", "generic"),
        (toolchain, "_OVERLOADS", ()),
        (toolchain, "_own_version", lambda: "other"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.strip("_").isidentifier() else "",
)
def test_the_key_changes_with(place: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_key(numba, "part")
    assert make_key(numba, "part") == before
    monkeypatch.setattr(place, name, value)
    assert make_key(numba, "part") != before


def test_the_key_changes_with_its_parts_and_their_bounds() -> None:
    assert (
        len({make_key(numba, *parts) for parts in (("a", "b"), ("ab",), ("a",), ("b", "a"), ("ab", ""))}) == 5
    )


def test_copies_of_compiled_functions_keep_their_options() -> None:
    @numba.njit(fastmath={"nnan"}, error_model="numpy", boundscheck=True)
    def fast(x: Any) -> Any:
        return x + 1

    copy = Snapshot(numba, "elsewhere").take({"fast": fast})["fast"]
    assert copy is not fast
    assert copy.targetoptions == fast.targetoptions
    assert copy.py_func.__module__ == "elsewhere"


def test_functions_that_call_each_other_are_copied_once_each() -> None:
    scope: dict[str, Any] = {"__name__": "elsewhere"}
    exec(
        "def even(n): return odd(n - 1) if n else True\ndef odd(n): return even(n - 1) if n else False", scope
    )
    taken = Snapshot(numba, "elsewhere").take({"even": scope["even"], "odd": scope["odd"]})
    assert taken["even"].__globals__["odd"] is taken["odd"]
    assert taken["odd"].__globals__["even"] is taken["even"]
    assert taken["even"](4) is True
