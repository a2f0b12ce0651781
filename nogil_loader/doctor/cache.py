"""The folder of compiled kernels: whether what one process compiles is there for the next."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.finding import Finding, count, size

# A kernel takes some 100 kB, and 500 of them are kept.
_PLENTY = 100 << 20
_VARIABLES = ("NOGIL_LOADER_CACHE_DIR", "NUMBA_CACHE_DIR")


@dataclass(frozen=True)
class Cache:
    """What is known about it.

    Attributes:
        folder: Where it is or would be; None if no place is known.
        chosen_by: The variable that says so; empty for the platform's own place.
        exists: Whether it has been made.
        is_writable: Whether this process may write to it, or make it.
        is_open: Whether everybody may write to it, or it belongs to another user than this process's and root.
        kernels: Compiled kernels in it.
        files: Files in it, the kernels' sources among them.
        nbytes: What these take.
        free: Bytes left on the disk; None if not known.
    """

    folder: str | None
    chosen_by: str
    exists: bool
    is_writable: bool
    is_open: bool
    kernels: int
    files: int
    nbytes: int
    free: int | None

    @classmethod
    def of(
        cls,
        folder: Path | None,
        environ: Mapping[str, str],
        *,
        may_write: Callable[[Path], bool] | None = None,
        usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> Cache:
        """Look at the folder, and write nothing.

        Args:
            folder: Where it is or would be; None if no place is known.
            environ: The environment.
            may_write: Whether files can be made in a folder that exists.
            usage: Returns total, used and free bytes of a file system, as ``shutil.disk_usage``.
        """
        if folder is None:
            return cls(None, "", False, False, False, 0, 0, 0, None)
        chosen = next((name for name in _VARIABLES if environ.get(name)), "")
        # What is to be made is made in the nearest folder that exists.
        standing = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)
        writable = os.path.isdir(standing) and (may_write or _may_write)(standing)
        sizes = _sizes(folder)
        free = None
        with contextlib.suppress(OSError):
            free = usage(standing)[2]
        kernels = sum(name.endswith(".kernel") for name in sizes)
        exists = os.path.isdir(folder)
        return cls(
            folder=str(folder),
            chosen_by=chosen,
            exists=exists,
            is_writable=writable,
            is_open=exists and _is_open(folder),
            kernels=kernels,
            files=len(sizes),
            nbytes=sum(sizes.values()),
            free=free,
        )

    def lines(self) -> list[str]:
        """Return it for a person."""
        if self.folder is None:
            return ["  compiled kernels: no folder for them is known"]
        by = f" ({self.chosen_by})" if self.chosen_by else ""
        lines = [f"  compiled kernels: {self.folder}{by}"]
        held = f"{count(self.kernels, 'kernel')}, {count(self.files, 'file')}, {size(self.nbytes)}"
        free = "not known" if self.free is None else size(self.free)
        return [*lines, f"    {held if self.exists else 'not made yet'}; free on the disk: {free}"]

    def findings(self) -> list[Finding]:
        """Return what follows for starting programs."""
        if self.folder is None:
            found = "no folder for compiled kernels is known, so each process compiles them anew"
            return [Finding("warning", found, "NOGIL_LOADER_CACHE_DIR=/some/folder")]
        if not self.is_writable:
            found = f"{self.folder} cannot be written to, so each process compiles anew what is not in it"
            return [Finding("warning", found, "NOGIL_LOADER_CACHE_DIR=/some/other/folder"), *self._open()]
        return [*self._open(), *self._disk(), self._kernels()]

    def _open(self) -> list[Finding]:
        if not self.is_open:
            return []
        found = (
            f"{self.folder} is another user's or everybody may write to it, and what lies in it is executed"
        )
        advice = f"chmod o-w {self.folder}, or a folder of your own: NOGIL_LOADER_CACHE_DIR=/some/folder"
        return [Finding("warning", found, advice)]

    def _disk(self) -> list[Finding]:
        if self.free is None or self.free >= _PLENTY:
            return []
        found = f"{size(self.free)} are left on the disk of {self.folder}: kernels may not find room"
        return [Finding("warning", found, "free some, or NOGIL_LOADER_CACHE_DIR=/some/other/folder")]

    def _kernels(self) -> Finding:
        if self.kernels:
            return Finding("ok", "compiled kernels are found again by the next process")
        return Finding(
            "note",
            "no kernel has been compiled yet: the first epoch waits for that",
            "nogil-loader warmup TARGET, as when a container image is built",
        )


def _may_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _is_open(folder: Path) -> bool:
    if not hasattr(os, "geteuid"):  # Windows has other rules
        return False
    try:
        status = os.stat(folder)
    except OSError:
        return False
    # A group is often the user's own; who it is otherwise nobody can tell.
    return bool(status.st_mode & stat.S_IWOTH) or status.st_uid not in (os.geteuid(), 0)


def _sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of files by their names."""
    found: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
                except OSError:  # another process has removed it just now
                    continue
    except OSError:
        pass
    return found
