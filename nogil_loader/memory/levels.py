"""The levels at which memory is limited, and how limit and use of each are read.

A level is asked again and again. It answers with a reading, with None while it sets no limit, or by raising
whatever the system raised. Keeping the last good answer is the caller's part.

Use is what the kernel could not take back without killing or swapping: the page cache of files is left out,
active and inactive, because the files of an epoch fill any limit and cost nothing to give up. Shared memory
(tmpfs, memfd) and locked pages stay counted.

Swap is not room: what is swapped out while the loader runs counts as used, as it did before. Else a group's
use would stand still at its limit while its swap fills, and every batch would push out a part of the program.
What was swapped out before is left alone, as nobody has missed it since.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from nogil_loader.memory.cgroups import ControlGroup
from nogil_loader.memory.kept import KeptFile, count, field, known
from nogil_loader.memory.reading import Kind, MemoryReading

#: From here on a number of bytes means "no limit" even where the machine's size is unknown: version 1 groups
#: say so by the largest multiple of the page size that fits 63 bits, whatever the page size is.
UNLIMITED: Final = 1 << 60


class Level(Protocol):
    """One place where memory is limited."""

    @property
    def source(self) -> str:
        """Which place it is, in words."""

    @property
    def kind(self) -> Kind:
        """Who sets the limit."""

    def measure(self, physical: int) -> MemoryReading | None:
        """Return limit and use now, or None without a limit.

        Args:
            physical: Bytes of memory that the machine has, `UNLIMITED` where that is not known.

        Raises:
            Exception: The system's own errors, ValueError for numbers that make no sense.
        """


class HostMemory:
    """The machine, or what a container's ``/proc/meminfo`` shows of it."""

    source = "host"
    kind: Final = "host"

    def __init__(self, proc_root: Path) -> None:
        self._meminfo = KeptFile(proc_root / "meminfo")
        self._swap = _Swap()

    def measure(self, physical: int) -> MemoryReading:
        """Return total memory, and as used what is not available."""
        swapped = 0
        try:
            text = b"\n" + self._meminfo.read()
            total = field(text, b"\nMemTotal:") * 1024
            available = field(text, b"\nMemAvailable:") * 1024
            _refuse_nonsense(total, available)
            out = known(text, b"\nSwapTotal:") - known(text, b"\nSwapFree:") - known(text, b"\nSwapCached:")
            swapped = self._swap.growth(out * 1024)
        except (OSError, ValueError):
            # No such file (macOS, Windows) or no such line (Linux before 3.14).
            total, available = _ask_psutil_for_host()
            _refuse_nonsense(total, available)
        return MemoryReading.of(total, total - available + swapped, self.source, self.kind)


@dataclass(frozen=True)
class _Files:
    """How one version of control groups names what matters here."""

    limits: tuple[str, ...]
    usage: str
    reclaimable: tuple[bytes, ...]
    # What is swapped out stands in a line of memory.stat or in a file of its own; pages that are back in
    # memory, and counted there, may keep their place in the swap.
    swap: bytes | str
    swap_cached: bytes


_FILES = {
    # The usage counts a group's descendants, as do those lines of memory.stat that begin with "total_".
    1: _Files(
        limits=("memory.limit_in_bytes",),
        usage="memory.usage_in_bytes",
        reclaimable=(b"\ntotal_active_file ", b"\ntotal_inactive_file "),
        # Not memsw less usage: other threads change both between the two readings.
        swap=b"\ntotal_swap ",
        swap_cached=b"\ntotal_swapcached ",
    ),
    # Above memory.high a group is not killed but slowed down until it stands still, which is no better.
    2: _Files(
        limits=("memory.max", "memory.high"),
        usage="memory.current",
        reclaimable=(b"\nactive_file ", b"\ninactive_file ", b"\nslab_reclaimable "),
        swap="memory.swap.current",
        swap_cached=b"\nswapcached ",
    ),
}


def limits_of(group: ControlGroup) -> list[str]:
    """Return the names of the limits that a group has now.

    A root group has none, nor has a group without the memory controller.
    """
    files = _FILES[group.version]
    if not os.path.exists(group.folder / files.usage):
        return []
    return [limit for limit in files.limits if os.path.exists(group.folder / limit)]


class GroupLimit:
    """One limit of a control group, by one of the names that `limits_of` returns."""

    kind: Final = "cgroup"

    def __init__(self, group: ControlGroup, limit: str) -> None:
        files = _FILES[group.version]
        self.source = f"{group} {limit}" if limit == "memory.high" else str(group)
        self._limit = KeptFile(group.folder / limit)
        self._usage = KeptFile(group.folder / files.usage)
        self._stat = KeptFile(group.folder / "memory.stat")
        self._files = files
        # Without a swap, or without accounts of it, the kernel does not make the file.
        has_file = isinstance(files.swap, str) and os.path.exists(group.folder / files.swap)
        self._swap_file = KeptFile(group.folder / str(files.swap)) if has_file else None
        self._swap = _Swap()

    def measure(self, physical: int) -> MemoryReading | None:
        """Return limit and use; no use is read while the limit is ``max`` or not below ``physical``."""
        text = self._limit.read()
        if text.strip() == b"max":
            return None
        limit = count(text)
        if limit >= physical:
            return None
        used = count(self._usage.read())
        try:
            stat = b"\n" + self._stat.read()
        except FileNotFoundError:
            stat = b""  # emulated groups have none; counting their page cache as used is the safe side
        for name in self._files.reclaimable:
            used -= known(stat, name)
        used += self._swap.growth(self._swapped(stat))
        return MemoryReading.of(limit, used, self.source, self.kind)

    def _swapped(self, stat: bytes) -> int:
        """Return the bytes of the group that are swapped out and nowhere else."""
        swap = self._files.swap
        if isinstance(swap, bytes):
            out = known(stat, swap)
        else:
            out = 0 if self._swap_file is None else count(self._swap_file.read())
        return out - known(stat, self._files.swap_cached)


class _Swap:
    """What of a level is swapped out."""

    def __init__(self) -> None:
        self._least: int | None = None

    def growth(self, swapped: int) -> int:
        """Return how many bytes more are swapped out now than at the least so far."""
        swapped = max(swapped, 0)
        self._least = swapped if self._least is None else min(swapped, self._least)
        return swapped - self._least


class ProcessMemory:
    """What this process itself uses."""

    def __init__(self, proc_root: Path) -> None:
        self._statm = KeptFile(proc_root / "self" / "statm")

    def address_space(self) -> int:
        """Return the bytes that RLIMIT_AS is compared with."""
        return self._pages()[0] * mmap.PAGESIZE

    def data(self) -> int:
        """Return the bytes that RLIMIT_DATA is compared with, and beside them the main thread's stack.

        The exact number stands in ``status`` alone, which takes ten times as long to read.
        """
        return self._pages()[5] * mmap.PAGESIZE

    def anonymous(self) -> int:
        """Return the bytes of resident memory that no file backs, or all resident ones without ``/proc``."""
        try:
            pages = self._pages()
        except FileNotFoundError:
            return _ask_psutil_for_process()
        return (pages[1] - pages[2]) * mmap.PAGESIZE

    def _pages(self) -> list[int]:
        pages = [count(word) for word in self._statm.read().split()]
        if len(pages) < 6:
            raise ValueError(f"{len(pages)} numbers in {self._statm.path}")
        return pages


class ResourceLimit:
    """A soft limit of ``setrlimit``: ``"RLIMIT_AS"`` or ``"RLIMIT_DATA"``, with what it is compared to."""

    kind: Final = "rlimit"

    def __init__(self, name: str, used: Callable[[], int]) -> None:
        import resource  # not on Windows

        self.source = name
        self._which: int = getattr(resource, name)
        self._used = used

    def measure(self, physical: int) -> MemoryReading | None:
        """Return limit and use; a limit beyond ``physical`` binds, too, as it counts untouched memory."""
        import resource

        limit = resource.getrlimit(self._which)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        return MemoryReading.of(limit, self._used(), self.source, self.kind)


class UserLimit:
    """A limit that the user gave, for what this process allocates."""

    source = "user limit"
    kind: Final = "user"

    def __init__(self, limit: int, process: ProcessMemory) -> None:
        self._limit = limit
        self._process = process

    def measure(self, physical: int) -> MemoryReading:
        """Return the limit and the process's anonymous memory."""
        return MemoryReading.of(self._limit, self._process.anonymous(), self.source, self.kind)


def _refuse_nonsense(total: int, available: int) -> None:
    if total <= 0 or available < 0:
        raise ValueError(f"{available} bytes of memory available of {total}")


def _ask_psutil_for_host() -> tuple[int, int]:
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def _ask_psutil_for_process() -> int:
    import psutil

    memory = psutil.Process().memory_info()
    # Windows tells what is private; elsewhere the resident size is the nearest that is cheap.
    return int(getattr(memory, "private", memory.rss))
