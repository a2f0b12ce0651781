"""A control group for one process, with a limit of memory that the kernel enforces by killing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from nogil_loader.memory.cgroups import parse_memberships, read_memberships

_MOUNT = Path("/sys/fs/cgroup")
# The kernel lets go of a killed process's pages before its group can be removed; milliseconds, unless the
# machine is very busy.
_GONE_SECONDS = 20.0
_STEP_SECONDS = 0.01


class _Files(NamedTuple):
    """How a version of control groups names what matters here: its limits, each with what it is set to."""

    limits: tuple[tuple[str, int | None], ...]
    peak: str
    events: str


# Swap would only put the end off, so there is none: version 1 limits memory and swap together, version 2 swap.
_FILES = {
    1: _Files(
        (("memory.limit_in_bytes", None), ("memory.memsw.limit_in_bytes", None)),
        "memory.max_usage_in_bytes",
        "memory.oom_control",
    ),
    2: _Files((("memory.max", None), ("memory.swap.max", 0)), "memory.peak", "memory.events"),
}


def why_no_group() -> str:
    """Say why no group can be made here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has control groups"
    if not (_has_version_1() or _hands_memory_on()):
        return f"no memory controller can be used below {_MOUNT}"
    try:
        with MemoryGroup():
            return ""
    except OSError as error:
        return str(error)


def _has_version_1() -> bool:
    return (_MOUNT / "memory" / "memory.limit_in_bytes").exists()


def _hands_memory_on() -> bool:
    try:
        return "memory" in (_MOUNT / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _parent() -> Path:
    """The group that the demo's is made in: this process's own, whose limits hold as well, where that is seen."""
    if not _has_version_1():
        return _MOUNT
    root = _MOUNT / "memory"
    memberships = read_memberships(Path("/proc"))
    own = next((path for names, path in parse_memberships(memberships) if "memory" in names.split(",")), "/")
    folder = root / own.lstrip("/")
    return folder if ".." not in own and folder.is_dir() else root


class MemoryGroup:
    """A control group, without a limit at first; a context manager that ends what runs in it and removes it.

    Raises:
        OSError: No group can be made here.
    """

    def __init__(self) -> None:
        self._files = _FILES[1 if _has_version_1() else 2]
        self._folder = _parent() / f"nogil_loader-demo-{os.getpid()}"
        self._folder.mkdir()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process in here; ``options`` are those of ``Popen``."""
        # A shell joins the group and becomes the process: nothing of it is counted elsewhere.
        join = ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self._folder / "cgroup.procs")]
        return subprocess.Popen([*join, *command], **options)

    def limit(self, nbytes: int) -> None:
        """Set the limit, which has to be above what is in use."""
        for name, value in self._files.limits:
            path = self._folder / name
            if path.exists():
                path.write_text(str(nbytes if value is None else value))

    def peak(self) -> int | None:
        """The most bytes that were ever in use; None where the kernel does not tell (before Linux 5.19)."""
        path = self._folder / self._files.peak
        return int(path.read_text()) if path.exists() else None

    def kills(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        for line in (self._folder / self._files.events).read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
        return 0

    def __enter__(self) -> MemoryGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        while True:
            try:
                self._folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
            else:
                return
            for pid in (self._folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            time.sleep(_STEP_SECONDS)
