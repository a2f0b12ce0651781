"""Time to first batch: how long a program waits before it can begin.

Two workers and batches of 64 float32 images (3 channels, 32 by 32) with a label each. Compiled kernels are in
the cache, as they are from the second start on. Time from the constructor call is what each new loader costs;
time from the start of the process adds the interpreter and the imports. torch is measured with workers that
are spawned, the only way on Windows, the default on macOS and what is left where forking is unsafe (CUDA in
use, other threads running), and with workers that are forked, where a new worker costs little. A program that
trains with torch imports it whatever loads its data, so one row charges that import to both sides.
"""

from __future__ import annotations

import importlib
import sys
import time
from functools import partial
from typing import Any

from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns

_GROUP = "startup"
_SHAPE = (3, 32, 32)
_WORKERS = 2


class Images:
    """Images that cost next to nothing to make and nothing to send to another process."""

    def __len__(self) -> int:
        return 64 * 100

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import numpy as np

        return np.full(_SHAPE, index, np.float32), index


def measure(loader: str, began: float, *, with_torch: bool = False) -> dict[str, float]:
    """Load one batch; return the seconds since ``began`` on the monotonic clock and since the constructor."""
    options: dict[str, Any] = {"batch_size": 64, "num_workers": _WORKERS}
    if with_torch:
        import torch  # noqa: F401
    if loader != "ours":
        options["multiprocessing_context"] = loader.removeprefix("torch ")
    module = importlib.import_module("nogil_loader" if loader == "ours" else "torch.utils.data")
    start = time.monotonic()
    iterator = iter(module.DataLoader(Images(), **options))
    images, _ = next(iterator)
    end = time.monotonic()
    if tuple(images.shape) != (64, *_SHAPE) or float(images[63, 0, 0, 0]) != 63:
        raise RuntimeError(f"{loader} delivered something else than the first batch")
    del iterator  # ends torch's workers before the interpreter does
    return {"process": end - began, "constructor": end - start}


def _start(loader: str, since: str, with_torch: bool = False) -> float:
    # The monotonic clock is the machine's: a child may be told when its parent began to start it.
    seconds = run_fresh(measure, loader=loader, began=time.monotonic(), with_torch=with_torch)
    return float(seconds[since])


def run(quick: bool) -> list[Row]:
    rounds = 1 if quick else 5
    cases: list[tuple[str, str, str, bool, float | None]] = [
        ("from the constructor call", "torch spawn", "constructor", True, 5.0),
        ("from the start of the process, each with its own imports", "torch spawn", "process", False, 5.0),
        ("from the start of the process, both with torch imported", "torch spawn", "process", True, None),
        ("from the constructor call", "torch fork", "constructor", True, None),
    ]
    if not installed("torch"):
        return [missing(_GROUP, name, "s", peer, target) for name, peer, _, _, target in cases]
    _start("ours", "process")  # warms the kernel cache, and the page cache for all
    rows = []
    for name, peer, since, with_torch, target in cases:
        if peer == "torch fork" and sys.platform == "win32":
            continue
        taken = take_turns(
            {
                "ours": partial(_start, "ours", since, with_torch),
                "torch": partial(_start, peer, since),
            },
            rounds,
        )
        against = f"torch, workers {'spawned' if peer == 'torch spawn' else 'forked'}"
        rows.append(compare(_GROUP, name, "s", taken["ours"], taken["torch"], against=against, target=target))
    return rows
