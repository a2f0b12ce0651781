"""How much memory this process may still take: the one place that asks the system.

What holds:

1. Reading never raises. It waits for the kernel, never for another thread: while one measures, the others
   get the latest reading, or are told that there is no new one.
2. A reading's limit and use belong to the same level, the one with the least headroom; ``used`` lies in
   ``[0, limit]``.
3. A limit that was changed, and a process that was moved to another group, are seen by the next reading.
4. What cannot be read any more keeps its last good value, and is reported once for each kind of failure.
   ``read_current`` tells such a value from one that was read now.

A level's limit alone tells nothing: a container may be far from its own limit on a host that is nearly full,
or the other way round. So all levels are read each time, at about a microsecond for one that sets no limit.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nogil_loader.checks import as_count
from nogil_loader.errors import describe_exception
from nogil_loader.memory.cgroups import ControlGroup, control_groups
from nogil_loader.memory.kept import KeptFile
from nogil_loader.memory.levels import (
    UNLIMITED,
    GroupLimit,
    HostMemory,
    Level,
    ProcessMemory,
    ResourceLimit,
    UserLimit,
    limits_of,
)
from nogil_loader.memory.reading import BUSY, UNKNOWN, Busy, Kind, MemoryReading
from nogil_loader.memory.turn import Turn

logger = logging.getLogger("nogil_loader")

# At 4 GB/s, as fast as two cores fill fresh pages, 2 MB appear meanwhile.
_CACHE_SECONDS = 0.0005
# Groups are looked for again when the process is in another one. Once in a while also without that, for a
# controller that was switched on or a mount that came late; it costs about 0.1 ms.
_SEARCH_SECONDS = 1.0


class MemoryProbe:
    """Reads limit and use of the level of memory that binds this process. Safe to share between threads.

    Args:
        limit: Bytes of anonymous memory that the user allows this process; None sets no such limit.
        proc_root: Where the process file system is mounted.
        cgroup_root: Where control groups are mounted, version 1, version 2 or both.
        clock: Seconds from any start, never going back.

    Raises:
        TypeError: ``limit`` is not an integer.
        ValueError: ``limit`` is below 1.
    """

    def __init__(
        self,
        *,
        limit: int | None = None,
        proc_root: str | os.PathLike[str] = "/proc",
        cgroup_root: str | os.PathLike[str] = "/sys/fs/cgroup",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._user_limit = None if limit is None else as_count("limit", limit, least=1)
        self._proc_root = Path(proc_root)
        self._cgroup_root = Path(cgroup_root)
        self._clock = clock
        self._reported: set[tuple[str, type[Exception]]] = set()
        self._start()
        _probes.add(self)

    def _start(self) -> None:
        """Take up the state of a probe that has read nothing yet, with no file open."""
        self._turn = Turn()
        self._latest = _Measured(-math.inf, UNKNOWN, False)
        self._news: deque[tuple[str, str]] = deque()
        self._memberships = KeptFile(self._proc_root / "self" / "cgroup")
        self._searched: tuple[float, bytes] = (-math.inf, b"")
        self._groups: dict[tuple[ControlGroup, str], _Watched] = {}
        self._host = _Watched(HostMemory(self._proc_root))
        self._own: list[_Watched] = []
        process = ProcessMemory(self._proc_root)
        if os.path.exists(self._proc_root / "self" / "statm"):
            self._own.append(_Watched(ResourceLimit("RLIMIT_AS", process.address_space)))
            self._own.append(_Watched(ResourceLimit("RLIMIT_DATA", process.data)))
        if self._user_limit is not None:
            self._own.append(_Watched(UserLimit(self._user_limit, process)))

    def read(self) -> MemoryReading:
        """Return the reading of the level with the least headroom.

        It is at most half a millisecond old, unless another thread is measuring just now or the system does
        not tell any more. `UNKNOWN`, whose numbers say "no limit", where nothing could ever be read.
        """
        self._refresh()
        return self._latest.reading

    def read_current(self) -> MemoryReading | Busy | None:
        """Return what ``read`` returns if it is at most half a millisecond old.

        `BUSY` while another thread is measuring; None if the level that binds could not be read this time.
        """
        if not self._refresh():
            return BUSY
        latest = self._latest
        return latest.reading if latest.is_current else None

    def survey(self) -> list[LevelReport]:
        """Read every level anew and return what each says, those that set no limit included.

        It is made for people to read: it costs about a millisecond.
        """
        twin = MemoryProbe(
            limit=self._user_limit,
            proc_root=self._proc_root,
            cgroup_root=self._cgroup_root,
            clock=self._clock,
        )
        twin._measure(self._clock())
        return [
            LevelReport(each.level.source, each.level.kind, each.last, each.failure)
            for each in twin._watched()
        ]

    def _refresh(self) -> bool:
        """Measure if the latest reading is too old; False if another thread is at it."""
        now = self._clock()
        if now - self._latest.at < _CACHE_SECONDS:
            return True
        line, mine = self._turn.line(), object()
        try:
            line.append(mine)
            if line[0] is not mine:
                return False
            if now - self._latest.at >= _CACHE_SECONDS:  # no other thread was faster
                self._latest = self._measure(now)
        except Exception as failure:  # noqa: BLE001 - a MemoryError can come from anywhere
            with contextlib.suppress(Exception):
                self._latest = self._latest._replace(is_current=False)
                self._note("probe", "memory", failure)
        finally:
            line.remove(mine)
        self._tell_news()
        return True

    def _tell_news(self) -> None:
        # Handlers are the user's code: they run when others may measure again, and a filter may raise.
        with contextlib.suppress(Exception):
            while self._news:
                logger.warning(
                    "limit and use of memory (%s) cannot be read: %s; going on with what was last known",
                    *self._news.popleft(),
                )

    def _measure(self, now: float) -> _Measured:
        self._follow(now)
        physical = UNLIMITED
        binding: _Watched | None = None
        least = math.inf
        for watched in self._watched():
            reading = self._ask(watched, physical)
            if reading is None:
                continue
            if watched is self._host:
                physical = reading.limit
            if reading.headroom < least:
                binding, least = watched, reading.headroom
        if binding is None or binding.last is None:
            return _Measured(now, UNKNOWN, False)
        return _Measured(now, binding.last, not binding.failure)

    def _watched(self) -> Iterator[_Watched]:
        """All levels, the machine first: how large it is tells which limits of groups are none."""
        yield self._host
        yield from self._groups.values()
        yield from self._own

    def _ask(self, watched: _Watched, physical: int) -> MemoryReading | None:
        """Return what a level says now or, if it fails, what it said last."""
        level = watched.level
        try:
            watched.last = level.measure(physical)
            watched.failure = ""
        except Exception as failure:  # noqa: BLE001 - psutil has errors of its own beside OSError, ImportError
            watched.failure = describe_exception(failure)
            if isinstance(level, GroupLimit) and isinstance(failure, FileNotFoundError):
                self._searched = (-math.inf, b"")  # this process left the group, and the group is gone
            else:
                self._note(type(level).__name__, level.source, failure)
        return watched.last

    def _follow(self, now: float) -> None:
        """Watch the groups that this process is in now; a group that it stays in keeps its open files."""
        searched_at, before = self._searched
        try:
            memberships = self._memberships.read()
        except FileNotFoundError:
            memberships = b""  # a system without control groups
        except OSError as failure:
            self._note("memberships", "control groups", failure)
            memberships = before
        if memberships == before and now - searched_at < _SEARCH_SECONDS:
            return
        groups = control_groups("memory", os.fsdecode(memberships), self._cgroup_root)
        limits = [(group, limit) for group in groups for limit in limits_of(group)]
        self._groups = {key: self._groups.get(key) or _Watched(GroupLimit(*key)) for key in limits}
        self._searched = (now, memberships)

    def _note(self, kind: str, source: str, failure: Exception) -> None:
        """Remember a failure to be logged, if it is the first of its kind."""
        if (kind, type(failure)) not in self._reported:
            self._reported.add((kind, type(failure)))
            self._news.append((source, describe_exception(failure)))


@dataclass(frozen=True)
class LevelReport:
    """What one level says.

    Attributes:
        source: Which level it is.
        kind: Who sets its limit.
        reading: Limit and use; None without a limit, or if it could not be read.
        failure: Why it could not be read; empty if it could.
    """

    source: str
    kind: Kind
    reading: MemoryReading | None
    failure: str


@dataclass(eq=False)
class _Watched:
    """A level, what it said last, and why it did not say anything this time."""

    level: Level
    last: MemoryReading | None = None
    failure: str = ""


class _Measured(NamedTuple):
    """The reading of the level that binds, when it was taken, and whether the level could be read then."""

    at: float
    reading: MemoryReading
    is_current: bool


_probes: weakref.WeakSet[MemoryProbe] = weakref.WeakSet()


def _start_anew_in_child() -> None:
    # Files under /proc/self tell about the process that opened them, and the lock may be held by a thread
    # that the child does not have.
    for probe in list(_probes):
        probe._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
