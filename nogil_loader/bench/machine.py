"""What is known of the machine that a sweep runs on."""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nogil_loader.bench.result import Machine
from nogil_loader.engine.cpus import available_cpus, schedulable_cpus
from nogil_loader.memory.reading import read_memory

_ALWAYS = ("nogil_loader", "numpy", "numba")


def describe_machine(packages: Iterable[str], *, gil: bool) -> Machine:
    """Return what is known.

    Args:
        packages: Whose versions matter, beside our own.
        gil: Whether the GIL was in force in the processes that were measured.
    """
    import psutil

    cores, reading = available_cpus(), read_memory()
    total = int(psutil.virtual_memory().total)
    limits = [reading.limit] if reading is not None and reading.is_known else []
    try:
        load: float | None = os.getloadavg()[0]
    except (OSError, AttributeError):  # Windows has none
        load = None
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return Machine(
        cpu=_processor(),
        cores=cores,
        quota=float(cores) if cores < schedulable_cpus() else None,
        memory_bytes=min([total, *limits]),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version() + (" free-threaded" if free_threaded else ""),
        gil=gil,
        packages=_versions(dict.fromkeys((*_ALWAYS, *packages))),
        load=load,
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
