"""How many CPUs there are, how many this process may use, and what ``num_workers="auto"`` makes of it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.files import CGROUPS, PROC, SYS, parse_cpus, read_text
from nogil_loader.doctor.finding import Diagnosis, Finding, count
from nogil_loader.engine.cpus import available_cpus, quotas, schedulable_cpus


@dataclass(frozen=True)
class Quota:
    """CPU time that a control group gets.

    Attributes:
        source: The group.
        cpus: Seconds of it per second.
    """

    source: str
    cpus: float


@dataclass(frozen=True)
class CpuDiagnosis(Diagnosis):
    """Which CPUs there are.

    Attributes:
        machine: CPUs of the machine; None if not known.
        affinity: How many of them this process may run on.
        counted: How many of these Python counts; ``PYTHON_CPU_COUNT`` can change that.
        quotas: Of the control groups, the process's own first.
        workers: What ``num_workers="auto"`` begins with.
        cores: Cores that the CPUs of the affinity belong to; None if not known.
        load: Threads that ran or waited to run on the machine, on average over a minute; None if not known.
        launcher: Who started this process, as far as it matters for how to ask for more CPUs.
    """

    title = "CPUs"
    machine: int | None
    affinity: int
    counted: int
    quotas: tuple[Quota, ...]
    workers: int
    cores: int | None
    load: float | None
    launcher: str

    @property
    def tightest(self) -> Quota | None:
        """The smallest quota."""
        return min(self.quotas, key=lambda quota: quota.cpus, default=None)

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        machine = "an unknown number" if self.machine is None else str(self.machine)
        lines = [f"  {machine} in this machine, {self.affinity} by affinity"]
        lines += [f"  {quota.cpus:.2f} by the quota of {quota.source}" for quota in self.quotas]
        if not self.quotas:
            lines.append("  no quota of a control group")
        load = "not known" if self.load is None else f"{self.load:.2f}"
        return [*lines, f"  load average over one minute: {load}"]

    def findings(self) -> list[Finding]:
        """Return what follows for a loader."""
        return [self._workers(), *self._quota(), *self._affinity(), *self._cores(), *self._load()]

    def _workers(self) -> Finding:
        why = "the affinity"
        quota = self.tightest
        if quota is not None and math.ceil(quota.cpus) < self.counted:
            why = f"the quota of {quota.source}, rounded up"
        elif self.counted != self.affinity:
            why = "PYTHON_CPU_COUNT or -X cpu_count"
        found = f'num_workers="auto" begins with {count(self.workers, "worker")}, because of {why}'
        if self.workers > 1:
            return Finding("ok", found)
        return Finding(
            "note",
            f"{found}: it loads while the training program waits for something, not beside it",
            "more pay where samples are waited for (network, disk): it tries them, or say num_workers=4",
        )

    def _quota(self) -> list[Finding]:
        quota = self.tightest
        if quota is None or quota.cpus >= self.counted:
            return []
        advice = "raise it where the job is started: docker run --cpus=4, resources.limits.cpu in Kubernetes"
        if quota.cpus < 1:
            found = f"{quota.source} gives {quota.cpus:.2f} of one CPU to all threads together"
            return [Finding("warning", found, advice)]
        found = (
            f"{self.counted} CPUs are visible, but {quota.source} stops all threads for the rest of a period "
            f"once they have used {quota.cpus:.2f} CPUs"
        )
        return [Finding("note", found, advice)]

    def _affinity(self) -> list[Finding]:
        if self.machine is None or self.affinity >= self.machine:
            return []
        found = f"this process may run on {self.affinity} of {self.machine} CPUs"
        if self.launcher == "slurm":
            advice = f"if that is too few: srun --cpus-per-task={min(self.machine, 4 * self.affinity)}"
        else:
            advice = (
                "if that is too few, see who sets it: taskset, numactl, docker --cpuset-cpus, OMP_PROC_BIND"
            )
        return [Finding("warning" if self.affinity == 1 else "note", found, advice)]

    def _cores(self) -> list[Finding]:
        if self.cores is None or not 0 < self.cores < self.affinity:
            return []
        return [
            Finding(
                "note",
                f"{self.affinity} CPUs are the hardware threads of {count(self.cores, 'core')}: beyond "
                f"num_workers={self.cores} computing gains less",
                "measure both: nogil-loader bench TARGET",
            )
        ]

    def _load(self) -> list[Finding]:
        if self.load is None or self.machine is None or self.load <= self.machine:
            return []
        return [
            Finding(
                "warning",
                f"load average {self.load:.1f} on {count(self.machine, 'CPU')}: others compete for them, and "
                "times measured now say little",
                "see who: top -o %CPU",
            )
        ]


def examine_cpu(
    *,
    allowed: Collection[int] | None = None,
    counted: int | None = None,
    proc_root: Path = PROC,
    cgroup_root: Path = CGROUPS,
    sys_root: Path = SYS,
    environ: Mapping[str, str] | None = None,
    loads: Callable[[], tuple[float, float, float]] | None = None,
) -> CpuDiagnosis:
    """Look at CPUs.

    Args:
        allowed: Numbers of the CPUs that the process may run on; None asks the operating system.
        counted: How many of them Python counts; None asks Python, or counts ``allowed``.
        proc_root: Where the process file system is mounted.
        cgroup_root: Where control groups are mounted.
        sys_root: Where the file system of devices is mounted.
        environ: The environment, by default the real one.
        loads: Returns load averages as ``os.getloadavg`` does, which is the default.
    """
    environ = os.environ if environ is None else environ
    if counted is None:
        counted = schedulable_cpus() if allowed is None else len(allowed)
    if allowed is None:
        allowed = _affinity()
    online = parse_cpus(read_text(sys_root / "devices" / "system" / "cpu" / "online"))
    return CpuDiagnosis(
        machine=len(online) if online is not None else os.cpu_count(),
        affinity=len(allowed),
        counted=counted,
        quotas=tuple(Quota(str(group), cpus) for group, cpus in quotas(cgroup_root, proc_root)),
        workers=available_cpus(affinity=counted, cgroup_root=cgroup_root, proc_root=proc_root),
        cores=_cores(allowed, sys_root),
        load=_load(loads if loads is not None else getattr(os, "getloadavg", None)),
        launcher="slurm" if "SLURM_STEP_ID" in environ else "",
    )


def _affinity() -> Collection[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _cores(allowed: Collection[int], sys_root: Path) -> int | None:
    """Return how many cores CPUs belong to: those of one core name the same list of siblings."""
    cores = set()
    for cpu in allowed:
        topology = sys_root / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        siblings = parse_cpus(read_text(topology / "thread_siblings_list"))
        if siblings is None or cpu not in siblings:
            return None
        cores.add(siblings)
    return len(cores) or None


def _load(loads: Callable[[], tuple[float, float, float]] | None) -> float | None:
    if loads is None:
        return None
    try:
        return loads()[0]
    except OSError:
        return None
