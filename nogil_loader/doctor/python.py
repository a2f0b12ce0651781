"""The interpreter: who may run at the same time, and what slows all threads down."""

from __future__ import annotations

import faulthandler
import os
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nogil_loader.doctor.finding import Diagnosis, Finding

# Python's own choice, in seconds.
_SWITCH_INTERVAL = 0.005
# From here on a thread that runs pure Python is stopped so often that this itself takes time.
_SHORT_INTERVAL = 0.0001
# Six tools can watch what runs since Python 3.12.
_MONITORS = 6
# Allocators of Python that look for mistakes.
_SLOW_ALLOCATORS = ("debug", "pymalloc_debug", "malloc_debug", "mimalloc_debug")


@dataclass(frozen=True)
class PythonDiagnosis(Diagnosis):
    """What the interpreter is like.

    Attributes:
        version: Of Python.
        implementation: Such as ``"CPython"``.
        executable: Its file.
        is_free_threaded: Whether it was built to run without the GIL.
        has_gil: Whether the GIL is in use.
        forced_gil: What the user said about the GIL with ``PYTHON_GIL`` or ``-X gil``, else empty.
        switch_interval: Seconds after which a thread that runs pure Python lets another one have the GIL.
        watchers: Who is told of each line or call that runs: a debugger, coverage, a profiler.
        is_debug_build: Whether it checks itself at every step.
        is_development_mode: Whether ``-X dev`` is on.
        allocator: What ``PYTHONMALLOC`` says.
        has_faulthandler: Whether a crash in native code is shown with Python's stacks.
    """

    title = "Python"
    version: str
    implementation: str
    executable: str
    is_free_threaded: bool
    has_gil: bool
    forced_gil: str
    switch_interval: float
    watchers: tuple[str, ...]
    is_debug_build: bool
    is_development_mode: bool
    allocator: str
    has_faulthandler: bool

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        build = ", free-threaded build" if self.is_free_threaded else ""
        handler = (
            "on" if self.has_faulthandler else "off (python -X faulthandler shows where native code crashed)"
        )
        return [
            f"  {self.implementation} {self.version}{build}, {'with' if self.has_gil else 'without'} the GIL",
            f"  {self.executable}",
            f"  switch interval {self.switch_interval * 1e3:g} ms, faulthandler {handler}",
        ]

    def findings(self) -> list[Finding]:
        """Return what follows for worker threads."""
        return [*self._gil(), *self._interval(), *self._watchers(), *self._checks()]

    def _gil(self) -> list[Finding]:
        if not self.has_gil:
            return [Finding("ok", "workers run pure Python at the same time")]
        if not self.is_free_threaded:
            return [
                Finding(
                    "ok",
                    "one thread at a time runs Python code; kernels, decoders and file reads run beside it",
                )
            ]
        if self.forced_gil:
            found = f"this build can do without the GIL, but was told to use it ({self.forced_gil})"
            return [Finding("warning", found, "unset PYTHON_GIL, leave out -X gil=1")]
        return [
            Finding(
                "warning",
                "this build can do without the GIL, but the import of a module has switched it on again",
                "python -W error::RuntimeWarning train.py says which; a newer release of it may do without. "
                "PYTHON_GIL=0 keeps the GIL off, at your own risk",
            )
        ]

    def _interval(self) -> list[Finding]:
        if not self.has_gil:
            return []
        told = f"the switch interval is {self.switch_interval * 1e3:g} ms"
        if self.switch_interval > _SWITCH_INTERVAL:
            found = f"{told}: so long a worker waits for the GIL whenever another thread runs pure Python"
            return [Finding("warning", found, "sys.setswitchinterval(0.005), the default, or less")]
        if self.switch_interval < _SHORT_INTERVAL:
            found = f"{told}: threads are stopped so often that it costs speed"
            return [Finding("note", found, "sys.setswitchinterval(0.001)")]
        return []

    def _watchers(self) -> list[Finding]:
        if not self.watchers:
            return []
        who = ", ".join(self.watchers)
        found = f"lines or calls are watched by {who}: Python code runs several times slower"
        return [Finding("warning", found, "measure without debugger, coverage and profiler")]

    def _checks(self) -> list[Finding]:
        found = []
        if self.is_debug_build:
            found.append(
                Finding("warning", "a debug build of Python, several times slower", "use a release build")
            )
        if self.is_development_mode:
            advice = "leave out -X dev and PYTHONDEVMODE to measure"
            found.append(Finding("warning", "development mode: memory is checked at each allocation", advice))
        elif self.allocator in _SLOW_ALLOCATORS:
            told = f"PYTHONMALLOC={self.allocator}: memory is checked at each allocation"
            found.append(Finding("warning", told, "unset PYTHONMALLOC"))
        elif self.allocator == "malloc":
            told = "PYTHONMALLOC=malloc: small objects come from the C library, which takes longer"
            found.append(Finding("note", told, "unset PYTHONMALLOC"))
        return found


def examine_python(
    *,
    interpreter: Any = sys,
    threads: Any = threading,
    environ: Mapping[str, str] | None = None,
    config: Callable[[str], Any] = sysconfig.get_config_var,
    version: str = platform.python_version(),
    implementation: str = platform.python_implementation(),
    has_faulthandler: Callable[[], bool] = faulthandler.is_enabled,
) -> PythonDiagnosis:
    """Look at the interpreter.

    Args:
        interpreter: What tells as the module ``sys`` does.
        threads: What tells as the module ``threading`` does.
        environ: The environment, by default the real one.
        config: Returns a variable of Python's build.
        version: Of Python.
        implementation: Its name.
        has_faulthandler: Whether the fault handler is on.
    """
    environ = os.environ if environ is None else environ
    gil = getattr(interpreter, "_is_gil_enabled", None)
    return PythonDiagnosis(
        version=version,
        implementation=implementation,
        executable=interpreter.executable or "",
        is_free_threaded=bool(config("Py_GIL_DISABLED")),
        has_gil=gil is None or gil(),
        forced_gil=_forced_gil(interpreter, environ),
        switch_interval=interpreter.getswitchinterval(),
        watchers=tuple(_watchers(interpreter, threads)),
        is_debug_build=hasattr(interpreter, "gettotalrefcount"),
        is_development_mode=bool(interpreter.flags.dev_mode),
        allocator=environ.get("PYTHONMALLOC", ""),
        has_faulthandler=has_faulthandler(),
    )


def _forced_gil(interpreter: Any, environ: Mapping[str, str]) -> str:
    told = interpreter._xoptions.get("gil")
    if told is not None:
        return "-X gil=1" if told == "1" else ""
    return "PYTHON_GIL=1" if environ.get("PYTHON_GIL") == "1" else ""


def _watchers(interpreter: Any, threads: Any) -> list[str]:
    functions = (interpreter.gettrace(), interpreter.getprofile(), threads.gettrace(), threads.getprofile())
    found = [
        getattr(each, "__module__", None) or type(each).__module__ for each in functions if each is not None
    ]
    monitoring = getattr(interpreter, "monitoring", None)
    if monitoring is not None:
        found += [name for tool in range(_MONITORS) if (name := monitoring.get_tool(tool)) is not None]
    return list(dict.fromkeys(found))
