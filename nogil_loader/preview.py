"""Draws what a transform makes of image files: ``nogil-loader preview``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nogil_loader.data.dead_leaves import paint_dead_leaves
from nogil_loader.targets import Target, TargetError, resolve, run_users_code
from nogil_loader.transforms.preview import draw_preview, require_pillow
from nogil_loader.transforms.preview.file import as_png_path
from nogil_loader.transforms.preview.samples import MOST_SAMPLES, Sample, fits_whole
from nogil_loader.transforms.transform import Transform

# So many files of a folder, or rows of an array, give an idea of all of them.
_FEW = 4
# What is taken for an image in a folder; a file that is named itself may be anything that Pillow reads.
_IMAGES = (
    *(".npy", ".jpg", ".jpeg", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff", ".jp2"),
    *(".ppm", ".pgm"),
)
# Of the picture that is shown when there are no images, height and width: as common photographs are.
_PAINTED = (375, 500)
# Pillow's modes for 8 bits, 16, 32, and floats.
_ONE_CHANNEL = ("L", "I;16", "I", "F")


@dataclass(frozen=True)
class Preview:
    """What to draw.

    Attributes:
        target: A transform, or a function that returns one.
        images: Files and folders; none for a picture that is painted.
        out: Where the sheet is written, a name that ends in ``.png``.
        seed: As of `Transform.preview`.
        epoch: The same.
        count: The same.
    """

    target: Target
    images: Sequence[Path]
    out: Path
    seed: int = 0
    epoch: int = 0
    count: int = 5


def run_preview(preview: Preview, output: TextIO) -> int:
    """Draw a sheet, and return the exit code.

    Raises:
        TargetError: There is no such transform, it does not fit the images, or the sheet cannot be written.
    """
    try:
        require_pillow()
        as_png_path(preview.out)
    except (ImportError, OSError, ValueError) as failure:
        raise TargetError(str(failure)) from failure
    transform, *others = resolve(preview.target, (Transform,), "a transform of nogil_loader.transforms")
    if others:
        raise TargetError(f"{preview.target} is a list of {1 + len(others)} transforms; name one of them")
    try:
        samples = list(_read(transform, preview.images))
    except (OSError, ValueError) as failure:
        raise TargetError(str(failure)) from failure
    if len(samples) > MOST_SAMPLES:
        raise TargetError(f"{len(samples)} images: a sheet has room for {MOST_SAMPLES}")
    draw = partial(
        draw_preview,
        transform,
        samples,
        seed=preview.seed,
        epoch=preview.epoch,
        count=preview.count,
        path=preview.out,
    )
    image = run_users_code(draw, str(preview.target))
    print(f"{preview.out}: {image.width} x {image.height} pixels, samples: {len(samples)}", file=output)
    return 0


def _read(transform: Transform, paths: Sequence[Path]) -> Iterator[Sample]:
    if not paths:
        yield Sample(0, paint_dead_leaves(*_PAINTED, seed=0), "painted")
    number = 0
    for path in paths:
        for file in _choose_files(path) if path.is_dir() else [path]:
            if file.suffix.lower() == ".npy":
                yield from _read_array(transform, file, number)
            else:
                yield Sample(number, _read_image(transform, file), file.name)
            number += 1


def _choose_files(folder: Path) -> list[Path]:
    """Return some image files of a folder and the folders in it, from the first to the last by name."""
    files = sorted(
        Path(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if os.path.splitext(name)[1].lower() in _IMAGES
    )
    if not files:
        raise ValueError(f"{folder}: no images in this folder, that is {', '.join(_IMAGES)}")
    return [files[at] for at in _spread(len(files))]


def _read_array(transform: Transform, file: Path, number: int) -> Iterator[Sample]:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as failure:
        raise ValueError(f"{file}: {failure}") from failure
    if fits_whole(transform, array):
        yield Sample(number, array, file.name)
        return
    for row in _spread(len(array)):
        yield Sample(row, array[row], f"{file.name}[{row}]")


def _read_image(transform: Transform, file: Path) -> Any:
    """Return the pixels of an image, those of one channel as such if the transform takes them."""
    from PIL import Image

    with Image.open(file) as image:
        one = image.convert("L") if image.mode in ("1", "LA") else image
        if one.mode in _ONE_CHANNEL and fits_whole(transform, pixels := np.asarray(one)):
            return pixels
        return np.asarray(image.convert("RGB"))


def _spread(count: int) -> list[int]:
    """Return some positions of ``count``, evenly spread from the first to the last."""
    few = min(count, _FEW)
    return [at * (count - 1) // max(1, few - 1) for at in range(few)]
