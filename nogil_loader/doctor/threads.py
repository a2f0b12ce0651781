"""Threads beside the workers: pools of native libraries that are multiplied by the number of workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nogil_loader.doctor.files import CGROUPS, PROC
from nogil_loader.doctor.finding import Diagnosis, Finding, count
from nogil_loader.doctor.pools import Pool, ask_threadpoolctl, count_threads, find_pools
from nogil_loader.engine.cpus import available_cpus, schedulable_cpus

# What sets the size of a pool, or how its threads behave.
_VARIABLES = (
    *(
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    *("VECLIB_MAXIMUM_THREADS", "OMP_THREAD_LIMIT", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"),
    *("KMP_AFFINITY", "KMP_BLOCKTIME"),
)
# One of these, and a pool of OpenMP or BLAS does not count CPUs itself.
_SIZES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_BINDING = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_NO_BINDING = ("", "false", "disabled", "none", "noverbose,disabled")


@dataclass(frozen=True)
class ThreadsDiagnosis(Diagnosis):
    """What is known about threads.

    Attributes:
        workers: What ``num_workers="auto"`` begins with: CPUs that this process may use.
        counted: CPUs that libraries count, which know nothing of quotas.
        running: Threads of this process; None if not known.
        pools: Pools of native libraries.
        has_sizes: Whether threadpoolctl has told of them; if not, only the names of libraries are known.
        variables: What the environment says about pools.
        imported: Modules that were imported to see their pools.
    """

    title = "Threads of other libraries"
    workers: int
    counted: int
    running: int | None
    pools: tuple[Pool, ...]
    has_sizes: bool
    variables: dict[str, str]
    imported: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        running = "an unknown number of threads" if self.running is None else count(self.running, "thread")
        lines = [f"  {running} in this process"]
        if self.imported:
            lines.append(f"  imported: {', '.join(self.imported)}")
        for pool in self.pools:
            size = "size not known" if pool.threads is None else count(pool.threads, "thread")
            each = " for each thread that calls it" if pool.sharing == "each" else " for all together"
            file = f"  {pool.file.rpartition('/')[2]}" if pool.file else ""
            lines.append(f"  {pool.name:<10} {size}{each}{file}")
        if not self.pools:
            lines.append("  no pool of a native library is known in this process")
        told = " ".join(f"{name}={value}" for name, value in self.variables.items())
        return [*lines, f"  {told or 'no variable sets the size of a pool'}"]

    def findings(self) -> list[Finding]:
        """Return what follows when workers call these libraries."""
        found = [*self._quota(), *self._large(), *self._each(), *self._one()]
        return [
            *(found or [Finding("ok", f"nothing multiplies {count(self.workers, 'worker')}")]),
            *self._two(),
            *self._binding(),
            *self._spinning(),
            *self._more(),
        ]

    def _quota(self) -> list[Finding]:
        if self.counted <= self.workers or any(name in self.variables for name in _SIZES):
            return []
        n = self.workers
        return [
            Finding(
                "warning",
                f"libraries count {self.counted} CPUs and start as many threads, and a quota leaves {n}",
                f"OMP_NUM_THREADS={n} OPENBLAS_NUM_THREADS={n} MKL_NUM_THREADS={n} python train.py",
            )
        ]

    def _large(self) -> list[Finding]:
        found = []
        for pool in self.pools:
            if pool.threads is None or pool.threads <= self.workers:
                continue
            told = (
                f"{pool.name} uses {pool.threads} threads where this process has {count(self.workers, 'CPU')}"
            )
            found.append(Finding("warning", told, _limit(pool, self.workers)))
        return found

    def _each(self) -> list[Finding]:
        """Return what pools become of which every calling thread has its own."""
        pools = [pool for pool in self.pools if pool.sharing == "each" and (pool.threads or 2) > 1]
        if self.workers == 1 or not pools:
            return []
        names = list(dict.fromkeys(pool.name for pool in pools))
        most = max((pool.threads for pool in pools if pool.threads is not None), default=None)
        size = "several" if most is None else str(most)
        together = "" if most is None else f": {self.workers * most} on {count(self.workers, 'CPU')}"
        if "torch" in names:
            # It sets OpenMP's number and MKL's for the thread that asks, and for all that have not used torch yet:
            # without a first question the main thread may be one of these.
            call = "torch.set_num_threads(1), and torch.get_num_threads() once before the loader is made"
        else:
            call = 'threadpoolctl.threadpool_limits(1, "openmp")'
        return [
            Finding(
                "warning",
                f"each worker that calls {' or '.join(names)} gets {size} threads of its own{together}",
                f"in worker_init_fn: {call}; or for the whole process: "
                "OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python train.py",
            )
        ]

    def _one(self) -> list[Finding]:
        found = []
        for pool in self.pools:
            if pool.sharing == "one" and (pool.threads or 2) > 1 and self.workers > 1 and pool.name != "TBB":
                size = "" if pool.threads is None else f" of {pool.threads} threads"
                told = f"workers that call {pool.name} share one pool{size}; its size is the whole process's"
                found.append(Finding("note", told, f"if samples need it: {_limit(pool, 1)}"))
        return list(dict.fromkeys(found))

    def _two(self) -> list[Finding]:
        files = {pool.file for pool in self.pools if pool.name == "OpenMP" and pool.file}
        if len(files) < 2:
            return []
        names = ", ".join(sorted(file.rpartition("/")[2] for file in files))
        return [
            Finding(
                "note",
                f"{len(files)} copies of OpenMP in one process ({names}): each has threads of its own",
                "if it hangs or crashes: install all packages from one source, pip or conda",
            )
        ]

    def _binding(self) -> list[Finding]:
        bound = [name for name in _BINDING if self.variables.get(name, "").lower() not in _NO_BINDING]
        if not bound:
            return []
        told = (
            f"{' and '.join(bound)}: OpenMP binds the thread that calls it first to one CPU, and workers that "
            "it starts inherit that"
        )
        return [Finding("warning", told, f"unset {' '.join(bound)}")]

    def _spinning(self) -> list[Finding]:
        if self.variables.get("OMP_WAIT_POLICY", "").lower() != "active":
            return []
        told = "OMP_WAIT_POLICY=active: idle threads of OpenMP keep their CPUs busy while workers need them"
        return [Finding("warning", told, "OMP_WAIT_POLICY=passive")]

    def _more(self) -> list[Finding]:
        found = []
        if not self.has_sizes:
            told = "how large the pools are is not known: threadpoolctl would tell"
            found.append(Finding("note", told, "pip install 'nogil_loader[doctor]'"))
        if not self.imported:
            told = "only libraries that are loaded by now are seen"
            advice = "nogil-loader doctor threads --import torch,cv2 looks at those that your dataset imports"
            found.append(Finding("note", told, advice))
        return found


def examine_threads(
    *,
    workers: int | None = None,
    counted: int | None = None,
    modules: Mapping[str, Any] = sys.modules,
    environ: Mapping[str, str] | None = None,
    proc_root: Path = PROC,
    cgroup_root: Path = CGROUPS,
    info: Callable[[], list[dict[str, Any]] | None] = ask_threadpoolctl,
    imported: tuple[str, ...] = (),
) -> ThreadsDiagnosis:
    """Look at threads.

    Args:
        workers: What ``num_workers="auto"`` begins with; None asks.
        counted: CPUs that libraries count; None asks.
        modules: Imported modules.
        environ: The environment, by default the real one.
        proc_root: Where the process file system is mounted.
        cgroup_root: Where control groups are mounted.
        info: Returns what threadpoolctl knows; None if it is not installed.
        imported: Modules that were imported to see their pools.
    """
    environ = os.environ if environ is None else environ
    pools, has_sizes = find_pools(modules, proc_root, info)
    return ThreadsDiagnosis(
        workers=available_cpus(cgroup_root=cgroup_root, proc_root=proc_root) if workers is None else workers,
        counted=schedulable_cpus() if counted is None else counted,
        running=count_threads(proc_root),
        pools=tuple(pools),
        has_sizes=has_sizes,
        variables={name: environ[name] for name in _VARIABLES if name in environ},
        imported=imported,
    )


def _limit(pool: Pool, threads: int) -> str:
    """Return how the size of a pool is set for the whole process."""
    if pool.name == "OpenCV":
        # 0 keeps OpenCV from handing work to its pool at all.
        return f"cv2.setNumThreads({0 if threads == 1 else threads}) at the start of the program"
    if pool.variable:
        return f"{pool.variable}={threads} python train.py"
    return f"threadpoolctl.threadpool_limits({threads}) at the start of the program"
