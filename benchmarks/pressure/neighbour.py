"""A process that takes memory and gives it back when it is told to: ``python -m benchmarks.pressure.neighbour``.

It reads lines from stdin, ``take BYTES RATE`` (bytes per second, 0 for as fast as it goes) and ``give``, and
answers each with a line of JSON: when it began and when it was done.
"""

from __future__ import annotations

import json
import mmap
import sys
import time

# Small against what is taken, large against the cost of a step.
_STEP = 1 << 20


def take(nbytes: int, rate: float) -> mmap.mmap:
    """Map memory and fill it, no faster than ``rate``."""
    taken = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    content = b"\1" * _STEP
    start = time.monotonic()
    for position in range(0, nbytes, _STEP):
        if rate:
            time.sleep(max(0.0, start + position / rate - time.monotonic()))
        end = min(position + _STEP, nbytes)
        taken[position:end] = content[: end - position]
    return taken


def main() -> int:
    taken: list[mmap.mmap] = []
    for line in sys.stdin:
        command, *arguments = line.split()
        began = time.monotonic()
        if command == "take":
            taken.append(take(int(arguments[0]), float(arguments[1])))
        else:
            while taken:
                taken.pop().close()
        print(json.dumps({"began": began, "done": time.monotonic()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
