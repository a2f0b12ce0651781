"""Hand-off: what a batch costs beside its work.

Samples are Python integers, a batch is 64 of them, and the consumer does nothing: all that is left is what
the loader itself does between taking indices and giving out a collated batch. Every loader has two workers.
The time runs from the first batch to the last, so starting up does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns

_GROUP = "handoff"
_BATCH = 64
_WORKERS = 2
_UNIT = "µs/batch"


class Integers:
    """As little work per batch as a dataset can do."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        return [int(index) for index in indices]


def _ours(dataset: Integers, workers: int) -> Iterable[Any]:
    import nogil_loader

    return nogil_loader.DataLoader(dataset, batch_size=_BATCH, num_workers=workers)


def _torch(dataset: Integers, workers: int) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(dataset, batch_size=_BATCH, num_workers=workers)
    return loader


def _torchdata(dataset: Integers, workers: int) -> Iterable[Any]:
    from torch.utils.data import BatchSampler, SequentialSampler, default_collate
    from torchdata.nodes import Loader, ParallelMapper, SamplerWrapper

    def load(indices: list[int]) -> Any:
        return default_collate(dataset.__getitems__(indices))

    # A batch is one item of the mapper. Its documented pattern maps single samples and batches afterwards,
    # which hands every sample over by itself.
    batches = SamplerWrapper(BatchSampler(SequentialSampler(dataset), _BATCH, drop_last=False))
    loader: Iterable[Any] = Loader(ParallelMapper(batches, load, num_workers=workers, method="thread"))
    return loader


def _spdl(dataset: Integers, workers: int) -> Iterator[Any]:
    import numpy as np
    from spdl.pipeline import PipelineBuilder

    # Batches of indices as the source and one stage for fetching and collating is what its guide for those
    # who come from torch recommends. numpy, since torch's default_collate takes it 1.7 times as long; the
    # sink's default size is the fastest of 3 and 16.
    def load(indices: range) -> Any:
        return np.asarray(dataset.__getitems__(indices))

    source = (range(start, start + _BATCH) for start in range(0, len(dataset), _BATCH))
    pipeline = (
        PipelineBuilder()
        .add_source(source)
        .pipe(load, concurrency=workers, output_order="input")
        .add_sink(3)
        .build(num_threads=workers)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


def _grain(dataset: Integers, workers: int) -> Iterable[Any]:
    import grain

    # Batching before to_iter_dataset makes its threads load whole batches. Batching afterwards hands every
    # sample over by itself, which took more than 20 times as long. A read buffer of 16 batches gains nothing.
    read = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=2 * workers)
    loader: Iterable[Any] = grain.MapDataset.source(dataset).batch(_BATCH).to_iter_dataset(read)
    return loader


_LOADERS: dict[str, Callable[[Integers, int], Iterable[Any]]] = {
    "ours": _ours,
    "torch": _torch,
    "torchdata": _torchdata,
    "spdl": _spdl,
    "grain": _grain,
}
# What each row says, and the promise. There is none for torchdata's nodes, which hand over in 50 to 100 µs:
# reading and collating these 64 integers alone takes 9 µs here.
_PEERS: dict[str, tuple[str, float | None]] = {
    "torch": ("torch.utils.data.DataLoader, 2 processes", 10.0),
    "spdl": ("SPDL, 2 threads", 10.0),
    "grain": ("Grain, 2 threads", 10.0),
    "torchdata": ("torchdata.nodes, 2 threads", None),
}


def measure(loader: str, batches: int, workers: int) -> float:
    """Return µs per batch over one epoch, after a short one that warms up."""
    for length in (20, batches):
        iterator = iter(_LOADERS[loader](Integers(_BATCH * length), workers))
        next(iterator)
        start = time.perf_counter()
        rest = sum(1 for _ in iterator)
        elapsed = time.perf_counter() - start
        if rest != length - 1:
            raise RuntimeError(f"{loader} delivered {rest + 1} of {length} batches")
    return elapsed / rest * 1e6


def run(quick: bool) -> list[Row]:
    batches, rounds = (200, 1) if quick else (2000, 5)
    names = ["ours", *(peer for peer in _PEERS if installed(peer))]
    taken = take_turns(
        {name: partial(run_fresh, measure, loader=name, batches=batches, workers=_WORKERS) for name in names},
        rounds,
    )
    name = "trivial batch of 64"
    rows = [
        compare(_GROUP, name, _UNIT, taken["ours"], taken[peer], against=against, target=target)
        if peer in taken
        else missing(_GROUP, name, _UNIT, against, target)
        for peer, (against, target) in _PEERS.items()
    ]
    return [*rows, _without_workers(batches, rounds)]


def _without_workers(batches: int, rounds: int) -> Row:
    name, against = "the same without workers", "torch.utils.data.DataLoader"
    if not installed("torch"):
        return missing(_GROUP, name, _UNIT, against)
    taken = take_turns(
        {
            loader: partial(run_fresh, measure, loader=loader, batches=batches, workers=0)
            for loader in ("ours", "torch")
        },
        rounds,
    )
    return compare(_GROUP, name, _UNIT, taken["ours"], taken["torch"], against=against)
