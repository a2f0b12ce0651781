"""Threads that libraries start for themselves: which pools this process has, and how large each is."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from nogil_loader.doctor.files import read_text

#: Whose the pool is. ``"each"``: every thread that calls the library gets a team of its own, as in OpenMP.
#: ``"one"``: all threads share one pool, and one setting.
Sharing = Literal["each", "one"]

# Files by which a library is known: its name, how its pool is shared, and the variable that sets its size.
_LIBRARIES: Final = (
    (re.compile(r"libgomp|libiomp5|libomp[.\d]|vcomp"), "OpenMP", "each", "OMP_NUM_THREADS"),
    (re.compile(r"libmkl_rt|mkl_rt"), "MKL", "each", "MKL_NUM_THREADS"),
    (re.compile(r"lib\w*openblas"), "OpenBLAS", "one", "OPENBLAS_NUM_THREADS"),
    (re.compile(r"libblis"), "BLIS", "one", "BLIS_NUM_THREADS"),
    (re.compile(r"libtbb[.\d]"), "TBB", "one", ""),
)
# By what threadpoolctl calls them.
_NAMES: Final[Mapping[str, tuple[str, Sharing, str]]] = {
    "openmp": ("OpenMP", "each", "OMP_NUM_THREADS"),
    "mkl": ("MKL", "each", "MKL_NUM_THREADS"),
    "openblas": ("OpenBLAS", "one", "OPENBLAS_NUM_THREADS"),
    "blis": ("BLIS", "one", "BLIS_NUM_THREADS"),
    "flexiblas": ("FlexiBLAS", "one", "OMP_NUM_THREADS"),
}


@dataclass(frozen=True)
class Pool:
    """One pool.

    Attributes:
        name: Of the library.
        file: Of the library, empty if not known.
        threads: How many it would use for one call; None if not known.
        sharing: Whether each calling thread has its own, or all have one.
        variable: What sets its size before it is loaded, empty if nothing does.
    """

    name: str
    file: str
    threads: int | None
    sharing: Sharing
    variable: str


def ask_threadpoolctl() -> list[dict[str, Any]] | None:
    """Return what ``threadpoolctl.threadpool_info`` says; None if it is not installed."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:
        return None
    found: list[dict[str, Any]] = threadpoolctl.threadpool_info()
    return found


def find_pools(
    modules: Mapping[str, Any],
    proc_root: Path,
    info: Callable[[], list[dict[str, Any]] | None] = ask_threadpoolctl,
) -> tuple[list[Pool], bool]:
    """Return the pools in this process, and whether threadpoolctl has told of them.

    Args:
        modules: Imported modules, as ``sys.modules``; OpenCV and torch are asked if they are among them.
        proc_root: Where the process file system is mounted; tells of libraries if threadpoolctl cannot.
        info: Returns what threadpoolctl knows; None if it is not installed.
    """
    told = info()
    pools = _of_libraries(proc_root) if told is None else [_of_info(entry) for entry in told]
    # The size that torch goes by stands in its library of OpenMP, so it is no pool of its own.
    cv2 = _ask(modules.get("cv2"), "getNumThreads")
    if cv2 is not None:
        pools.append(Pool("OpenCV", "", cv2, "one", ""))
    torch = _ask(modules.get("torch"), "get_num_threads")
    if torch is not None:
        pools.append(Pool("torch", "", torch, "each", "OMP_NUM_THREADS"))
    return pools, told is not None


def count_threads(proc_root: Path) -> int | None:
    """Return how many threads of the system's this process has; None if not known."""
    match = re.search(r"^Threads:\s*(\d+)", read_text(proc_root / "self" / "status"), re.MULTILINE | re.ASCII)
    return None if match is None else int(match[1])


def _of_info(entry: dict[str, Any]) -> Pool:
    api, file = str(entry.get("internal_api", "")), str(entry.get("filepath", ""))
    name, sharing, variable = _NAMES.get(api, (api, "one", ""))
    threads = entry.get("num_threads")
    return Pool(name, file, threads if isinstance(threads, int) else None, sharing, variable)


def _of_libraries(proc_root: Path) -> list[Pool]:
    """Return the known libraries that are mapped into this process."""
    files: dict[str, None] = {}
    for line in read_text(proc_root / "self" / "maps").splitlines():
        # address, permissions, offset, device, inode, file
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            files[fields[5]] = None
    found: list[Pool] = []
    for file in files:
        for pattern, name, sharing, variable in _LIBRARIES:
            if pattern.match(file.rpartition("/")[2]):
                found.append(Pool(name, file, None, "each" if sharing == "each" else "one", variable))
    return found


def _ask(module: Any, name: str) -> int | None:
    """Return the number that a module's function returns; None without module, and where it fails."""
    try:
        number = getattr(module, name)()
    except Exception:  # noqa: BLE001 - no such function, a module that is being imported
        return None
    return number if isinstance(number, int) else None
