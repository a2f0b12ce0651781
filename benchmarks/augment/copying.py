"""How fast threads of this machine can copy, the yardstick for kernels that do little more."""

from __future__ import annotations

import threading
import time

import numpy as np

# As many as a loader with two workers has under way: two each, and one with whoever consumes.
_IN_TURN = 6


def measure(shape: tuple[int, ...], threads: int, rounds: int) -> float:
    """Return gigabytes written per second by threads that copy float32 arrays without the GIL.

    Sources and destinations are taken in turn, as a loader's samples and batches are, so that neither is still
    in a cache. All of them have been written before: what page faults cost belongs to whoever allocates.

    Args:
        shape: Of an array.
        threads: How many copy at once.
        rounds: How many arrays each of them copies.
    """
    sources = np.ones((2 * _IN_TURN, *shape), np.float32)
    destinations = np.zeros((_IN_TURN, *shape), np.float32)
    together = threading.Barrier(threads + 1)

    def copy(first: int) -> None:
        together.wait()
        for turn in range(first, rounds * threads, threads):
            np.copyto(destinations[turn % _IN_TURN], sources[turn % len(sources)])
        together.wait()

    helpers = [threading.Thread(target=copy, args=(first,)) for first in range(threads)]
    for helper in helpers:
        helper.start()
    together.wait()
    began = time.perf_counter()
    together.wait()
    took = time.perf_counter() - began
    for helper in helpers:
        helper.join()
    return threads * rounds * int(destinations[0].nbytes) / took / 1e9
