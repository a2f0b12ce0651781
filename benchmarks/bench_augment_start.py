"""Start of augmentation: how long a program waits for its kernel, at the first start and at later ones.

The chain is that of the loaders' comparison: random crop, flip, normalisation, channels first. Each measurement
is a new interpreter that has imported numba and nogil_loader already; the time runs from declaring the chain
until its kernel has made a batch, and until it has made one sample outside a loader. "Warm" finds the kernel in
the compile cache, "cold" finds the cache's folder empty and compiles.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial

from benchmarks.augment import peers
from benchmarks.augment.work import BATCH, CROP, SIDE, make_images
from benchmarks.harness import Row, run_fresh, take_turns, within

_GROUP = "augment_start"
_NAME = f"crop {CROP} of {SIDE}², flip, normalise, channels first"
# What a clock of this kind of measurement cannot tell from nothing.
_FLOOR = 1e-3


def measure(cache: str, what: str) -> float:
    """Return the seconds until the first batch or the first sample."""
    os.environ["NOGIL_LOADER_CACHE_DIR"] = cache
    import numba  # noqa: F401 - what its import costs is not counted

    import nogil_loader  # noqa: F401 - likewise

    images = make_images(BATCH)
    start = time.perf_counter()
    if what == "batch":
        shape = next(iter(peers.ours(images, CROP, workers=1))).shape
    else:
        shape = (1, *peers.our_chain(CROP, SIDE).apply(images[0], seed=0, epoch=0, index=0).shape)
    took = time.perf_counter() - start
    if shape[1:] != (3, CROP, CROP):
        raise RuntimeError(f"the chain made {shape}")
    return took


def _cold(what: str) -> float:
    with tempfile.TemporaryDirectory() as empty:
        return float(run_fresh(measure, cache=empty, what=what))


def run(quick: bool) -> list[Row]:
    rounds = 1 if quick else 7
    with tempfile.TemporaryDirectory() as filled:
        sides = {
            f"{state} {what}": partial(_cold, what)
            if state == "cold"
            else partial(run_fresh, measure, cache=filled, what=what)
            for state in ("warm", "cold")
            for what in ("batch", "sample")
        }
        for what in ("batch", "sample"):
            sides[f"warm {what}"]()  # fills the cache
        taken = take_turns(sides, rounds)
    names = {
        "warm batch": ("kernel in the cache, first batch", 0.6),
        "warm sample": ("kernel in the cache, first sample outside a loader", 0.6),
        "cold batch": ("cache empty, first batch", 4.0),
        "cold sample": ("cache empty, first sample outside a loader", 4.0),
    }
    return [
        within(_GROUP, f"{_NAME}: {text}", "s", taken[side], limit, floor=_FLOOR)
        for side, (text, limit) in names.items()
    ]
