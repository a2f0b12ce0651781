"""Memory: what loading takes beside the batch, and whether it stays.

Peaks are the kernel's own high-water marks, reset just before loading starts. The batch of the first two rows
is 64 samples of 4 MiB, loaded by one worker; for torch the worker process is measured, which holds the batch in
shared memory, so that nothing is counted twice. The cost of a worker is the resident memory with 8 workers
less that with 1, over 7, after an epoch of small batches; for torch's processes every shared page is divided
among those that share it. Growth is what is resident at the end beyond what was after a warm-up, garbage
collected and freed memory given back.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from benchmarks import resident
from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns, within

_GROUP = "memory"
_MB = 1e6
_LARGE = (1024, 1024)
_LARGE_BATCH = 64
_LARGE_BYTES = 4 * 1024 * 1024 * _LARGE_BATCH

# One page more or less is chance.
_FLOOR_MB = 0.1
# A leak of one sample per epoch or failure would be 50 MB and more. The allocator wanders by up to 11 MB here,
# whatever the number of epochs, since each new thread may open another of its arenas.
_GROWTH_LIMIT_MB = 16.0
_WORKER_LIMIT_MB = 3.0


class Arrays:
    """float32 arrays made on demand; the indices in ``failing`` raise the first time they are asked for."""

    def __init__(self, length: int, shape: tuple[int, ...], failing: Iterable[int] = ()) -> None:
        self.length = length
        self.shape = shape
        self.failing = set(failing)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        import numpy as np

        if index in self.failing:
            self.failing.discard(index)
            raise OSError(f"sample {index} cannot be read just now")
        return np.full(self.shape, index, np.float32)


class _PeakFile:
    """Marks in each new worker process where its peak starts, and leaves the resident memory in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, worker_id: int) -> None:
        resident.reset_peak()
        with open(self.path, "w") as file:
            file.write(str(resident.resident_bytes()))


def measure_peak(loader: str) -> float:
    """Return the MB that one worker needs beyond what it started with to load one large batch."""
    dataset = Arrays(_LARGE_BATCH, _LARGE)
    if loader == "ours":
        import nogil_loader

        _warm_up(nogil_loader)
        iterator = iter(nogil_loader.DataLoader(dataset, batch_size=_LARGE_BATCH, num_workers=1))
        before = resident.resident_bytes()
        resident.reset_peak()
        batch = next(iterator)
        peak = resident.peak_bytes()
    else:
        import tempfile

        from torch.utils.data import DataLoader

        with tempfile.NamedTemporaryFile() as file:
            iterator = iter(
                DataLoader(
                    dataset,
                    batch_size=_LARGE_BATCH,
                    num_workers=1,
                    worker_init_fn=_PeakFile(file.name),
                )
            )
            batch = next(iterator)
            (worker,) = iterator._workers
            peak = resident.peak_bytes(worker.pid)
            before = int(file.read())
    if tuple(batch.shape) != (_LARGE_BATCH, *_LARGE) or float(batch[-1, -1, -1]) != _LARGE_BATCH - 1:
        raise RuntimeError(f"{loader} delivered something else than the batch")
    return (peak - before) / _MB


def _warm_up(nogil_loader: Any) -> None:
    # Imports and kernels that the first batch of a process brings are not the batch's.
    for _ in nogil_loader.DataLoader(Arrays(8, (64, 64)), batch_size=4, num_workers=1):
        pass


def measure_workers(loader: str, workers: int) -> float:
    """Return the MB of the process, and of its workers where those are processes, after an epoch."""
    dataset = Arrays(64 * 64, (16, 16))
    if loader == "ours":
        import nogil_loader

        iterator = iter(nogil_loader.DataLoader(dataset, batch_size=64, num_workers=workers))
        for _ in range(48):
            next(iterator)
        resident.settle()
        return resident.resident_bytes() / _MB
    from torch.utils.data import DataLoader

    iterator = iter(DataLoader(dataset, batch_size=64, num_workers=workers))
    for _ in range(48):
        next(iterator)
    pids: list[int | str] = ["self", *(worker.pid for worker in iterator._workers)]
    return sum(resident.proportional_bytes(pid) for pid in pids) / _MB


def measure_early_breaks(epochs: int) -> float:
    """Return the MB by which a process grows over epochs that are left after two batches."""
    import nogil_loader

    # 2 MiB per batch: keeping one batch per epoch would be 400 MB over 200 epochs.
    loader = nogil_loader.DataLoader(Arrays(64, (256, 256)), batch_size=8, num_workers=2, shuffle=True)
    return _growth(partial(_leave_early, loader), loader, warm_up=20, times=epochs)


def _leave_early(loader: Any) -> None:
    for number, _ in enumerate(loader):
        if number == 1:
            break


def measure_failures(failures: int) -> float:
    """Return the MB by which a process grows over failures that a rebuilt worker makes good."""
    import nogil_loader

    # 64 KiB per sample: keeping each failing one would be 65 MB over 1,000.
    length = 200
    dataset = Arrays(length, (128, 128))
    loader = nogil_loader.DataLoader(dataset, batch_size=8, num_workers=2, on_failure="rebuild")

    def load_with_failures() -> None:
        dataset.failing = set(range(3, length, 8))  # one in every batch
        delivered = sum(len(batch) for batch in loader)
        if delivered != length or dataset.failing:
            raise RuntimeError(f"{delivered} of {length} samples, {len(dataset.failing)} failures not raised")

    per_epoch = len(range(3, length, 8))
    return _growth(load_with_failures, loader, warm_up=4, times=max(1, failures // per_epoch))


def _growth(step: Callable[[], None], loader: Any, *, warm_up: int, times: int) -> float:
    for _ in range(warm_up):
        step()
    loader.close()  # what its workers are still loading is no leak
    resident.settle()
    before = resident.resident_bytes()
    for _ in range(times):
        step()
    loader.close()
    resident.settle()
    return (resident.resident_bytes() - before) / _MB


def run(quick: bool) -> list[Row]:
    if not resident.is_available():
        return []
    rounds = 1 if quick else 3
    epochs, failures = (20, 100) if quick else (200, 1000)
    peers = ["torch"] if installed("torch") else []
    rows = _peak_rows(peers, rounds)
    rows += _worker_rows(peers, rounds)
    for name, measure in (
        (f"growth over {epochs} epochs left early", partial(run_fresh, measure_early_breaks, epochs=epochs)),
        (
            f"growth over {failures} failures and rebuilds",
            partial(run_fresh, measure_failures, failures=failures),
        ),
    ):
        taken = take_turns({"ours": measure}, rounds)
        rows.append(within(_GROUP, name, "MB", taken["ours"], _GROWTH_LIMIT_MB, floor=_FLOOR_MB))
    return rows


def _peak_rows(peers: list[str], rounds: int) -> list[Row]:
    name = "peak while loading one batch of 268 MB"
    taken = take_turns(
        {side: partial(run_fresh, measure_peak, loader=side) for side in ["ours", *peers]}, rounds
    )
    promise = within(_GROUP, name, "MB", taken["ours"], 1.25 * _LARGE_BYTES / _MB, floor=_FLOOR_MB)
    if not peers:
        return [promise, missing(_GROUP, name, "MB", "torch, 1 process")]
    times = statistics.median(taken["torch"]) * _MB / _LARGE_BYTES
    note = f"torch needs {times:.2f} times the batch"
    peak = compare(_GROUP, name, "MB", taken["ours"], taken["torch"], against="torch, 1 process", note=note)
    return [promise, peak]


def _worker_rows(peers: list[str], rounds: int) -> list[Row]:
    name = "one worker more, from 1 to 8"
    sides = {
        (side, workers): partial(run_fresh, measure_workers, loader=side, workers=workers)
        for side in ["ours", *peers]
        for workers in (1, 8)
    }
    taken = take_turns({f"{side} {workers}": measure for (side, workers), measure in sides.items()}, rounds)
    per_worker = {
        side: [(many - one) / 7 for one, many in zip(taken[f"{side} 1"], taken[f"{side} 8"], strict=True)]
        for side in ["ours", *peers]
    }
    promise = within(_GROUP, name, "MB", per_worker["ours"], _WORKER_LIMIT_MB, floor=_FLOOR_MB)
    if not peers:
        return [promise, missing(_GROUP, name, "MB", "torch, forked processes")]
    # A worker of ours may be too light to be told from nothing, and then there is no ratio worth a number.
    ours = [max(value, _FLOOR_MB) for value in per_worker["ours"]]
    against = "torch, forked processes"
    return [promise, compare(_GROUP, name, "MB", ours, per_worker["torch"], against=against)]
