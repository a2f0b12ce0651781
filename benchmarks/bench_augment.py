"""Augmentation: images cropped, flipped, normalised and put channels first, by loaders with two workers.

The dataset is an array of 4096 uint8 images of 128 by 128 pixels; a sample is a random crop of 112, flipped every
second time, normalised, float32 with its channels first; batches of 64 are shuffled. Our side declares the
transforms, which become one compiled kernel; the others call Python functions. The time runs from an epoch's
first batch to its last, after an epoch that warms up and in which every pixel is checked.

The peers are measured with numpy, step by step as the formula reads, and with the fewest passes over memory that
we could find. torch's loader has torchvision's transforms beside that, and the better side counts. SPDL is
measured with a sample per task, as its documentation draws pipelines, and with a whole batch per task.

A kernel cannot be faster than its result can be written, so one row compares what we write with what two threads
of this machine copy in the same run: float32 arrays as large as a batch, from memory to memory.

The last rows have the flip without the crop. One worker of it writes nearly as many bytes as this machine can copy
with two threads, so the rows beside it tell what a second thread gains where memory is not the limit: random
resized crops of 224 out of 375 by 500. The GIL's share is measured on images of 2 by 2 pixels: what the
whole process computes per batch is then what Python does for it, since the kernel has nothing to do. While one
worker computes a batch with a kernel, that many others could hold the GIL in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.augment import copying, peers, work
from benchmarks.augment.work import BATCH, CROP, IMAGES, SIDE, Examination, make_images
from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns

_GROUP = "augment"
_UNIT = "samples/s"
_NAME = f"crop {CROP} of {SIDE}², flip, normalise, channels first"
_WITHOUT_CROP = f"flip {SIDE}², normalise, channels first"
_WORKERS = 2
_BYTES = 3 * CROP * CROP * 4  # that a sample is written as

_LOADERS: dict[str, Callable[..., Iterable[Any]]] = {
    "ours": peers.ours,
    "torch": peers.torch_processes,
    "grain": peers.grain_threads,
    "spdl": peers.spdl_samples,
    "spdl batches": peers.spdl_batches,
}
# A row for each: which loaders with which functions, of which the best one counts, and the promise.
_PEERS: list[tuple[str, str, list[tuple[str, str]], float | None]] = [
    (
        "torch DataLoader, 2 processes, numpy or torchvision v2",
        "torch",
        [("torch", "numpy_steps"), ("torch", "torchvision")],
        9.0,
    ),
    (
        "torch DataLoader, 2 processes, fewest passes",
        "torch",
        [("torch", "torch_in_place"), ("torch", "numpy_in_place")],
        None,
    ),
    ("Grain, 2 threads, numpy", "grain", [("grain", "numpy_steps")], 8.0),
    ("Grain, 2 threads, fewest passes", "grain", [("grain", "numpy_in_place")], None),
    ("SPDL, 2 threads, numpy, a sample per task", "spdl", [("spdl", "numpy_steps")], 20.0),
    ("SPDL, 2 threads, numpy, a batch per task", "spdl", [("spdl batches", "numpy_steps")], None),
    ("SPDL, 2 threads, fewest passes, a batch per task", "spdl", [("spdl batches", "numpy_in_place")], None),
]


def measure(
    loader: str, epochs: int, *, workers: int = _WORKERS, crop: int = CROP, function: str = ""
) -> float:
    """Return samples per second over some epochs."""
    options = {"function": function} if function else {}
    batches = _LOADERS[loader](make_images(), crop, workers, **options)
    examination = Examination(f"{loader} {function}", crop)
    for batch in batches:
        examination.batch(batch)
    examination.end()

    elapsed = 0.0
    for _ in range(epochs):
        iterator = iter(batches)
        next(iterator)
        start = time.perf_counter()
        rest = sum(1 for _ in iterator)
        elapsed += time.perf_counter() - start
        if rest != IMAGES // BATCH - 1:
            raise RuntimeError(f"{loader} delivered {rest + 1} of {IMAGES // BATCH} batches")
    return epochs * (IMAGES - BATCH) / elapsed


def measure_gil(epochs: int) -> float:
    """Return µs of processor time per batch whose samples are next to nothing, all threads together."""
    images = make_images(64 * BATCH, 2)
    # One worker and the consumer do all that is done for a batch, and seldom wait for each other.
    batches = peers.ours(images, 2, workers=1)
    for _ in batches:
        pass
    start = time.process_time()
    for _ in range(epochs):
        count = sum(1 for _ in batches)
    return (time.process_time() - start) / epochs / count * 1e6


def measure_copying(rounds: int, threads: int = _WORKERS) -> float:
    """Return gigabytes per second that threads copy."""
    return copying.measure((BATCH, 3, CROP, CROP), threads, rounds)


def measure_resizing(epochs: int, workers: int) -> float:
    """Return samples per second of random resized crops, which have more to compute than to write."""
    import nogil_loader as nl
    from nogil_loader import transforms as T  # noqa: N812 - as every user of it writes

    images = np.random.default_rng(0).integers(0, 256, (8 * BATCH, 375, 500, 3), np.uint8)
    chain = T.Compose(
        [T.RandomResizedCrop(224), T.HorizontalFlip(), T.Normalize(work.MEAN, work.STD), T.ToCHW()]
    )
    loader = nl.DataLoader(
        nl.ArrayDataset(images), BATCH, shuffle=True, num_workers=workers, seed=0, transform=chain
    )
    for _ in loader:
        pass
    start = time.perf_counter()
    for _ in range(epochs):
        for _ in loader:
            pass
    return epochs * len(images) / (time.perf_counter() - start)


def run(quick: bool) -> list[Row]:
    epochs, rounds = (1, 1) if quick else (5, 7)
    return [*_against_peers(epochs, rounds), *_scaling(2 * epochs, rounds)]


def _against_peers(epochs: int, rounds: int) -> list[Row]:
    sides: dict[str, Callable[[], float]] = {
        "ours": partial(run_fresh, measure, loader="ours", epochs=4 * epochs),
        "copying": partial(run_fresh, measure_copying, rounds=50 * epochs),
    }
    for _, package, candidates, _ in _PEERS:
        for loader, function in candidates:
            if installed(package) and (function != "torchvision" or installed("torchvision")):
                sides[f"{loader} {function}"] = partial(
                    run_fresh, measure, loader=loader, epochs=epochs, function=function
                )
    taken = take_turns(sides, rounds)

    rows = []
    for against, _, candidates, target in _PEERS:
        names = [f"{loader} {function}" for loader, function in candidates]
        measured = [taken[name] for name in names if name in taken]
        if not measured:
            rows.append(missing(_GROUP, _NAME, _UNIT, against, target))
            continue
        best = [max(in_round) for in_round in zip(*measured, strict=True)]
        rows.append(
            compare(
                _GROUP,
                _NAME,
                _UNIT,
                taken["ours"],
                best,
                against=against,
                target=target,
                less_is_better=False,
            )
        )
    written = [rate * _BYTES / 1e9 for rate in taken["ours"]]
    against = f"np.copyto, {_WORKERS} threads"
    rows.append(
        compare(
            _GROUP,
            "the same, bytes written",
            "GB/s",
            written,
            taken["copying"],
            against=against,
            target=0.7,
            less_is_better=False,
        )
    )
    return rows


def _scaling(epochs: int, rounds: int) -> list[Row]:
    sides: dict[str, Callable[[], float]] = {
        f"{workers} workers": partial(
            run_fresh, measure, loader="ours", epochs=epochs, workers=workers, crop=SIDE
        )
        for workers in (1, 2)
    }
    sides["gil"] = partial(run_fresh, measure_gil, epochs=epochs)
    for threads in (1, 2):
        sides[f"copying {threads}"] = partial(run_fresh, measure_copying, rounds=25 * epochs, threads=threads)
        sides[f"resizing {threads}"] = partial(run_fresh, measure_resizing, epochs=epochs, workers=threads)
    taken = take_turns(sides, rounds)
    scaling = compare(
        _GROUP,
        f"{_WITHOUT_CROP}, two workers instead of one",
        _UNIT,
        taken["2 workers"],
        taken["1 workers"],
        against="one worker of ours",
        target=1.7,
        less_is_better=False,
    )
    per_batch = [BATCH / rate * 1e6 for rate in taken["1 workers"]]
    gil = compare(
        _GROUP,
        f"{_WITHOUT_CROP}, the GIL's share of a batch",
        "µs",
        taken["gil"],
        per_batch,
        against="a batch by one worker",
        note="the ratio is the number of workers that keep the GIL busy",
    )
    copied = compare(
        _GROUP,
        "np.copyto, two threads instead of one",
        "GB/s",
        taken["copying 2"],
        taken["copying 1"],
        against="one thread",
        less_is_better=False,
    )
    resized = compare(
        _GROUP,
        "random resized crop 224 of 500 by 375, antialiased, two workers instead of one",
        _UNIT,
        taken["resizing 2"],
        taken["resizing 1"],
        against="one worker of ours",
        less_is_better=False,
    )
    return [scaling, copied, resized, gil]
