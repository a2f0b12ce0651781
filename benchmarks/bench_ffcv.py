"""FFCV: images flipped, normalised and put channels first, from its file of raw pixels and from an array.

FFCV needs OpenCV's and libturbojpeg's headers and a compiler, so it is no peer that `./dev bench` installs; where
it is not, this group says so. To measure it, give it an environment of its own:
`apt-get install pkg-config g++ libopencv-dev libturbojpeg0-dev`, `pip install -e . torch ffcv pillow`, and there
`python -m benchmarks ffcv`.

4096 uint8 images of 128 by 128 pixels, flipped every second time, normalised, float32, in shuffled batches of 64,
two workers. FFCV reads its own format, written raw, through the page cache; ours is an array in memory. Its
normalisation leaves channels last in memory, whatever the shape says; models that want them first need the copy
that `ToTorchImage(channels_last=False)` makes. The time runs from an epoch's first batch to its last; the time to
the first batch from the constructor of the loader on, in a process that has imported everything, and after
another process has filled what caches there are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.augment import peers
from benchmarks.augment.work import BATCH, IMAGES, MEAN, SIDE, STD, Examination, make_images
from benchmarks.harness import Row, compare, installed, missing, run_fresh, take_turns

_GROUP = "ffcv"
_NAME = f"flip {SIDE}², normalise, channels first"
_RATE = "samples/s"
_WORKERS = 2
_FFCV, _LAST = "FFCV, contiguous", "FFCV, channels last in memory"


class _Written:
    """What FFCV writes its file from: samples are tuples of fields."""

    def __init__(self) -> None:
        self.images = make_images()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any]:
        return (self.images[index],)


def write(path: str) -> None:
    """Write FFCV's file."""
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    writer = DatasetWriter(path, {"image": RGBImageField(write_mode="raw")}, num_workers=1)
    writer.from_indexed_dataset(_Written(), shuffle_indices=False)


def _prepare(loader: str, path: str) -> Callable[[], Iterable[Any]]:
    """Import what a loader needs and return the function that makes it."""
    if loader == "ours":
        import numba  # noqa: F401

        import nogil_loader  # noqa: F401

        images = make_images()
        return lambda: peers.ours(images, SIDE, _WORKERS)

    from ffcv.fields.rgb_image import SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    def make() -> Iterable[Any]:
        scaled = [255 * np.array(each) for each in (MEAN, STD)]
        operations = [
            SimpleRGBImageDecoder(),
            RandomHorizontalFlip(0.5),
            NormalizeImage(*scaled, np.float32),
            ToTensor(),
            ToTorchImage(channels_last=loader == _LAST, convert_back_int16=False),
        ]
        batches: Iterable[Any] = Loader(
            path,
            batch_size=BATCH,
            num_workers=_WORKERS,
            order=OrderOption.RANDOM,
            os_cache=True,
            pipelines={"image": operations},
        )
        return batches

    return make


def _images(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple) else batch


def measure(loader: str, path: str, epochs: int) -> float:
    """Return samples per second over some epochs, or with 0 epochs the seconds to the first batch."""
    make = _prepare(loader, path)
    start = time.perf_counter()
    batches = make()
    iterator = iter(batches)
    next(iterator)
    first = time.perf_counter() - start
    for _ in iterator:  # left in the middle of an epoch, FFCV's threads abort the process when it ends
        pass
    if epochs == 0:
        return first

    examination = Examination(loader, SIDE)
    for batch in batches:
        images = _images(batch)
        examination.batch(np.ascontiguousarray(images) if loader == _LAST else images)
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


def run(quick: bool) -> list[Row]:
    epochs, rounds = (1, 1) if quick else (4, 5)
    if not installed("ffcv"):
        return [
            missing(_GROUP, _NAME, _RATE, _FFCV, 2.5),
            missing(_GROUP, _NAME, _RATE, _LAST),
            missing(_GROUP, "time to first batch", "s", _FFCV, 10.0),
        ]
    loaders = ("ours", _FFCV, _LAST)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "images.beton"))
        run_fresh(write, path=path)
        for loader in loaders:
            run_fresh(measure, loader=loader, path=path, epochs=0)  # fills the caches on disk
        first = _take_turns(loaders[:2], path, 0, rounds)
        rates = _take_turns(loaders, path, epochs, rounds)
    rows = [
        compare(
            _GROUP,
            _NAME,
            _RATE,
            rates["ours"],
            rates[against],
            against=against,
            target=target,
            less_is_better=False,
        )
        for against, target in ((_FFCV, 2.5), (_LAST, None))
    ]
    start = compare(
        _GROUP, "time to first batch", "s", first["ours"], first[_FFCV], against=_FFCV, target=10.0
    )
    return [*rows, start]


def _take_turns(loaders: Sequence[str], path: str, epochs: int, rounds: int) -> dict[str, list[float]]:
    sides = {
        loader: partial(run_fresh, measure, loader=loader, path=path, epochs=epochs) for loader in loaders
    }
    return take_turns(sides, rounds)
