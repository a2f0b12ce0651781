"""Limits on what a process may have beside memory: open files, threads, the size of a thread's stack."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.files import CGROUPS, PROC, as_number, read_number, read_text
from nogil_loader.doctor.finding import Diagnosis, Finding, count, size
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.memory.cgroups import control_groups, read_memberships

# A dataset that opens a file for each sample has few open at once. One that keeps its files open has many, and
# so has torch, which shares tensors by file descriptors.
_FEW_FILES = 1024
_FILES_LEFT = 64
# What else may start threads meanwhile: pools of BLAS and OpenMP, a progress bar, a logger.
_OTHER_THREADS = 64
# Python's own frames need none of it, but decoders and numba's code do.
_SMALL_STACK = 256 << 10


@dataclass(frozen=True)
class Ulimit:
    """A limit of ``setrlimit``; None stands for no limit.

    Attributes:
        soft: What holds.
        hard: Up to where the process may raise it.
    """

    soft: int | None
    hard: int | None

    def __str__(self) -> str:
        return "no limit" if self.soft is None else str(self.soft)


@dataclass(frozen=True)
class ThreadLimit:
    """How many threads a level allows.

    Attributes:
        source: Which level it is.
        limit: How many.
        used: How many there are; None if not known.
    """

    source: str
    limit: int
    used: int | None

    @property
    def left(self) -> int:
        """How many more there may be."""
        return max(0, self.limit - (self.used or 0))


@dataclass(frozen=True)
class LimitsDiagnosis(Diagnosis):
    """Which limits there are; one that is not known is None.

    Attributes:
        open_files: Of files.
        files_open: How many files this process has open.
        threads: Of threads: of the control groups, the user and the machine.
        stack: Bytes of a thread's stack; None if the system chooses.
        address_space: Of addresses, in bytes.
        workers: What ``num_workers="auto"`` begins with.
    """

    title = "Other limits"
    open_files: Ulimit | None
    files_open: int | None
    threads: tuple[ThreadLimit, ...]
    stack: int | None
    address_space: Ulimit | None
    workers: int

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        used = "" if self.files_open is None else f", {self.files_open} in use"
        lines = [f"  open files: {'not known' if self.open_files is None else self.open_files}{used}"]
        for level in self.threads:
            lines.append(f"  threads: {level.limit} by {level.source}")
            lines[-1] += "" if level.used is None else f", {level.used} in use"
        if not self.threads:
            lines.append("  threads: no limit known")
        return [
            *lines,
            f"  stack of a thread: {'as the system has it' if self.stack is None else size(self.stack)}",
        ]

    def findings(self) -> list[Finding]:
        """Return what follows for a loader."""
        found = [*self._files(), *self._threads(), *self._stack()]
        return found or [Finding("ok", f"they leave enough for {count(self.workers, 'worker')}")]

    def _files(self) -> list[Finding]:
        limit = self.open_files
        if limit is None or limit.soft is None:
            return []
        want = 65536 if limit.hard is None else min(65536, limit.hard)
        advice = f"ulimit -n {want}" if want > limit.soft else "docker run --ulimit nofile=65536"
        if self.files_open is not None and limit.soft - self.files_open < _FILES_LEFT:
            return [Finding("warning", f"{self.files_open} of {limit.soft} files are open already", advice)]
        if limit.soft < _FEW_FILES:
            found = f"no more than {limit.soft} files may be open, few for datasets that keep theirs open"
            return [Finding("note", found, advice)]
        return []

    def _threads(self) -> list[Finding]:
        if not self.threads:
            return []
        needed = self.workers + 1  # and one that reads an iterable, or watches
        level = min(self.threads, key=lambda level: level.left)
        found = f"{level.source} leaves {count(level.left, 'thread')}"
        advice = "docker run --pids-limit=-1; systemd: TasksMax=infinity; ulimit -u"
        if level.left < needed:
            found += (
                f', and num_workers="auto" needs {needed}: starting them fails ("can\'t start new thread")'
            )
            return [Finding("problem", found, f"{advice}; or num_workers={max(0, level.left - 1)}")]
        if level.left < needed + _OTHER_THREADS:
            return [Finding("warning", f"{found}, for those of all libraries together", advice)]
        return []

    def _stack(self) -> list[Finding]:
        if self.stack is None:
            return []
        if self.stack < _SMALL_STACK:
            found = (
                f"a thread's stack has {size(self.stack)}: native code in workers may overrun it and crash"
            )
            return [
                Finding("warning", found, "ulimit -s 8192, or threading.stack_size(8 << 20) before loading")
            ]
        space = None if self.address_space is None else self.address_space.soft
        if space is not None and self.workers * self.stack > space // 4:
            together = size(self.workers * self.stack)
            found = f"stacks of {count(self.workers, 'worker')} take {together} of {size(space)} addresses"
            return [Finding("warning", found, "ulimit -s 8192, or ulimit -v unlimited")]
        return []


def examine_limits(
    *,
    proc_root: Path = PROC,
    cgroup_root: Path = CGROUPS,
    getrlimit: Callable[[str], tuple[int, int] | None] | None = None,
    stack_size: int | None = None,
    workers: int | None = None,
) -> LimitsDiagnosis:
    """Look at limits.

    Args:
        proc_root: Where the process file system is mounted.
        cgroup_root: Where control groups are mounted.
        getrlimit: Returns soft and hard limit for a name such as ``"RLIMIT_NOFILE"``, -1 for none; None where
            the system has no such limit.
        stack_size: Bytes that Python asks for, 0 for the system's choice; None asks Python.
        workers: What ``num_workers="auto"`` begins with; None asks.
    """
    ask = _getrlimit if getrlimit is None else getrlimit

    def ulimit(name: str) -> Ulimit | None:
        pair = ask(name)
        return None if pair is None else Ulimit(*(None if value < 0 else value for value in pair))

    stack = threading.stack_size() if stack_size is None else stack_size
    of_main = ulimit("RLIMIT_STACK")
    return LimitsDiagnosis(
        open_files=ulimit("RLIMIT_NOFILE"),
        files_open=_count_files(proc_root / "self" / "fd"),
        threads=tuple(_thread_limits(proc_root, cgroup_root, ulimit("RLIMIT_NPROC"))),
        stack=stack or (None if of_main is None else of_main.soft),
        address_space=ulimit("RLIMIT_AS"),
        workers=available_cpus(cgroup_root=cgroup_root, proc_root=proc_root) if workers is None else workers,
    )


def _getrlimit(name: str) -> tuple[int, int] | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    which = getattr(resource, name, None)
    if which is None:
        return None
    soft, hard = resource.getrlimit(which)
    return -1 if soft == resource.RLIM_INFINITY else soft, -1 if hard == resource.RLIM_INFINITY else hard


def _count_files(folder: Path) -> int | None:
    try:
        return len(os.listdir(folder)) - 1  # without the folder itself, open just now
    except OSError:
        return None


def _thread_limits(proc_root: Path, cgroup_root: Path, ulimit: Ulimit | None) -> list[ThreadLimit]:
    found = []
    for group in control_groups("pids", read_memberships(proc_root), cgroup_root):
        limit = as_number(read_text(group.folder / "pids.max"))
        if limit is not None:
            found.append(ThreadLimit(str(group), limit, read_number(group.folder / "pids.current")))
    if ulimit is not None and ulimit.soft is not None:
        found.append(ThreadLimit("ulimit -u", ulimit.soft, None))
    machine = read_number(proc_root / "sys" / "kernel" / "threads-max")
    if machine is not None:
        # "0.20 0.35 0.87 2/100 21644": of 100 threads 2 run.
        running = read_text(proc_root / "loadavg").split()
        threads = running[3].rpartition("/")[2] if len(running) > 3 else ""
        found.append(ThreadLimit("the machine", machine, as_number(threads)))
    return found
