"""The compiler: whether there is one, and what it was told that makes kernels slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nogil_loader.doctor import CompilerDiagnosis, examine_compiler
from tests.doctor.machine import only, severities, told

ALL = {"tbb": True, "omp": True, "workqueue": True}


def found(
    folder: Path,
    *,
    layers: dict[str, bool] | None = ALL,
    features: Mapping[str, bool] = {"sse4.2": True, "avx2": True, "sse2": True, "avx512f": False},
    environ: Mapping[str, str] = {},
    platform: str = "linux",
    **config: Any,
) -> CompilerDiagnosis:
    """What is said of a numba with these settings, and of a folder with one kernel."""
    (folder / "kernel.kernel").touch()
    numba = SimpleNamespace(__version__="0.61.2", config=SimpleNamespace(**config))
    return examine_compiler(
        import_numba=lambda: numba,
        host=lambda: ("znver5", features),
        layers=lambda: layers,
        find_folder=lambda: folder,
        may_write=lambda path: True,
        usage=lambda path: (1 << 40, 0, 1 << 40),
        environ=environ,
        platform=platform,
    )


def test_a_compiler_without_special_settings_is_as_it_should_be(tmp_path: Path) -> None:
    diagnosis = found(tmp_path, environ={"NUMBA_NUM_THREADS": "2", "HOME": "/root"})
    assert severities(diagnosis) == {"ok"}
    assert diagnosis.lines()[:3] == [
        "  numba 0.61.2",
        "  makes code for znver5 (sse4.2 avx2)",
        "  NUMBA_NUM_THREADS=2",
    ]
    assert diagnosis.layer == "tbb"


@pytest.mark.parametrize(
    "failure",
    [ModuleNotFoundError("No module named 'numba'"), ImportError("Numba needs NumPy 2.4 or less"), OSError()],
)
def test_a_compiler_that_cannot_be_imported_is_a_problem(tmp_path: Path, failure: Exception) -> None:
    def fail() -> Any:
        raise failure

    diagnosis = examine_compiler(import_numba=fail, find_folder=lambda: tmp_path, environ={})
    problem = only(diagnosis, "problem")
    assert problem.found.startswith("kernels run as plain Python, much slower: ")
    assert str(failure) in problem.found
    assert 'python -c "import numba"' in problem.advice
    assert diagnosis.lines()[0] == "  numba cannot be imported"
    assert severities(diagnosis) == {"problem"}


@pytest.mark.parametrize(
    ("setting", "value", "advice"),
    [
        ("DISABLE_JIT", 1, "unset NUMBA_DISABLE_JIT"),
        ("OPT", 0, "unset NUMBA_OPT"),
        ("OPT", 2, "unset NUMBA_OPT"),
        ("BOUNDSCHECK", 1, "unset NUMBA_BOUNDSCHECK"),
        ("DEBUGINFO_DEFAULT", 1, "unset NUMBA_DEBUGINFO"),
        ("LOOP_VECTORIZE", 0, "unset NUMBA_LOOP_VECTORIZE"),
        ("CPU_NAME", "generic", "unset NUMBA_CPU_NAME and NUMBA_CPU_FEATURES"),
        ("CPU_FEATURES", "-avx2", "unset NUMBA_CPU_NAME and NUMBA_CPU_FEATURES"),
    ],
)
def test_settings_that_make_kernels_slow_are_warned_of(
    tmp_path: Path, setting: str, value: Any, advice: str
) -> None:
    assert only(found(tmp_path, **{setting: value}), "warning").advice == advice


@pytest.mark.parametrize(
    ("setting", "value"),
    [("OPT", 3), ("BOUNDSCHECK", None), ("CPU_NAME", None), ("DISABLE_JIT", 0), ("NUM_THREADS", 1)],
)
def test_settings_as_numba_has_them_itself_are_not(tmp_path: Path, setting: str, value: Any) -> None:
    assert severities(found(tmp_path, **{setting: value})) == {"ok"}


def test_e08_openmp_is_told_what_it_does_to_forked_children(tmp_path: Path) -> None:
    note = only(found(tmp_path, layers={**ALL, "tbb": False}), "note")
    assert note.found.startswith("threading layer omp (for functions of yours with parallel=True; ")
    assert note.found.endswith("after one has run, a forked child that runs one is ended")
    assert note.advice == 'start processes by multiprocessing.get_context("spawn")'
    assert severities(found(tmp_path, layers={**ALL, "tbb": False}, platform="darwin")) == {"ok"}


def test_the_layer_that_two_workers_must_not_enter_is_told(tmp_path: Path) -> None:
    note = only(found(tmp_path, THREADING_LAYER="workqueue"), "note")
    assert note.found.endswith("two workers in such functions at once end the process")
    assert "pip install tbb" in note.advice


def test_a_layer_that_cannot_be_had_or_known_is_told(tmp_path: Path) -> None:
    missing = only(found(tmp_path, layers={**ALL, "tbb": False}, THREADING_LAYER="safe"), "note")
    assert missing.found.startswith("no threading layer 'safe' can be loaded")
    assert only(found(tmp_path, layers=None), "note").found.startswith("numba's threading layer is not known")


@pytest.mark.parametrize(
    ("features", "is_told"),
    [
        ({"sse4.2": True, "avx2": False}, True),
        ({"sse4.2": True, "avx2": True}, False),
        ({"neon": True}, False),
        ({}, False),
    ],
)
def test_a_processor_without_wide_vectors_is_told(
    tmp_path: Path, features: dict[str, bool], is_told: bool
) -> None:
    assert [each.advice for each in told(found(tmp_path, features=features), "note")] == [
        "in a virtual machine: let it have the host's processor (-cpu host)"
    ] * is_told


def test_a_processor_that_llvm_does_not_know_is_not_known(tmp_path: Path) -> None:
    def fail() -> Any:
        raise RuntimeError("failed to get host cpu features")

    numba = SimpleNamespace(__version__="0.61.2", config=SimpleNamespace())
    diagnosis = examine_compiler(
        import_numba=lambda: numba,
        host=fail,
        layers=lambda: ALL,
        find_folder=lambda: tmp_path,
        environ={},
    )
    assert diagnosis.processor is None
    assert "problem" not in severities(diagnosis)


def test_this_compiler_is_told_as_it_is() -> None:
    import numba

    diagnosis = examine_compiler(layers=lambda: None)
    assert diagnosis.version == numba.__version__
    assert diagnosis.failure == ""
    assert diagnosis.processor is not None
