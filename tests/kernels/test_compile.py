"""Kernels are compiled lazily, once for all threads and dtypes, and without numba run as plain Python."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import pad_collate
from nogil_loader.kernels import compile as compiling
from nogil_loader.kernels import kernel, pad_rows, warm_up
from tests import scripts
from tests.scripts import RunScript

PAD = """
import numpy as np
from nogil_loader.collate import DefaultCollate, default_collate, pad_collate
from nogil_loader.kernels import pad_rows, warm_up

def pad():
    # One by one: a list of short rows is laid out without the kernel.
    rows = [np.arange(3), np.arange(5), np.arange(0)]
    slots = pad_collate(value=7).begin(rows[0], [0, 1, 2])
    for position, row in enumerate(rows):
        slots.put(row, position)
    return slots.finish(3).values.tolist()

EXPECTED = [[0, 1, 2, 7, 7], [0, 1, 2, 3, 4], [7] * 5]
"""


def test_e04_eight_threads_that_need_a_kernel_first_compile_it_once(
    run_script: RunScript, tmp_path: Any
) -> None:
    result = run_script(
        PAD
        + """
import threading
from numba.core import event

barrier = threading.Barrier(8)
results = []

def worker():
    barrier.wait()
    results.append(pad())

with event.install_recorder("numba:compile") as recorder:
    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert results == [EXPECTED] * 8, results
names = [
    each.data["dispatcher"].py_func.__name__
    for _, each in recorder.buffer
    if each.is_start and "dispatcher" in each.data
]
assert names.count("pad_rows") == 1, names
assert pad_rows.compiled_signatures == 1
""",
        timeout=50,
        environment={"NOGIL_LOADER_CACHE_DIR": str(tmp_path / "cold")},
    )
    assert result.returncode == 0, result.stderr


def test_e05_warm_up_compiles_in_the_calling_thread_and_says_so_once(run_script: RunScript) -> None:
    result = run_script(
        PAD
        + """
import logging, sys
default_collate.warm_up()
assert "numba" not in sys.modules
records = []
handler = logging.Handler()
handler.emit = records.append
logging.getLogger("nogil_loader.kernels").addHandler(handler)
logging.getLogger("nogil_loader.kernels").setLevel(logging.INFO)
assert warm_up() > 0
assert [record.threadName for record in records] == ["MainThread"], records
assert "pad_rows" in records[0].getMessage()

from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    assert pad() == EXPECTED
    warm_up()
    pad_collate().warm_up()
    DefaultCollate(per_key={"a": pad_collate()}).warm_up()
assert not recorder.buffer and len(records) == 1
""",
        timeout=50,
    )
    assert result.returncode == 0, result.stderr


def test_e06_no_mix_of_dtype_rank_layout_or_flags_compiles_a_kernel_again() -> None:
    collate = pad_collate()
    locked = np.zeros(4)
    locked.flags.writeable = False
    made = 0
    for dtype in ("u1", "i4", "i8", "f2", "f4", "f8", ">f4", "c8", "M8[s]", "U3"):
        for rank in (1, 2, 3, 4):
            for layout in ("C", "F", "sliced", "locked"):
                array: np.ndarray[Any, Any] = np.zeros((3,) * rank, dtype, "F" if layout == "F" else "C")
                array = array[::2] if layout == "sliced" else array
                array.flags.writeable = layout != "locked"
                value = {"M": np.datetime64("NaT"), "U": "x"}.get(array.dtype.kind, 0)
                pad_collate(value=value)([array, array[:1]])
                made += 1
    assert made == 160
    assert collate([locked]).values.shape == (1, 4)
    assert all(each.compiled_signatures <= 1 for each in compiling._registry)


def test_e10_collation_without_the_compiler_passes_the_same_tests() -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *("tests/collate/test_pad.py", "tests/collate/test_pack.py", "tests/kernels/test_rows.py"),
        ],
        cwd=scripts.REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]


@pytest.mark.parametrize(
    "breakage",
    ["sys.modules['numba'] = None", "sys.modules['numba.core'] = sys.modules['numba.extending'] = None"],
    ids=["missing", "broken"],
)
def test_e10_without_numba_kernels_give_the_same_results_and_one_warning(
    run_script: RunScript, breakage: str
) -> None:
    result = run_script(
        f"""
import logging, sys
{breakage}
logging.basicConfig(format="%(levelname)s %(message)s")
{PAD}
warm_up()
assert pad() == pad() == EXPECTED
assert pad_rows.compiled_signatures == 0
"""
    )
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("WARNING kernels run as plain Python, much slower: numba cannot be imported")


def test_a_kernel_that_cannot_be_compiled_runs_as_plain_python(caplog: pytest.LogCaptureFixture) -> None:
    @kernel("writable bytes")
    def hopeless(out: Any) -> None:
        out[0] = eval("2")  # nothing a compiler could do about

    try:
        out = np.zeros(1, np.uint8)
        with caplog.at_level(logging.WARNING, "nogil_loader.kernels"):
            hopeless(out)
            hopeless(out)
        assert out[0] == 2
        assert [record.getMessage().split(" runs")[0] for record in caplog.records] == ["kernel hopeless"]
    finally:
        compiling._registry.remove(hopeless)


def test_a_kernel_is_compiled_without_cache_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NOGIL_LOADER_CACHE_DIR", str(tmp_path / "file"))

    @kernel("writable bytes", "number")
    def set_first(out: Any, value: int) -> None:
        out[0] = value

    try:
        out = np.zeros(1, np.uint8)
        with caplog.at_level(logging.INFO, "nogil_loader.kernels"):
            set_first(out, 3)
        assert (out[0], set_first.compiled_signatures) == (3, 1)
        assert set_first.compiled is not None
        assert set_first.compiled.reason
        (record,) = caplog.records
        assert record.getMessage().startswith(
            "kernel set_first is compiled in memory and not cached on disk: "
        )
    finally:
        compiling._registry.remove(set_first)


def test_a_kernel_says_what_it_takes() -> None:
    assert repr(pad_rows).startswith(
        "<kernel pad_rows(bytes, positions, bytes, writable bytes, number, number)"
    )
    assert warm_up([]) >= 0
