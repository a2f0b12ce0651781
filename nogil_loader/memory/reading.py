"""What a memory limit and the use below it were at one moment."""

from __future__ import annotations

import enum
import functools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from nogil_loader.memory.probe import MemoryProbe

#: Who sets a limit: a control group, the size of the machine, ``setrlimit``, the user, or someone else.
Kind = Literal["cgroup", "host", "rlimit", "user", "other"]


@dataclass(frozen=True)
class MemoryReading:
    """Limit and use of the level of memory that binds.

    ``0 <= used`` and ``headroom == max(0, limit - used)``; all three belong to the same level.

    Attributes:
        limit: Bytes that may be used at this level.
        used: Bytes that are used and could not be reclaimed.
        headroom: Bytes left.
        source: Which level it is, such as ``"cgroup v2 /job"``, ``"host"`` or ``"RLIMIT_DATA"``.
        kind: Who sets the limit. It follows from ``source``, so it does not count when readings are compared.
    """

    limit: int
    used: int
    headroom: int
    source: str
    kind: Kind = field(default="other", compare=False)

    @classmethod
    def of(cls, limit: int, used: int, source: str, kind: Kind = "other") -> MemoryReading:
        """Return the reading for ``used``, clamped to ``[0, limit]``.

        Counters that are read one after the other can disagree, and a limit may have been lowered below what
        was in use.
        """
        used = min(max(used, 0), limit)
        return cls(limit, used, limit - used, source, kind)

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use up the headroom too: that of a control group or of the machine."""
        return self.kind in ("cgroup", "host")

    @property
    def is_host(self) -> bool:
        """Whether the machine itself binds, and nobody has set a limit."""
        return self.kind == "host"

    @property
    def is_known(self) -> bool:
        """False for `UNKNOWN` alone: nothing could be read, so the numbers say nothing."""
        return self != UNKNOWN

    def __str__(self) -> str:
        if not self.is_known:
            return "memory limit and use are not known"
        return (
            f"{self.used / 1e9:.2f} GB used of {self.limit / 1e9:.2f} GB, {self.headroom / 1e9:.2f} GB left "
            f"({self.source})"
        )


#: The reading where no level could ever be read: as if there were no limit.
UNKNOWN = MemoryReading(sys.maxsize, 0, sys.maxsize, "unknown")


class Busy(enum.Enum):
    """The type of `BUSY`."""

    BUSY = "not now"


#: Said instead of a reading by whoever would have to wait for one: nothing is wrong, and nothing is new.
BUSY: Final = Busy.BUSY


def read_memory() -> MemoryReading | None:
    """Read the level of memory that binds this process, or return None where the system does not tell.

    It runs while a failure is being reported, so it never raises.
    """
    try:
        reading = process_probe().read()
    except Exception:  # noqa: BLE001 - where memory has run out, even an import can fail
        return None
    return reading if reading.is_known else None


@functools.cache
def process_probe() -> MemoryProbe:
    """Return the probe that all of this process share, without a limit of the user's."""
    from nogil_loader.memory.probe import MemoryProbe

    return MemoryProbe()
