"""Which limits of memory there are, which one binds, and what a loader would take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nogil_loader.doctor.files import PROC, as_number, read_text
from nogil_loader.doctor.finding import Diagnosis, Finding, size
from nogil_loader.doctor.heap import Heap
from nogil_loader.memory.gauge import Gauge
from nogil_loader.memory.probe import LevelReport, MemoryProbe
from nogil_loader.memory.ranks import local_world_size
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.source import ReadingSource
from nogil_loader.policies import MemoryPolicy

# What Python takes with numpy, numba and the kernels of collation loaded, before any sample: anonymous memory,
# data and addresses were 72 MB, 226 MB and 482 MB with Python 3.11 and numba 0.68 on Linux.
_NEEDED = 72_000_000
_NEEDED_OF = {"RLIMIT_DATA": 226_000_000, "RLIMIT_AS": 482_000_000}
# However full memory is, a loader uses a 16th of what is left. Where it uses no more than twice that, memory is
# filled to the soft mark, or nearly so.
_TIGHT = 8


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
class Swap:
    """Memory of the machine on disk.

    Attributes:
        total: Bytes that there are.
        used: Bytes of these in use.
    """

    total: int
    used: int

    @classmethod
    def of(cls, proc_root: Path) -> Swap | None:
        """Read it from the system; None where it does not tell."""
        fields = dict(line.partition(":")[::2] for line in read_text(proc_root / "meminfo").splitlines())
        total, free = (
            as_number(fields.get(name, "").removesuffix("kB")) for name in ("SwapTotal", "SwapFree")
        )
        return None if total is None or free is None else cls(total * 1024, max(0, total - free) * 1024)


@dataclass(frozen=True)
class MemoryDiagnosis(Diagnosis):
    """What is known about memory.

    Attributes:
        memory: The argument ``memory=`` that this is about.
        is_off: Whether it tells the loader not to watch memory.
        levels: What each level says.
        share: What the loader may do; None if it would not watch memory, or if nothing is known.
        ranks: Ranks of this process's job on this machine.
        swap: None if not known.
        heap: How large arrays are dealt with.
    """

    title = "Limits of memory"
    memory: str
    is_off: bool
    levels: tuple[LevelReport, ...]
    share: Share | None
    ranks: int
    swap: Swap | None
    heap: Heap

    def facts(self) -> dict[str, Any]:
        """Return the facts for a program."""
        return {**super().facts(), "binding": self._binding}

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        lines = [f"  {'limit':>10} {'used':>10} {'left':>10}  set by"]
        lines += [self._row(level) for level in self.levels]
        return [*lines, *self._loader_lines(), *self.heap.lines()]

    def findings(self) -> list[Finding]:
        """Return what follows for a loader."""
        unread = [
            Finding(
                "warning",
                f"{level.source} cannot be read: {level.failure}",
                "a limit there would not be seen",
            )
            for level in self.levels
            if level.failure
        ]
        is_limited = self.share is not None and not self.share.reading.is_host
        return [*self._too_little(), *self._room(), *unread, *self._swap(), *self.heap.findings(is_limited)]

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
        sizes = (size(reading.limit), size(reading.used), size(reading.headroom))
        row = "  " + " ".join(f"{each:>10}" for each in sizes) + f"  {level.source}"
        return f"{row} <- binds" if level.source == self._binding else row

    def _loader_lines(self) -> list[str]:
        lines = [f"A loader with memory={self.memory}"]
        if self.is_off:
            return [*lines, "  does not watch memory: only the number of batches bounds what it loads ahead"]
        if self.share is None:
            return [
                *lines,
                "  cannot know how much there is: only the number of batches bounds what it loads ahead",
            ]
        share = self.share
        lines += [
            f"  goes by {share.reading}",
            f"  begins batches while less than {size(share.soft)} is in use (soft mark)",
            f"  gives up batches above {size(share.hard)} (hard mark), to load them again later",
            f"  could have {size(share.room)} of batches in flight now",
        ]
        if self.ranks > 1:
            shared = (
                f"share that: {size(share.room_each)} each" if share.reading.is_shared else "have that each"
            )
            lines.append(f"  is one of {self.ranks} ranks on this machine, which {shared}")
        return lines

    def _too_little(self) -> list[Finding]:
        """Return limits that Python itself, with numba, goes beyond."""
        readings = [level.reading for level in self.levels]
        if self.share is not None:
            readings.append(self.share.reading)
        found = {}
        for reading in readings:
            if reading is None:
                continue
            needed = _NEEDED_OF.get(reading.source, _NEEDED)
            own = 0 if reading.is_shared else reading.used
            if reading.limit <= max(needed, own):
                found[reading.source] = Finding(
                    "problem",
                    f"the limit of {size(reading.limit)} ({reading.source}) is below what Python with numba "
                    f"takes itself, about {size(max(needed, own))}",
                    self._remedy(reading),
                )
        return list(found.values())

    def _room(self) -> list[Finding]:
        if self.is_off:
            return [
                Finding(
                    "note",
                    "memory is not watched: what does not fit ends in an out-of-memory kill",
                    'leave memory="auto", the default',
                )
            ]
        if self.share is None:
            return [
                Finding(
                    "warning",
                    "limit and use of memory are not known",
                    "say what this process may take: memory='4GiB'",
                )
            ]
        share = self.share
        if share.room * _TIGHT > share.reading.headroom:
            return [Finding("ok", f"{size(share.room)} may be in flight ({share.reading.source} binds)")]
        return [
            Finding(
                "warning",
                f"nearly full ({share.reading}): only {size(share.room)} may be in flight, so that batches come "
                "one by one, in parts, or not at all",
                f"let go of memory, or {self._remedy(share.reading)}",
            )
        ]

    def _remedy(self, reading: MemoryReading) -> str:
        """Return how to have more than a reading allows."""
        is_a_levels = any(reading.source == level.source for level in self.levels)
        told = _REMEDIES.get(reading.kind) if is_a_levels else None
        return told or f"raise the loader's argument: memory={self.memory} is little"

    def _swap(self) -> list[Finding]:
        if self.swap is None or not self.swap.total:
            return []
        return [
            Finding(
                "note",
                f"swap is on ({size(self.swap.used)} of {size(self.swap.total)} used): what exceeds memory "
                "becomes slow before it fails; a loader does not count swap as room",
                "if epochs become slow: swapon --show; vmstat 1 (columns si, so); docker run --memory-swap",
            )
        ]


# By who sets a limit. A share of one, and the user's own, are the loader's argument.
_REMEDIES: Mapping[str, str] = {
    "cgroup": "raise it where the job is started: docker run --memory=8g, resources.limits.memory in "
    "Kubernetes, sbatch --mem=8G",
    "host": "end what else runs on this machine",
    "rlimit": "raise it before Python starts: ulimit -v unlimited; ulimit -d unlimited",
}


def examine_memory(
    memory: MemoryPolicy | str | float = "auto",
    *,
    probe: MemoryProbe | None = None,
    environ: Mapping[str, str] | None = None,
    proc_root: Path = PROC,
) -> MemoryDiagnosis:
    """Look at memory as a loader with this argument ``memory=`` would.

    Args:
        memory: As `nogil_loader.DataLoader` takes it.
        probe: What the operating system says, by default the real one.
        environ: The environment, by default the real one.
        proc_root: Where the process file system is mounted.

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
    return MemoryDiagnosis(
        repr(memory),
        policy is None,
        tuple(probe.survey()),
        share,
        ranks,
        Swap.of(proc_root),
        Heap.of(environ),
    )
