"""How many CPUs this process may really use: what ``num_workers="auto"`` stands for.

Two restrictions hold side by side. *Affinity* says on which CPUs the process may run. A *quota* of a control
group says how much CPU time it gets per period, on however many CPUs. A container on a 64-core host with
``--cpus=2`` has an affinity of 64 and a quota of 2; with 64 workers it would stand still for most of each
period.

Quotas bind at every level: the process's own group and each visible ancestor. What cannot be read or
understood sets no limit, because a wrong guess would cost more than a missing one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from nogil_loader.memory.cgroups import ControlGroup, control_groups, read_memberships

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_PROC_ROOT = Path("/proc")


def available_cpus(
    *, affinity: int | None = None, cgroup_root: Path = _CGROUP_ROOT, proc_root: Path = _PROC_ROOT
) -> int:
    """Return ``min(affinity, ceil(quota))``, at least 1.

    Args:
        affinity: How many CPUs the process may be scheduled on; None asks the operating system.
        cgroup_root: Where control groups are mounted, version 1, version 2 or both.
        proc_root: Where the process file system is mounted.
    """
    if affinity is None:
        affinity = schedulable_cpus()
    found = [math.ceil(quota) for _, quota in quotas(cgroup_root, proc_root)]
    return max(1, min([affinity, *found]))


def schedulable_cpus() -> int:
    """Return the number of CPUs that this process may be scheduled on, as the operating system says."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13; heeds PYTHON_CPU_COUNT as well
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quotas(
    cgroup_root: Path = _CGROUP_ROOT, proc_root: Path = _PROC_ROOT
) -> Iterator[tuple[ControlGroup, float]]:
    """Yield every visible level that has a quota, with that in CPUs, the process's own group first."""
    for group in control_groups("cpu", read_memberships(proc_root), cgroup_root):
        quota = _quota_v2(group.folder) if group.version == 2 else _quota_v1(group.folder)
        if quota is not None:
            yield group, quota


def _quota_v2(group: Path) -> float | None:
    """Return the quota in ``cpu.max``, which reads ``50000 100000`` (microseconds) or ``max 100000``."""
    fields = _read(group / "cpu.max").split()
    return parse_quota(*fields) if len(fields) == 2 else None


def _quota_v1(group: Path) -> float | None:
    return parse_quota(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us"))


def parse_quota(quota: str, period: str) -> float | None:
    """Return ``quota / period``, or None for no limit (``max``, ``-1``) and for what makes no sense."""
    try:
        limit, length = int(quota), int(period)
    except ValueError:
        return None
    return limit / length if limit > 0 and length > 0 else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
