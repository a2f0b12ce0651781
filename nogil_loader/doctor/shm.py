"""Shared memory: this loader's threads need none, worker processes do."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.finding import Diagnosis, Finding, size

_SHM = Path("/dev/shm")
# What Docker gives a container that was started without --shm-size. Kubernetes and podman give the same.
_DOCKERS_DEFAULT = 64 << 20
# Batches of torch's workers pass through it, two for each worker: 8 workers with batches of 64 MB fill this.
_PLENTY = 1 << 30


@dataclass(frozen=True)
class ShmDiagnosis(Diagnosis):
    """The file system for shared memory.

    Attributes:
        path: Where it is mounted.
        exists: Whether it is there.
        total: Its bytes; None if not known.
        free: Bytes left; None if not known.
        is_writable: Whether this process may make files in it.
    """

    title = "Shared memory"
    path: str
    exists: bool
    total: int | None
    free: int | None
    is_writable: bool

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        if not self.exists:
            return [f"  {self.path} does not exist"]
        if self.total is None or self.free is None:
            return [f"  {self.path}: size not known"]
        return [f"  {self.path}: {size(self.total)}, {size(self.free)} free"]

    def findings(self) -> list[Finding]:
        """Return what follows for loaders of this kind and of others."""
        if not self.exists:
            return [Finding("ok", "this loader does not need it; torch's worker processes would")]
        if not self.is_writable:
            return [
                Finding(
                    "note",
                    f"{self.path} cannot be written to: torch's worker processes and locks of multiprocessing "
                    "fail; this loader's threads do not need it",
                    f"if you start processes: mount -o remount,rw {self.path}",
                )
            ]
        if self.total is None or self.free is None:
            return [Finding("note", "its size is not known; this loader does not need it")]
        return [self._size(self.total, self.free)]

    def _size(self, total: int, free: int) -> Finding:
        advice = "if you use torch's DataLoader too: docker run --shm-size=8g (or --ipc=host)"
        if total <= _DOCKERS_DEFAULT:
            return Finding(
                "note",
                f"{size(total)} is little, as Docker has it: torch's worker processes pass batches through it and "
                "die with a bus error when it is full; this loader's threads need none of it",
                advice + "; in Kubernetes an emptyDir with medium: Memory, mounted there",
            )
        if free < min(_PLENTY, total // 4):
            return Finding(
                "note",
                f"only {size(free)} of {size(total)} are free; what lies in it counts as memory in use",
                f"see what was left behind: ls -l {self.path}",
            )
        return Finding("ok", "this loader's threads need none of it; torch's worker processes find room")


def examine_shm(
    *, path: Path = _SHM, usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage
) -> ShmDiagnosis:
    """Look at shared memory.

    Args:
        path: Where it is mounted.
        usage: Returns total, used and free bytes of a file system, as ``shutil.disk_usage``.
    """
    exists = os.path.isdir(path)
    total, free = None, None
    if exists:
        with contextlib.suppress(OSError):
            total, _, free = usage(path)
    return ShmDiagnosis(str(path), exists, total, free, exists and os.access(path, os.W_OK | os.X_OK))
