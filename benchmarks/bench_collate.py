"""Collation: what it costs to make a batch of samples that are there already.

All sides run in one process and take turns. "one by one" is the way a loader goes, each sample copied into its
slot as soon as it is fetched; "list" is the call of a collate function. torch has one thread, as in the workers
of its own loader.

The yardstick for large samples is a plain copy of the whole batch into memory of the kind that batches get: a
block of the pool, which was used before unless somebody still has it. Beside it stand the copies into fresh
aligned memory (what lies between the two are page faults, which write every byte once more), into one array again
and again, and into np.empty. The latter shares its offset within a page with the source, also np.empty
memory; the C library then copies in another way, which is faster on some processors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import resident
from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns, within
from nogil_loader.collate import DefaultCollate, default_collate, pad_collate
from nogil_loader.kernels import gather_rows
from nogil_loader.memory.buffers import aligned_empty
from nogil_loader.memory.pool import pool

_GROUP = "collate"
_FRESH = "np.copyto, fresh aligned memory"
_POOLED = "np.copyto, memory from the pool"
_EMPTY = "np.copyto, np.empty"
_REUSED = "np.copyto, reused memory"
_STACK = "np.stack"
_TORCH = "torch default_collate"
_PAD_SEQUENCE = "torch pad_sequence"
_BIG = (128, 3, 224, 224)


def run(quick: bool) -> list[Row]:
    """Measure collation against torch, numpy and a plain copy."""
    rounds = 5 if quick else 41
    rows = _large(rounds=5 if quick else 15)
    rows += _against_torch("256 x uint8 (32, 32, 3)", _small_images(), rounds, target=4.0)
    rows += _against_torch("256 x dict of 6 small fields", _records(), rounds, target=3.0)
    rows += _against_torch("64 x int", list(range(64)), 5 * rounds)
    rows += _padding("256 x int64 (16 to 512,)", 16, 512, rounds, target=6.0)
    rows += _padding("256 x int64 (4 to 64,)", 4, 64, rounds, target=6.0)
    rows += _transposed(rounds=5 if quick else 15)
    rows += _gathering(rounds)
    rows += _peak(rounds=1 if quick else 3)
    return rows


def _one_by_one(collate: DefaultCollate, samples: Sequence[Any]) -> Any:
    slots = collate.begin(samples[0], range(len(samples)))
    put = slots.put
    for position, sample in enumerate(samples):
        put(sample, position)
    return slots.finish(len(samples))


def _time(call: Callable[[], Any], scale: float = 1e6) -> float:
    began = time.perf_counter()
    batch = call()
    took = time.perf_counter() - began
    del batch  # giving memory back is the consumer's time
    return took * scale


def _measure(sides: dict[str, Callable[[], Any]], rounds: int, scale: float = 1e6) -> dict[str, list[float]]:
    timers = {name: partial(_time, call, scale) for name, call in sides.items()}
    take_turns(timers, 2)  # first calls compile, import and fault in what later ones reuse
    return take_turns(timers, rounds)


def _torch_collate() -> Callable[[Sequence[Any]], Any] | None:
    if not installed("torch"):
        return None
    import torch
    from torch.utils.data import default_collate as torch_collate

    torch.set_num_threads(1)
    collate: Callable[[Sequence[Any]], Any] = torch_collate
    return collate


def _large(rounds: int) -> list[Row]:
    name = f"{_BIG[0]} x float32 {_BIG[1:]}"
    batch = np.ones(_BIG, np.float32)
    samples = [sample.copy() for sample in batch]
    reused = np.zeros_like(batch)
    sides: dict[str, Callable[[], Any]] = {
        "ours": partial(_one_by_one, default_collate, samples),
        _FRESH: lambda: _copy_into_fresh(batch),
        _POOLED: lambda: np.copyto(aligned_empty(_BIG, np.float32), batch),
        _EMPTY: lambda: np.copyto(np.empty_like(batch), batch),
        _REUSED: lambda: np.copyto(reused, batch),
        _STACK: partial(np.stack, samples),
    }
    if (torch_collate := _torch_collate()) is not None:
        sides[_TORCH] = partial(torch_collate, samples)
    taken = _measure(sides, rounds, 1e3)
    targets = {_POOLED: 0.8}
    return [
        compare(_GROUP, name, "ms", taken["ours"], taken[side], against=side, target=targets.get(side))
        for side in sides
        if side != "ours"
    ]


def _copy_into_fresh(batch: Any) -> None:
    pool.suspend(pool)
    pool.trim()
    np.copyto(aligned_empty(_BIG, np.float32), batch)
    pool.resume(pool)


def _against_torch(name: str, samples: Sequence[Any], rounds: int, target: float | None = None) -> list[Row]:
    torch_collate = _torch_collate()
    if torch_collate is None:
        return [missing(_GROUP, name, "µs", _TORCH, target)]
    indices = list(range(len(samples)))
    taken = _measure(
        {
            "one by one": partial(_one_by_one, default_collate, samples),
            "list": partial(default_collate.collate, samples, indices),
            _TORCH: partial(torch_collate, samples),
        },
        rounds,
    )
    return [
        compare(_GROUP, f"{name}, {way}", "µs", taken[way], taken[_TORCH], against=_TORCH, target=target)
        for way in ("one by one", "list")
    ]


def _small_images() -> list[np.ndarray[Any, Any]]:
    return list(np.random.default_rng(0).integers(0, 255, (256, 32, 32, 3), np.uint8))


def _records() -> list[dict[str, Any]]:
    return [
        {
            "point": np.zeros(4, np.float32),
            "matrix": np.zeros((2, 2), np.int64),
            "weight": np.float32(1),
            "label": index,
            "score": 0.5 * index,
            "flag": index % 2 == 0,
        }
        for index in range(256)
    ]


def _padding(name: str, shortest: int, longest: int, rounds: int, target: float) -> list[Row]:
    if not installed("torch"):
        return [missing(_GROUP, f"pad {name}", "µs", _PAD_SEQUENCE, target)]
    import torch
    from torch.nn.utils.rnn import pad_sequence

    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    samples = [generator.integers(0, 50_000, n) for n in generator.integers(shortest, longest, 256)]
    collate = pad_collate()
    indices = list(range(len(samples)))

    def torch_pad() -> Any:
        tensors = [torch.from_numpy(sample) for sample in samples]
        return pad_sequence(tensors, batch_first=True), torch.tensor([len(tensor) for tensor in tensors])

    taken = _measure(
        {
            "one by one": partial(_one_by_one, collate, samples),
            "list": partial(collate.collate, samples, indices),
            _PAD_SEQUENCE: torch_pad,
        },
        rounds,
    )
    return [
        compare(
            *(_GROUP, f"pad {name}, {way}", "µs", taken[way], taken[_PAD_SEQUENCE]),
            against=f"{_PAD_SEQUENCE} and lengths",
            target=target,
        )
        for way in ("one by one", "list")
    ]


def _transposed(rounds: int) -> list[Row]:
    images = np.random.default_rng(0).integers(0, 255, (64, 224, 224, 3), np.uint8)
    samples = [image.transpose(2, 0, 1) for image in images]
    shape = (len(samples), *samples[0].shape)
    taken = _measure(
        {
            "ours": partial(_one_by_one, default_collate, samples),
            # Without out= the result has the memory order of the images and only looks like CHW.
            _STACK: lambda: np.stack(samples, out=np.empty(shape, np.uint8)),
        },
        rounds,
        1e3,
    )
    name = "64 x uint8 HWC seen as CHW (3, 224, 224)"
    return [compare(_GROUP, name, "ms", taken["ours"], taken[_STACK], against=_STACK)]


def _gathering(rounds: int) -> list[Row]:
    generator = np.random.default_rng(0)
    source = generator.integers(0, 255, (50_000, 3072), np.uint8)
    indices = generator.integers(0, len(source), 256)
    out = np.empty((256, 3072), np.uint8)
    taken = _measure(
        {"ours": lambda: gather_rows(source, indices, out), "indexing": lambda: source[indices]}, rounds
    )
    name = "gather 256 rows of 3 KB into a batch array"
    return [compare(_GROUP, name, "µs", taken["ours"], taken["indexing"], against="source[indices]")]


def peak_while_collating() -> float:
    """Return peak memory over the size of the batch while samples are made and collated one by one."""
    sample = np.zeros(_BIG[1:], np.float32)
    default_collate.begin(sample, [0]).put(sample, 0)
    resident.settle()
    resident.reset_peak()
    before = resident.resident_bytes()
    slots = default_collate.begin(sample, range(_BIG[0]))
    for index in range(_BIG[0]):
        slots.put(np.full(_BIG[1:], index, np.float32), index)
    batch = slots.finish(_BIG[0])
    return (resident.peak_bytes() - before) / float(batch.nbytes)


def _peak(rounds: int) -> list[Row]:
    if not resident.is_available():
        return []
    peaks = [run_fresh(peak_while_collating) for _ in range(rounds)]
    name = f"peak memory of one batch, {_BIG[0]} x float32 {_BIG[1:]}"
    return [within(_GROUP, name, "x batch", peaks, 1.25, floor=0.01)]
