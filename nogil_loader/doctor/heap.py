"""How the C library and the kernel deal with large arrays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.files import SYS, as_number, read_text
from nogil_loader.doctor.finding import Finding, size
from nogil_loader.memory.pool import pool

# Any of these ends the automatic growth of glibc's threshold, by itself.
_HEAP_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_HEAP_TUNABLES = ("glibc.malloc.mmap_threshold=", "glibc.malloc.trim_threshold=")
_OTHER_HEAPS = ("jemalloc", "tcmalloc", "mimalloc")


@dataclass(frozen=True)
class Heap:
    """What is known about the heap.

    Attributes:
        library: Name and version of the C library where it is glibc, else empty.
        has_fixed_threshold: Whether the environment keeps glibc from putting large arrays into its heaps.
        huge_pages: When the kernel gives huge pages: ``"always"``, ``"madvise"``, ``"never"``, or empty.
        most_idle: Bytes of batches' memory that may wait for the next batches.
        arenas: Heaps that glibc may make for all threads together, as the environment says; None if it does not.
        preloaded: The allocator that ``LD_PRELOAD`` puts in the place of the C library's, else empty.
    """

    library: str
    has_fixed_threshold: bool
    huge_pages: str
    most_idle: int
    arenas: int | None
    preloaded: str

    @classmethod
    def of(cls, environ: Mapping[str, str], sys_root: Path = SYS) -> Heap:
        """Read it from the system."""
        library, pages = "", ""
        with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows, other libraries
            library = os.confstr("CS_GNU_LIBC_VERSION") or ""
        with contextlib.suppress(IndexError):
            text = read_text(sys_root / "kernel" / "mm" / "transparent_hugepage" / "enabled")
            pages = text.split("[")[1].split("]")[0]
        tunables = environ.get("GLIBC_TUNABLES", "")
        fixed = any(environ.get(name) for name in _HEAP_SETTINGS)
        fixed = fixed or any(name in tunables for name in _HEAP_TUNABLES)
        preload = environ.get("LD_PRELOAD", "")
        return cls(
            library,
            fixed,
            pages,
            pool.most_idle,
            as_number(environ.get("MALLOC_ARENA_MAX", "")),
            next((name for name in _OTHER_HEAPS if name in preload), ""),
        )

    def lines(self) -> list[str]:
        """Return it for a person."""
        pages = {"always": "on huge pages", "madvise": "on huge pages", "never": "without huge pages"}
        where = pages.get(self.huge_pages, "on huge pages where the system has them")
        return [
            "Large arrays",
            f"  batches' arrays of 4 MiB and more are mappings {where}, used again for later batches;",
            f"  up to {size(self.most_idle)} of them may be idle",
        ]

    def findings(self, is_limited: bool) -> list[Finding]:
        """Return what follows for arrays that are not a batch's own, such as samples.

        Args:
            is_limited: Whether someone has set a limit of memory, so that each MB counts.
        """
        found = []
        if self.preloaded:
            found.append(Finding("ok", f"{self.preloaded} allocates instead of the C library"))
        elif self.library and self.has_fixed_threshold:
            found.append(
                Finding(
                    "ok", f"{self.library} gives large arrays back as soon as they are freed, as it was told"
                )
            )
        elif self.library and is_limited:
            found.append(
                Finding(
                    "note",
                    f"{self.library} may keep freed arrays of up to 32 MiB (of samples, not of batches)",
                    "if memory is short, start Python with MALLOC_MMAP_THRESHOLD_=1048576: then 1 MiB and more "
                    "goes back at once",
                )
            )
        if self.library and self.arenas == 1 and not self.preloaded:
            found.append(
                Finding(
                    "warning",
                    "MALLOC_ARENA_MAX=1: all threads wait for each other to allocate small arrays",
                    "unset MALLOC_ARENA_MAX, or set it to the number of workers",
                )
            )
        return found
