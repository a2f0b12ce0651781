"""The loaders that do the work: each a class that is iterated once per epoch and has two workers.

What a sample is made by is one of the functions of `samplewise`, by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.augment import samplewise
from benchmarks.augment.work import BATCH, MEAN, STD

Images = NDArray[np.uint8]


class Augmented:
    """A dataset whose samples are augmented, for loaders that index one."""

    def __init__(self, images: Images, function: str, crop: int) -> None:
        self.images = images
        self.crop = crop
        self._function: samplewise.Function = getattr(samplewise, function)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        if not hasattr(_own, "rng"):
            _own.rng = np.random.default_rng()
        return self._function(self.images[index], self.crop, _own.rng)


_own = threading.local()  # a generator for each worker


def ours(images: Images, crop: int, workers: int) -> Iterable[Any]:
    """Make the loader of this project."""
    import nogil_loader as nl

    return nl.DataLoader(
        nl.ArrayDataset(images),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        seed=0,
        transform=our_chain(crop, images.shape[1]),
    )


def our_chain(crop: int, side: int) -> Any:
    """Return the work as a transform of this project."""
    from nogil_loader import transforms as T  # noqa: N812 - as everyone calls it

    cropping = [T.RandomCrop(crop)] if crop != side else []
    return T.Compose([*cropping, T.HorizontalFlip(p=0.5), T.Normalize(MEAN, STD), T.ToCHW()])


def torch_processes(images: Images, crop: int, workers: int, function: str) -> Iterable[Any]:
    """Make the loader of torch, whose workers are processes that last."""
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(
        Augmented(images, function, crop),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
    )
    return loader


def grain_threads(images: Images, crop: int, workers: int, function: str) -> Iterable[Any]:
    """Make a dataset of Grain with threads, batched before they take over.

    Batching afterwards is slower, 0.75 times, and so are processes (``mp_prefetch``), 0.25 times.
    """
    import grain

    dataset = Augmented(images, function, crop)
    # Its own wrapper for random functions makes a generator per sample, which takes longer.
    read = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=2 * workers)
    loader: Iterable[Any] = (
        grain.MapDataset.source(dataset).shuffle(seed=0).batch(BATCH).to_iter_dataset(read)
    )
    return loader


class _Pipeline:
    """A pipeline of SPDL, built anew for each epoch."""

    def __init__(self, build: Callable[[Sequence[int]], Any], length: int) -> None:
        self._build = build
        self._length = length
        self._epoch = 0

    def __iter__(self) -> Iterator[Any]:
        order = np.random.default_rng(self._epoch).permutation(self._length).tolist()
        self._epoch += 1
        pipeline = self._build(order)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=60)


def spdl_samples(images: Images, crop: int, workers: int, function: str) -> Iterable[Any]:
    """Make a pipeline of SPDL as its documentation draws them: a sample per task, then batches of them."""
    from spdl.pipeline import PipelineBuilder

    dataset = Augmented(images, function, crop)

    def build(order: Sequence[int]) -> Any:
        return (
            PipelineBuilder()
            .add_source(order)
            .pipe(dataset.__getitem__, concurrency=workers, output_order="input")
            .aggregate(BATCH)
            .pipe(np.stack)
            .add_sink(3)
            .build(num_threads=workers)
        )

    return _Pipeline(build, len(images))


def spdl_batches(images: Images, crop: int, workers: int, function: str) -> Iterable[Any]:
    """Make a pipeline of SPDL that has a whole batch per task, as its guide for those who know torch says."""
    from spdl.pipeline import PipelineBuilder

    dataset = Augmented(images, function, crop)

    def load(indices: Sequence[int]) -> Any:
        return np.stack([dataset[index] for index in indices])

    def build(order: Sequence[int]) -> Any:
        return (
            PipelineBuilder()
            .add_source(order[start : start + BATCH] for start in range(0, len(order), BATCH))
            .pipe(load, concurrency=workers, output_order="input")
            .add_sink(3)
            .build(num_threads=workers)
        )

    return _Pipeline(build, len(images))
