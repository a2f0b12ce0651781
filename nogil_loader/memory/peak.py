"""How far memory rose since a moment: that is how scratch memory which nobody declares is found."""

from __future__ import annotations

import os
from pathlib import Path

_KIB = 1024
# The status file has about 1.5 KB; one read of all of it is consistent.
_MOST_BYTES = 1 << 14


class PeakMeter:
    """Measures how far resident memory rises, for one measurement at a time.

    Linux only; elsewhere, and where the system forbids it, every answer is "unknown" and nothing raises. The peak
    belongs to the whole process: whatever else is allocated meanwhile is measured too.

    Args:
        proc_root: Where the process file system is mounted.
    """

    def __init__(self, proc_root: str | os.PathLike[str] = "/proc") -> None:
        folder = Path(proc_root, "self")
        self._status = folder / "status"
        self._clear_refs = folder / "clear_refs"
        self._start: int | None = None

    def start(self) -> bool:
        """Let the system forget the peak so far, and measure from here on.

        Other readers of the process's peak (``VmHWM``, ``ru_maxrss``) see it restart too. Takes 20 µs.

        Returns:
            Whether that is possible here.
        """
        self._start = None
        try:
            descriptor = os.open(self._clear_refs, os.O_WRONLY)
            try:
                # 5 resets the high-water mark and leaves the pages' reference bits alone (proc_pid_clear_refs(5)).
                os.write(descriptor, b"5")
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return False
        self._start = self._read(b"VmRSS:")
        return self._start is not None

    def growth(self) -> int | None:
        """Return the bytes by which resident memory has been above that at the start, at its highest.

        None if that is unknown, for instance because ``start`` was not possible.
        """
        if self._start is None:
            return None
        peak = self._read(b"VmHWM:")
        return None if peak is None else max(0, peak - self._start)

    def _read(self, name: bytes) -> int | None:
        """Return a field of the status file in bytes, None if it cannot be had."""
        try:
            descriptor = os.open(self._status, os.O_RDONLY)
            try:
                text = os.read(descriptor, _MOST_BYTES)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return None
        for line in text.splitlines():
            if line.startswith(name):
                words = line[len(name) :].split()
                return int(words[0]) * _KIB if words and words[0].isdigit() else None
        return None
