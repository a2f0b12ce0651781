"""The interpreter: the GIL, who watches what runs, and builds that check themselves."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from nogil_loader.doctor import PythonDiagnosis, examine_python
from tests.doctor.machine import only, severities


def nothing() -> None:
    return None


def interpreter(**changes: Any) -> SimpleNamespace:
    """What ``sys`` tells in a plain CPython."""
    plain = {
        "executable": "/usr/bin/python3",
        "getswitchinterval": lambda: 0.005,
        "gettrace": nothing,
        "getprofile": nothing,
        "flags": SimpleNamespace(dev_mode=False),
        "_xoptions": {},
    }
    return SimpleNamespace(**{**plain, **changes})


def found(
    system: SimpleNamespace | None = None,
    *,
    threads: Any = None,
    free_threaded: bool = False,
    environ: Mapping[str, str] = {},
) -> PythonDiagnosis:
    return examine_python(
        interpreter=interpreter() if system is None else system,
        threads=threads or SimpleNamespace(gettrace=nothing, getprofile=nothing),
        environ=environ,
        config={"Py_GIL_DISABLED": int(free_threaded)}.get,
        version="3.13.2",
        implementation="CPython",
        has_faulthandler=lambda: False,
    )


def test_a_plain_python_is_as_it_should_be() -> None:
    diagnosis = found()
    assert severities(diagnosis) == {"ok"}
    assert diagnosis.lines() == [
        "  CPython 3.13.2, with the GIL",
        "  /usr/bin/python3",
        "  switch interval 5 ms, faulthandler off (python -X faulthandler shows where native code crashed)",
    ]


def test_without_the_gil_workers_run_python_at_the_same_time() -> None:
    diagnosis = found(interpreter(_is_gil_enabled=lambda: False), free_threaded=True)
    assert diagnosis.lines()[0] == "  CPython 3.13.2, free-threaded build, without the GIL"
    assert only(diagnosis, "ok").found == "workers run pure Python at the same time"


@pytest.mark.parametrize(
    ("options", "environ", "words", "advice"),
    [
        ({}, {}, "the import of a module has switched it on again", "python -W error::RuntimeWarning"),
        ({}, {"PYTHON_GIL": "1"}, "was told to use it (PYTHON_GIL=1)", "unset PYTHON_GIL"),
        ({"gil": "1"}, {}, "was told to use it (-X gil=1)", "leave out -X gil=1"),
        ({"gil": "0"}, {"PYTHON_GIL": "1"}, "has switched it on again", "PYTHON_GIL=0"),
    ],
)
def test_a_gil_that_is_on_again_is_warned_of_with_its_reason(
    options: dict[str, str], environ: dict[str, str], words: str, advice: str
) -> None:
    system = interpreter(_is_gil_enabled=lambda: True, _xoptions=options)
    warning = only(found(system, free_threaded=True, environ=environ), "warning")
    assert words in warning.found
    assert advice in warning.advice


def test_a_long_switch_interval_makes_workers_wait_for_the_gil() -> None:
    warning = only(found(interpreter(getswitchinterval=lambda: 0.05)), "warning")
    assert warning.found.startswith("the switch interval is 50 ms: so long a worker waits for the GIL")
    assert "sys.setswitchinterval(0.005)" in warning.advice


def test_a_very_short_one_is_told_and_none_matters_without_a_gil() -> None:
    short = {"getswitchinterval": lambda: 1e-6}
    assert only(found(interpreter(**short)), "note").found.startswith("the switch interval is 0.001 ms")
    free = interpreter(**short, _is_gil_enabled=lambda: False)
    assert severities(found(free, free_threaded=True)) == {"ok"}


class Debugger:
    """What a debugger leaves as the trace function: an object, or a function of its own module."""

    def __call__(self, *args: Any) -> None: ...


def test_whoever_watches_each_line_is_named() -> None:
    def trace(*args: Any) -> None: ...

    trace.__module__ = "pydevd"
    monitoring = SimpleNamespace(get_tool={1: "coverage.py", 2: "cProfile"}.get)
    system = interpreter(gettrace=lambda: trace, monitoring=monitoring)
    threads = SimpleNamespace(gettrace=lambda: trace, getprofile=Debugger)
    warning = only(found(system, threads=threads), "warning")
    assert warning.found.startswith(
        f"lines or calls are watched by pydevd, {__name__}, coverage.py, cProfile:"
    )
    assert warning.advice == "measure without debugger, coverage and profiler"


@pytest.mark.parametrize(
    ("changes", "environ", "severity", "advice"),
    [
        ({"gettotalrefcount": nothing}, {}, "warning", "use a release build"),
        ({"flags": SimpleNamespace(dev_mode=True)}, {"PYTHONMALLOC": "debug"}, "warning", "leave out -X dev"),
        ({}, {"PYTHONMALLOC": "debug"}, "warning", "unset PYTHONMALLOC"),
        ({}, {"PYTHONMALLOC": "malloc"}, "note", "unset PYTHONMALLOC"),
        ({}, {"PYTHONMALLOC": "pymalloc"}, "ok", ""),
    ],
)
def test_what_checks_itself_is_told(
    changes: dict[str, Any], environ: dict[str, str], severity: str, advice: str
) -> None:
    finding = only(found(interpreter(**changes), environ=environ), severity)
    assert finding.advice.startswith(advice)


def test_this_interpreter_is_told_as_it_is() -> None:
    diagnosis = examine_python()
    assert diagnosis.executable == sys.executable
    assert diagnosis.version == sys.version.split()[0].rstrip("+")
    assert diagnosis.switch_interval == sys.getswitchinterval()
