"""Scaling: photographs per second with one worker and with two.

Samples are JPEG photographs of 256 by 256 pixels, decoded by simplejpeg without holding the GIL, and stacked into
batches of 64 by each loader's default collation. Both sides read the same dataset object; the workers are
threads here and forked processes for torch. The consumer does nothing, so the workers are what is measured,
from the first batch to the last. Two workers can be no faster than the cores that are free: on a machine with
two cores the consumer's thread and everything else that runs compete with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns

_GROUP = "scaling"
_BATCH = 64
_PHOTOGRAPHS = 512
_SIZE = (256, 256)
_UNIT = "photographs/s"


class Repeated:
    """Some photographs over and over, so that an epoch is long and preparing it short."""

    def __init__(self, length: int) -> None:
        from nogil_loader import Photographs

        self.photographs = Photographs.load(_PHOTOGRAPHS, _SIZE)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.photographs[index % _PHOTOGRAPHS]


def measure(loader: str, workers: int, batches: int) -> float:
    """Return photographs per second over one epoch."""
    dataset = Repeated(_BATCH * batches)
    if loader == "ours":
        import nogil_loader

        batched: Iterable[Any] = nogil_loader.DataLoader(dataset, batch_size=_BATCH, num_workers=workers)
    else:
        from torch.utils.data import DataLoader

        batched = DataLoader(dataset, batch_size=_BATCH, num_workers=workers)
    iterator = iter(batched)
    next(iterator)
    start = time.perf_counter()
    delivered = sum(len(labels) for _, labels in iterator)
    elapsed = time.perf_counter() - start
    if delivered != _BATCH * (batches - 1):
        raise RuntimeError(f"{loader} delivered {delivered + _BATCH} of {len(dataset)} photographs")
    return delivered / elapsed


def run(quick: bool) -> list[Row]:
    batches, rounds = (10, 1) if quick else (80, 5)
    if not installed("simplejpeg") or not installed("skimage"):
        return [missing(_GROUP, "decode photographs", _UNIT, "the extra photos")]
    peers = ["torch"] if installed("torch") else []
    taken = take_turns(
        {
            f"{side} {workers}": partial(run_fresh, measure, loader=side, workers=workers, batches=batches)
            for side in ["ours", *peers]
            for workers in (1, 2)
        },
        rounds,
    )

    def row(name: str, ours: str, theirs: str, against: str, target: float | None = None) -> Row:
        return compare(
            _GROUP,
            name,
            _UNIT,
            taken[ours],
            taken[theirs],
            against=against,
            target=target,
            less_is_better=False,
        )

    rows = []
    for workers, noun in ((1, "process"), (2, "processes")):
        name, against = f"decode photographs, workers: {workers}", f"torch, {workers} {noun}"
        rows.append(
            row(name, f"ours {workers}", f"torch {workers}", against, 1.0)
            if peers
            else missing(_GROUP, name, _UNIT, against, 1.0)
        )
    rows.append(row("two workers instead of one", "ours 2", "ours 1", "one worker of ours"))
    if peers:
        rows.append(row("two workers instead of one, torch", "torch 2", "torch 1", "one worker of torch"))
    return rows
