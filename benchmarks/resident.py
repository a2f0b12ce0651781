"""Memory of a process as the Linux kernel counts it."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

_KIB = 1024


def is_available() -> bool:
    """Whether this system counts what is needed here."""
    return Path("/proc/self/clear_refs").exists()


def reset_peak() -> None:
    """Let the kernel forget this process's peak; from here on it is counted anew."""
    # 5 resets the high-water mark and leaves the pages' reference bits alone (proc_pid_clear_refs(5)).
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(pid: int | str = "self") -> int:
    """Return the high-water mark of the resident memory."""
    return _field(f"/proc/{pid}/status", "VmHWM:")


def resident_bytes(pid: int | str = "self") -> int:
    """Return the resident memory, shared pages included."""
    return _field(f"/proc/{pid}/status", "VmRSS:")


def proportional_bytes(pid: int | str = "self") -> int:
    """Return the resident memory, each shared page divided among the processes that map it."""
    return _field(f"/proc/{pid}/smaps_rollup", "Pss:")


def settle() -> None:
    """Collect garbage and give freed heap back, so that what stays resident is held by someone."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _field(path: str, name: str) -> int:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * _KIB
    raise LookupError(f"{path} has no {name}")
