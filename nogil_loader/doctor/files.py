"""Small files in which the system tells about itself. What cannot be read is None or empty, no error."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
SYS = Path("/sys")
CGROUPS = Path("/sys/fs/cgroup")


def read_text(file: Path) -> str:
    """Return a file's text, empty where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # a path with a NUL in it is a ValueError
        return ""


def read_number(file: Path) -> int | None:
    """Return the number that is all of a file, None where it holds something else."""
    return as_number(read_text(file))


def as_number(text: str) -> int | None:
    """Return a number as the kernel writes it, None for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def parse_cpus(text: str) -> frozenset[int] | None:
    """Return the CPUs of a list such as ``0-3,8``, None if it is none."""
    found: set[int] = set()
    for entry in text.strip().split(","):
        first, _, last = entry.partition("-")
        begin, end = as_number(first), as_number(last or first)
        if begin is None or end is None or not 0 <= end - begin < 1 << 16:
            return None
        found.update(range(begin, end + 1))
    return frozenset(found)
