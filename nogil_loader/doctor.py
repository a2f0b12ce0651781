"""What the loader finds on this machine and what follows from it, for people and for programs to read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nogil_loader.memory.gauge import Gauge
from nogil_loader.memory.pool import pool
from nogil_loader.memory.probe import LevelReport, MemoryProbe
from nogil_loader.memory.ranks import local_world_size
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.source import ReadingSource
from nogil_loader.policies import MemoryPolicy

#: What can be asked about, one by one or all at once.
PARTS = ("memory",)

# Any of these ends the automatic growth of glibc's threshold, by itself.
_HEAP_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_HEAP_TUNABLES = ("glibc.malloc.mmap_threshold=", "glibc.malloc.trim_threshold=")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class Finding(Protocol):
    """What was found in one part."""

    def facts(self) -> dict[str, Any]:
        """Return it for a program: what JSON can hold, sizes in bytes."""

    def lines(self) -> list[str]:
        """Return it for a person."""


@dataclass(frozen=True)
class Share:
    """What a loader may do with memory under a policy.

    Attributes:
        reading: Limit and use that it goes by.
        soft: Bytes in use up to which it begins batches.
        hard: Bytes in use above which it gives batches up, to load them again.
        room: Bytes that all loaders of the level that binds may have in flight now.
        room_each: Bytes of these for each rank.
    """

    reading: MemoryReading
    soft: int
    hard: int
    room: int
    room_each: int

    @classmethod
    def of(cls, reading: MemoryReading, policy: MemoryPolicy, ranks: int) -> Share:
        """Return what follows from a reading, for ``ranks`` ranks on this machine."""
        gauge = Gauge(policy)
        gauge.observe(reading, 0.0)
        level = gauge.level(0, 0.0)
        assert level is not None, "a reading was observed"
        room = max(0, level.soft - level.used)
        return cls(reading, level.soft, level.hard, room, room // ranks if reading.is_shared else room)


@dataclass(frozen=True)
class Heap:
    """How the C library and the kernel deal with large arrays.

    Attributes:
        library: Name and version of the C library where it is glibc, else empty.
        has_fixed_threshold: Whether the environment keeps glibc from putting large arrays into its heaps.
        huge_pages: When the kernel gives huge pages: ``"always"``, ``"madvise"``, ``"never"``, or empty.
        most_idle: Bytes of batches' memory that may wait for the next batches.
    """

    library: str
    has_fixed_threshold: bool
    huge_pages: str
    most_idle: int

    @classmethod
    def of(cls, environ: Mapping[str, str], huge_pages: Path = _HUGE_PAGES) -> Heap:
        """Read it from the system."""
        library, pages = "", ""
        with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows, other libraries
            library = os.confstr("CS_GNU_LIBC_VERSION") or ""
        with contextlib.suppress(OSError, IndexError):
            pages = huge_pages.read_text(encoding="ascii", errors="replace").split("[")[1].split("]")[0]
        tunables = environ.get("GLIBC_TUNABLES", "")
        fixed = any(environ.get(name) for name in _HEAP_SETTINGS)
        fixed = fixed or any(name in tunables for name in _HEAP_TUNABLES)
        return cls(library, fixed, pages, pool.most_idle)

    def lines(self) -> list[str]:
        """Return it for a person."""
        lines = ["Large arrays"]
        if self.library and self.has_fixed_threshold:
            lines.append(
                f"  {self.library} gives them back as soon as they are freed: the environment says so"
            )
        elif self.library:
            lines += [
                f"  {self.library} may keep freed ones of up to 32 MiB; under a low limit, start Python",
                "  with MALLOC_MMAP_THRESHOLD_=1048576, so that 1 MiB and more goes back at once",
            ]
        pages = {"always": "on huge pages", "madvise": "on huge pages", "never": "without huge pages"}
        where = pages.get(self.huge_pages, "on huge pages where the system has them")
        return [
            *lines,
            f"  batches do not depend on that: their arrays of 4 MiB and more are mappings {where},",
            f"  used again for later batches; up to {_size(self.most_idle)} of them may be idle",
        ]


@dataclass(frozen=True)
class MemoryFinding:
    """Which limits of memory there are, which one binds, and what a loader would take.

    Attributes:
        memory: The argument ``memory=`` that this is about.
        is_off: Whether it tells the loader not to watch memory.
        levels: What each level says.
        share: What the loader may do; None if it would not watch memory, or if nothing is known.
        ranks: Ranks of this process's job on this machine.
        heap: How large arrays are dealt with.
    """

    memory: str
    is_off: bool
    levels: tuple[LevelReport, ...]
    share: Share | None
    ranks: int
    heap: Heap

    def facts(self) -> dict[str, Any]:
        """Return it for a program."""
        return {**dataclasses.asdict(self), "binding": self._binding}

    def lines(self) -> list[str]:
        """Return it for a person."""
        lines = ["Limits of memory", f"  {'limit':>10} {'used':>10} {'left':>10}  set by"]
        lines += [self._row(level) for level in self.levels]
        return [*lines, *self._loader_lines(), *self.heap.lines()]

    @property
    def _binding(self) -> str:
        known = [each.reading for each in self.levels if each.reading is not None]
        return min(known, key=lambda reading: reading.headroom).source if known else ""

    def _row(self, level: LevelReport) -> str:
        reading = level.reading
        if level.failure:
            return f"  {'not known':>32}  {level.source}: {level.failure}"
        if reading is None:
            return f"  {'no limit':>32}  {level.source}"
        sizes = (_size(reading.limit), _size(reading.used), _size(reading.headroom))
        row = "  " + " ".join(f"{size:>10}" for size in sizes) + f"  {level.source}"
        return f"{row} <- binds" if level.source == self._binding else row

    def _loader_lines(self) -> list[str]:
        lines = [f"A loader with memory={self.memory}"]
        if self.is_off:
            return [
                *lines,
                "  does not watch memory: only the number of batches bounds what it loads ahead",
            ]
        if self.share is None:
            return [
                *lines,
                "  cannot know how much there is: only the number of batches bounds what it loads ahead",
            ]
        share = self.share
        lines += [
            f"  goes by {share.reading}",
            f"  begins batches while less than {_size(share.soft)} is in use (soft mark)",
            f"  gives up batches above {_size(share.hard)} (hard mark), to load them again later",
            f"  could have {_size(share.room)} of batches in flight now",
        ]
        if self.ranks > 1:
            shared = (
                f"share that: {_size(share.room_each)} each" if share.reading.is_shared else "have that each"
            )
            lines.append(f"  is one of {self.ranks} ranks on this machine, which {shared}")
        return lines


def examine_memory(
    memory: MemoryPolicy | str | float = "auto",
    *,
    probe: MemoryProbe | None = None,
    environ: Mapping[str, str] | None = None,
) -> MemoryFinding:
    """Look at memory as a loader with this argument ``memory=`` would.

    Args:
        memory: As `nogil_loader.DataLoader` takes it.
        probe: What the operating system says, by default the real one.
        environ: The environment, by default the real one.

    Raises:
        ValueError: A string that cannot be read, or a limit that is out of range.
        TypeError: ``memory`` is none of what is allowed.
    """
    policy = MemoryPolicy.of(memory)
    environ = os.environ if environ is None else environ
    if probe is None:
        probe = MemoryProbe(
            limit=policy.limit if policy is not None and isinstance(policy.limit, int) else None
        )
    ranks = local_world_size(environ)
    reading = None if policy is None else ReadingSource(policy, system=probe).read()
    share = (
        Share.of(reading, policy, ranks)
        if policy is not None and isinstance(reading, MemoryReading)
        else None
    )
    return MemoryFinding(repr(memory), policy is None, tuple(probe.survey()), share, ranks, Heap.of(environ))


def examine(parts: Sequence[str], *, memory: MemoryPolicy | str | float = "auto") -> dict[str, Finding]:
    """Look at several of `PARTS`.

    Raises:
        ValueError: See `examine_memory`.
        TypeError: See `examine_memory`.
    """
    look = {"memory": lambda: examine_memory(memory)}
    return {part: look[part]() for part in parts}


def as_text(findings: Mapping[str, Finding]) -> str:
    """Return findings for people to read."""
    return "\n\n".join("\n".join(finding.lines()) for finding in findings.values())


def as_json(findings: Mapping[str, Finding]) -> str:
    """Return findings as JSON, one key for each part."""
    return json.dumps({part: finding.facts() for part, finding in findings.items()}, indent=2)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"
