"""What a memory limit and the use below it were at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryReading:
    """Limit and use of the level of memory that binds.

    Attributes:
        limit: Bytes that may be used at this level.
        used: Bytes that are used and could not be reclaimed.
        headroom: Bytes left.
        source: Which level it is.
    """

    limit: int
    used: int
    headroom: int
    source: str

    def __str__(self) -> str:
        return (
            f"{self.used / 1e9:.2f} GB used of {self.limit / 1e9:.2f} GB, {self.headroom / 1e9:.2f} GB left "
            f"({self.source})"
        )


def read_memory() -> MemoryReading | None:
    """Read the host's memory, or return None where the system does not tell.

    It runs while a failure is being reported, so it never raises.
    """
    try:
        import psutil

        host = psutil.virtual_memory()
        return MemoryReading(host.total, host.total - host.available, host.available, "host")
    except Exception:  # noqa: BLE001 - psutil raises errors of its own, OSError, ValueError, ImportError
        return None
