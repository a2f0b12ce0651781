"""glibc gives memory back when asked, keeps no large blocks once told so, and no other system is asked."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nogil_loader.memory import heap
from tests.scripts import RunScript

needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="the C library is not glibc"
)

COMMON = """
    import os
    import threading
    from pathlib import Path
    import numpy as np
    from nogil_loader.memory import heap

    MB = 1_000_000

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def in_threads(work):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
"""


@needs_glibc
def test_c22_with_fixed_thresholds_freed_arrays_leave_nothing_behind(run_script: RunScript) -> None:
    result = run_script(
        COMMON
        + """
    assert heap.fix_thresholds()
    assert heap.fix_thresholds()
    crew = threading.Barrier(16)
    beside = [[] for _ in range(16)]  # small things that stay, as a program's do
    most = []

    def fill_and_free(seed):
        sizes = np.random.default_rng(seed)
        kept = []
        for _ in range(12):
            kept.append(np.full(int(sizes.uniform(1, 32) * MB), 1, np.uint8))
            beside[seed].append(bytearray(1000))
            del kept[:-2]
        crew.wait()
        if seed == 0:
            most.append(resident())
        crew.wait()

    in_threads(lambda seed: None)
    before = resident()
    in_threads(fill_and_free)
    assert most[0] - before > 200 * MB, (most, before)
    assert resident() - before < 40 * MB, (resident() - before) / MB
    """
    )
    assert result.returncode == 0, result.stderr


@needs_glibc
def test_trimming_returns_what_small_arrays_left(run_script: RunScript) -> None:
    result = run_script(
        COMMON
        + """
    def leave(seed):
        small = [np.full(20_000, 1, np.uint8) for _ in range(500)]
        pins[seed] = small[::100]

    pins = {}
    before = resident()
    in_threads(leave)
    left = resident() - before
    assert heap.trim()
    assert resident() - before < left / 2 + MB, (left, resident() - before)
    """
    )
    assert result.returncode == 0, result.stderr


@pytest.fixture
def forget() -> Iterator[None]:
    """Look at the C library anew, before and after."""
    for function in (heap._glibc, heap.fix_thresholds):
        function.cache_clear()
    yield
    for function in (heap._glibc, heap.fix_thresholds):
        function.cache_clear()


def refuse(error: Exception) -> Callable[[Any], Any]:
    def load(name: Any) -> Any:
        raise error

    return load


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize(
    "load",
    [
        refuse(OSError("no library")),
        refuse(TypeError("LoadLibrary() argument 1 must be str, not None")),  # what Windows says
        lambda name: SimpleNamespace(malloc_trim=None, mallopt=None),  # musl has no gnu_get_libc_version
        lambda name: SimpleNamespace(gnu_get_libc_version=None),
    ],
)
def test_other_systems_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], load: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert heap.trim() is False
    assert heap.fix_thresholds() is False
    assert capfd.readouterr() == ("", "")
