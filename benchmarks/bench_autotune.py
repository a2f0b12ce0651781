"""Autotuning: what ``num_workers="auto"`` finds, and the best of a sweep.

Three loads that want different numbers of workers: images that a compiled chain of transforms crops, flips and
normalises without holding the GIL; a dataset in pure Python, which holds it all the time; and a dataset that
waits 10 ms for each sample, as for an answer over a network. Each is loaded with ``"auto"`` until the loader has
settled, and then by turns with that and with 1, 2, 4, 8, 16 and 32 workers, in one process. The consumer does
nothing but ask for the next batch. ``"auto"`` is compared with the fixed number that has the best median, turn by
turn, so it pays for what the tuner measures, and for the luck that the best of six has. In brackets stand the
workers that it settled on in each process, and after how long.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any, TypedDict

from benchmarks.harness import Row, compare, run_fresh, take_turns

_GROUP = "autotune"
_WORKERS = (1, 2, 4, 8, 16, 32)
_LOADS = {
    "kernels": "crop, flip and normalise, compiled",
    "python": "pure Python",
    "waiting": "waiting 10 ms per sample",
}
_TARGET = 0.9
# What of an epoch's beginning is left out, in seconds: its threads start, its first batches come together.
_START = 0.3
# An epoch never ends while it is measured.
_LENGTH = 10_000_000


class Turns(TypedDict):
    """What one process measured."""

    settled: float | None
    workers: int
    rates: dict[str, list[float]]


class PurePython:
    """Half a millisecond of Python per sample."""

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, index: int) -> float:
        total = 0
        for number in range(10_000):
            total += number * index
        return float(total % 7)


class Waiting:
    """A sample that comes after 10 ms."""

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, index: int) -> float:
        time.sleep(0.01)
        return float(index)


class Repeated:
    """Some noise images over and over, fetched batch by batch."""

    def __init__(self) -> None:
        import numpy as np

        self._images = np.random.default_rng(0).integers(0, 256, (256, 128, 128, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, index: int) -> Any:
        return self._images[index % len(self._images)]


def loader_for(load: str, workers: int | str) -> Any:
    """A loader of one of the loads."""
    import nogil_loader as nl
    from nogil_loader import transforms as T  # noqa: N812 - as every user of it writes

    if load == "python":
        return nl.DataLoader(PurePython(), 16, num_workers=workers)
    if load == "waiting":
        return nl.DataLoader(Waiting(), 8, num_workers=workers)
    chain = T.Compose(
        [T.RandomResizedCrop(112), T.HorizontalFlip(p=0.5), T.Normalize((0.5,) * 3, (0.2,) * 3), T.ToCHW()]
    )
    return nl.DataLoader(Repeated(), 32, num_workers=workers, seed=0, transform=chain)


def settle(loader: Any, patience: float) -> float | None:
    """Load until the tuner has settled; return the seconds that it took, None if it took longer."""
    began = time.perf_counter()
    with iter(loader) as batches:
        for _ in batches:
            seconds = time.perf_counter() - began
            tuning = batches.statistics().tuning
            if tuning and tuning[-1].reason.startswith("settled"):
                return seconds
            if seconds > patience:
                return None
    raise RuntimeError("the epoch ended")


def rate(loader: Any, seconds: float) -> float:
    """Return samples per second, over whole rounds of the workers."""
    workers = loader.num_workers
    with iter(loader) as batches:
        began = time.perf_counter()
        count, start = 0, None
        for _ in batches:
            now = time.perf_counter()
            count += 1
            if start is None:
                if now - began >= _START and count >= workers:
                    count, start = 0, now
            elif now - start >= seconds and count % workers == 0:
                return float(count * loader.batch_size / (now - start))
    raise RuntimeError("the epoch ended")


def measure(load: str, patience: float, turns: int, seconds: float) -> Turns:
    """Settle, and measure all settings by turns."""
    auto = loader_for(load, "auto")
    settled = settle(auto, patience)
    loaders = {"auto": auto} | {str(workers): loader_for(load, workers) for workers in _WORKERS}
    sides = {name: partial(rate, loader, seconds) for name, loader in loaders.items()}
    rates = take_turns(sides, turns)
    return Turns(settled=settled, workers=auto.num_workers, rates=rates)


def run(quick: bool) -> list[Row]:
    processes, arguments = (
        (1, {"patience": 1.0, "turns": 1, "seconds": 0.1})
        if quick
        else (2, {"patience": 45.0, "turns": 4, "seconds": 0.6})
    )
    taken: dict[str, list[Turns]] = {load: [] for load in _LOADS}
    for _ in range(processes):
        for load in _LOADS:
            taken[load].append(run_fresh(measure, load=load, **arguments))
    return [_row(load, results) for load, results in taken.items()]


def _row(load: str, results: list[Turns]) -> Row:
    rates = {
        name: [rate for result in results for rate in result["rates"][name]] for name in results[0]["rates"]
    }
    best = max(map(str, _WORKERS), key=lambda name: statistics.median(rates[name]))
    settled = ", ".join(
        f"{result['workers']} after {result['settled']:.0f} s"
        if result["settled"] is not None
        else f"{result['workers']}, not settled"
        for result in results
    )
    return compare(
        _GROUP,
        _LOADS[load],
        "samples/s",
        rates["auto"],
        rates[best],
        against=f"the best of the sweep, {best}",
        target=_TARGET,
        less_is_better=False,
        note=f"workers: {settled}",
    )
