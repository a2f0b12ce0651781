"""Import: what ``import nogil_loader`` adds to a program that has numpy already.

numba, psutil and torch are imported when they are first needed, so that a program that only mentions the
package does not wait for them.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.harness import Row, run_fresh, take_turns, within

_GROUP = "imports"
_PROMISED_SECONDS = 0.15


def measure() -> float:
    """Return the seconds of the import, numpy being there."""
    import numpy as np  # noqa: F401

    start = time.perf_counter()
    import nogil_loader  # noqa: F401

    return time.perf_counter() - start


def run(quick: bool) -> list[Row]:
    rounds = 1 if quick else 10
    run_fresh(measure)  # the first one may have to write bytecode
    taken = take_turns({"ours": partial(run_fresh, measure)}, rounds)
    return [
        within(_GROUP, "import nogil_loader after numpy", "s", taken["ours"], _PROMISED_SECONDS, floor=1e-3)
    ]
