"""Giving memory back to the system that Python or the C library keep for later."""

from __future__ import annotations

import gc

from nogil_loader.memory import heap
from nogil_loader.memory.pool import pool


def relieve() -> None:
    """Let go of garbage in cycles, of idle buffers and of what the C library holds; takes some 50 ms."""
    gc.collect()  # first, since what it ends may go into the pool
    pool.trim()
    heap.trim()
