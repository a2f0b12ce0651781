"""A memory control group of one's own: a limit that the kernel enforces by killing, and its own count of use.

Works with version 1 and with version 2 of control groups, as root. A process is started inside its group, before
the interpreter exists, so that everything that it ever takes is counted there.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_MOUNT = Path("/sys/fs/cgroup")
_PREFIX = "nogil_loader-"
# The kernel lets go of a killed process's pages before its group can be removed; milliseconds, unless the
# machine is very busy.
_GONE_SECONDS = 20.0
_STEP_SECONDS = 0.01
_serial = itertools.count()


def why_not() -> str | None:
    """Say why no memory group can be made here; None where it can."""
    if not sys.platform.startswith("linux"):
        return "only Linux has control groups"
    if os.geteuid() != 0:
        return "making a control group takes root"
    if (_MOUNT / "memory" / "memory.limit_in_bytes").exists():
        parent = _MOUNT / "memory"
    elif not (_MOUNT / "cgroup.controllers").exists():
        return f"no memory controller is mounted below {_MOUNT}"
    elif "memory" not in (_MOUNT / "cgroup.subtree_control").read_text().split():
        return f"{_MOUNT} does not hand the memory controller on to groups below it"
    else:
        parent = _MOUNT
    return None if os.access(parent, os.W_OK) else f"{parent} is mounted read-only"


class MemoryGroup:
    """A control group with a memory limit; a context manager that kills what is left in it and removes it.

    Args:
        limit: Bytes; None for no limit.

    Attributes:
        version: 1 or 2, of control groups.
        folder: Where its files are.

    Raises:
        OSError: No group can be made here; `why_not` has the reason.
    """

    def __init__(self, limit: int | None = None) -> None:
        if reason := why_not():
            raise OSError(errno.EPERM, reason)
        self.version = 1 if (_MOUNT / "memory" / "memory.limit_in_bytes").exists() else 2
        parent = _MOUNT / "memory" if self.version == 1 else _MOUNT
        _remove_left_behind(parent)
        self.folder = parent / f"{_PREFIX}{os.getpid()}-{next(_serial)}"
        self.folder.mkdir()
        try:
            if limit is not None:
                self.set_limit(limit)
        except BaseException:
            self.close()
            raise

    def set_limit(self, limit: int) -> None:
        """Change the limit; swap is never given on top of it.

        Raises:
            OSError: With ``errno.EBUSY``, when more than that is in use and cannot be given up. Version 2 would
                kill instead of refusing, so there the use is looked at first.
        """
        if self.version == 2:
            if self.used() > limit:
                raise OSError(errno.EBUSY, f"{self.used()} bytes are in use")
            self._write("memory.max", limit)
            if (self.folder / "memory.swap.max").exists():
                self._write("memory.swap.max", 0)
            return
        # Of memory alone and of memory with swap, the first may never be the larger one.
        both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
        names = [name for name in both if (self.folder / name).exists()]
        if len(names) == 2 and limit > int(self._read(names[1])):
            names.reverse()
        for name in names:
            self._write(name, limit)

    def used(self) -> int:
        """Bytes in use that the kernel could not give up."""
        usage = "memory.usage_in_bytes" if self.version == 1 else "memory.current"
        prefix = "total_" if self.version == 1 else ""
        reclaimable = sum(
            self._count("memory.stat", f"{prefix}{kind}_file") for kind in ("active", "inactive")
        )
        return max(0, int(self._read(usage)) - reclaimable)

    def peak(self) -> int | None:
        """The most bytes that were ever in use; None where the kernel does not count that (before 5.19)."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        return int(self._read(name)) if (self.folder / name).exists() else None

    def kills(self) -> int:
        """How many processes the kernel killed for want of memory."""
        return self._count("memory.oom_control" if self.version == 1 else "memory.events", "oom_kill")

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a process in this group; ``options`` are those of ``Popen``."""
        # A shell joins the group and becomes the process: nothing of it is counted elsewhere.
        join = 'echo 0 >"$0" && exec "$@"'
        environment: Mapping[str, str] = options.pop("env", os.environ)
        return subprocess.Popen(
            ["/bin/sh", "-c", join, str(self.folder / "cgroup.procs"), *command],
            env=environment,
            text=True,
            **options,
        )

    def close(self) -> None:
        """Kill whatever is left in the group, and remove it.

        Raises:
            OSError: It could not be emptied in time.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        while True:
            for pid in self._read("cgroup.procs").split():
                _kill(int(pid))
            try:
                self.folder.rmdir()
            except OSError as failure:
                if failure.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(_STEP_SECONDS)

    def __enter__(self) -> MemoryGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def _write(self, name: str, value: int) -> None:
        (self.folder / name).write_text(str(value))

    def _count(self, name: str, key: str) -> int:
        for line in self._read(name).splitlines():
            field, _, value = line.partition(" ")
            if field == key:
                return int(value)
        raise LookupError(f"{self.folder / name} has no {key}")


def _remove_left_behind(parent: Path) -> None:
    """Remove empty groups whose maker was killed before it could."""
    for folder in parent.glob(f"{_PREFIX}*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", maker).exists():
            with contextlib.suppress(OSError):  # somebody is in it, or somebody else was faster
                folder.rmdir()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
