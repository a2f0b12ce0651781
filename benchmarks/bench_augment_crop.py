"""Random resized crops: from 500 by 375 to 224 pixels, flipped, normalised and put channels first, one thread.

The images are like photographs, uint8, 512 of them; crops have 8 to 100 % of the area and sides of 3:4 to 4:3,
and every second one is flipped. All sides run in one process with one thread each, take turns and make one
sample after the other; two rows have ours within a loader without workers, which writes batches of 64 to memory
that no cache holds. cv2.resize and Pillow's resize are measured alone, from the same kind of crops, with
nothing before or after them. "numpy" goes step by step as the formula reads; "fewest passes" is the best that
we could find.

The antialiased variant weighs all pixels under an output pixel, as Pillow does, and torchvision by default.
Before anything is timed, the sides are given the whole image to resize and to flip, and must agree within one
8-bit level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.augment import samplewise
from benchmarks.augment.photographs import by_our_loader, check, make_photographs, one_by_one, time_samples
from benchmarks.augment.torchvision_v2 import load_v2
from benchmarks.augment.work import MEAN, STD
from benchmarks.harness import Row, compare, installed, missing

_GROUP = "augment_crop"
_UNIT = "µs/sample"
_HEIGHT, _WIDTH, _CROP = 375, 500, 224
_COUNT = 512
_AREAS = (0.08, 1.0)
_RATIOS = (3 / 4, 4 / 3)
# Areas and ratios that leave only the whole image.
_WHOLE: dict[str, Any] = {"scale": (1.0, 1.0), "ratio": (_WIDTH / _HEIGHT, _WIDTH / _HEIGHT)}
_OURS, _ANTIALIASED, _LOADER = "ours", "ours, antialiased", "our loader"

Images = NDArray[np.uint8]
Function = Callable[[int], Any]
# What each row sets ours against, what has to be installed for it, and the promise.
_PEERS: list[tuple[str, str, str, float | None]] = [
    (_OURS, "cv2.resize alone", "cv2", 1.0),
    (_OURS, "cv2 and numpy", "cv2", 6.0),
    (_OURS, "cv2 and numpy, fewest passes", "cv2", None),
    (_OURS, "albumentations", "albumentations", 4.0),
    (_OURS, "torchvision v2", "torchvision", None),
    (_LOADER, "cv2 and numpy", "cv2", None),
    (_LOADER, "albumentations", "albumentations", None),
    (_ANTIALIASED, "Pillow's resize alone", "PIL", 1 / 0.35),
    (_ANTIALIASED, "torchvision v2, antialiased", "torchvision", None),
]


def run(quick: bool) -> list[Row]:
    rounds = 1 if quick else 11
    images = make_photographs(_COUNT, _HEIGHT, _WIDTH)
    _check_agreement(images)
    sides = {
        _OURS: one_by_one(_by_hand(images, antialias=False), _COUNT),
        _ANTIALIASED: one_by_one(_by_hand(images, antialias=True), _COUNT),
        _LOADER: by_our_loader(images, _our_chain(antialias=False)),
    }
    sides |= {name: one_by_one(function, _COUNT) for name, function in _peers(images).items()}
    taken = time_samples(sides, rounds, warm_ups=1)

    name = f"random resized crop {_CROP} of {_WIDTH} by {_HEIGHT}, flip, normalise, channels first"
    titles = {
        _OURS: name,
        _ANTIALIASED: f"{name}, antialiased",
        _LOADER: f"{name}, and put into batches by a loader without workers",
    }
    return [
        compare(_GROUP, titles[side], _UNIT, taken[side], taken[against], against=against, target=target)
        if against in taken
        else missing(_GROUP, titles[side], _UNIT, against, target)
        for side, against, _, target in _PEERS
    ]


def _by_hand(images: Images, *, antialias: bool) -> Function:
    chain = _our_chain(antialias=antialias)
    return lambda index: chain.apply(images[index], index=index)


def _our_chain(*, antialias: bool, p: float = 0.5, **crop: Any) -> Any:
    from nogil_loader import transforms as T  # noqa: N812 - as everyone calls it

    return T.Compose(
        [
            T.RandomResizedCrop(_CROP, antialias=antialias, **crop),
            T.HorizontalFlip(p=p),
            T.Normalize(MEAN, STD),
            T.ToCHW(),
        ]
    )


def _peers(images: Images, *, p: float = 0.5, **crop: Any) -> dict[str, Function]:
    """Return the functions of all peers that are installed, by the names above.

    Args:
        images: What they work on.
        p: How likely a flip is.
        **crop: Arguments of a random resized crop, as all of these libraries call them.
    """
    functions: dict[str, Function] = {}
    boxes, flips = _draw(p, **crop)
    if installed("cv2"):
        functions |= _with_cv2(images, boxes, flips)
    if installed("PIL"):
        functions["Pillow's resize alone"] = _with_pillow(images, boxes)
    if installed("albumentations"):
        functions["albumentations"] = _with_albumentations(images, p, crop)
    if installed("torchvision"):
        functions["torchvision v2"] = _with_torchvision(images, p, crop, antialias=False)
        functions["torchvision v2, antialiased"] = _with_torchvision(images, p, crop, antialias=True)
    return functions


def _draw(
    p: float, scale: tuple[float, float] = _AREAS, ratio: tuple[float, float] = _RATIOS
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw a box ``(top, left, height, width)`` and whether to flip for each image, as all these libraries do."""
    rng = np.random.default_rng(0)
    boxes = np.empty((_COUNT, 4), np.int64)
    for box in boxes:
        while True:
            area = _HEIGHT * _WIDTH * rng.uniform(*scale)
            aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
            height, width = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
            if height <= _HEIGHT and width <= _WIDTH:
                break
        box[:] = (rng.integers(_HEIGHT - height + 1), rng.integers(_WIDTH - width + 1), height, width)
    return boxes, rng.random(_COUNT) < p


def _with_cv2(images: Images, boxes: NDArray[np.int64], flips: NDArray[np.bool_]) -> dict[str, Function]:
    import cv2

    cv2.setNumThreads(1)

    def resize(index: int) -> Any:
        top, left, height, width = boxes[index]
        part = images[index, top : top + height, left : left + width]
        return cv2.resize(part, (_CROP, _CROP), interpolation=cv2.INTER_LINEAR)

    def resize_and_flip(index: int) -> Any:
        image = resize(index)
        return image[:, ::-1] if flips[index] else image

    return {
        "cv2.resize alone": resize,
        "cv2 and numpy": lambda index: samplewise.normalise(resize_and_flip(index)),
        "cv2 and numpy, fewest passes": lambda index: samplewise.normalise_in_place(resize_and_flip(index)),
    }


def _with_pillow(images: Images, boxes: NDArray[np.int64]) -> Function:
    from PIL import Image

    pictures = [Image.fromarray(image) for image in images]

    def resize(index: int) -> Any:
        top, left, height, width = boxes[index].tolist()
        box = (left, top, left + width, top + height)
        return pictures[index].resize((_CROP, _CROP), Image.Resampling.BILINEAR, box)

    return resize


def _with_albumentations(images: Images, p: float, crop: dict[str, Any]) -> Function:
    import albumentations

    albumentations_chain = albumentations.Compose(
        [
            albumentations.RandomResizedCrop(size=(_CROP, _CROP), **crop),
            albumentations.HorizontalFlip(p=p),
            albumentations.Normalize(MEAN, STD),
        ]
    )
    # Its ToTensorV2 only turns the view round and leaves the copying to the collate function.
    return lambda index: np.ascontiguousarray(
        albumentations_chain(image=images[index])["image"].transpose(2, 0, 1)
    )


def _with_torchvision(images: Images, p: float, crop: dict[str, Any], *, antialias: bool) -> Function:
    import torch

    torch.set_num_threads(1)
    v2 = load_v2()
    chain = v2.Compose(
        [
            v2.RandomResizedCrop(_CROP, antialias=antialias, **crop),
            v2.RandomHorizontalFlip(p),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    return lambda index: chain(torch.from_numpy(images[index]).permute(2, 0, 1)).contiguous()


def _check_agreement(images: Images) -> None:
    """Let all sides resize and flip a whole image; what they make may differ by the rounding to bytes only."""
    index = 3
    peers = _peers(images, p=1.0, **_WHOLE)
    ours = {
        side: _our_chain(antialias=side == _ANTIALIASED, p=1.0, **_WHOLE).apply(
            images[index], seed=0, epoch=0, index=index
        )
        for side in (_OURS, _ANTIALIASED)
    }
    for side, against, _, _ in _PEERS:
        if against in peers and side in ours:
            sample = np.asarray(peers[against](index))
            if sample.dtype == np.uint8:  # resized only
                sample = samplewise.normalise(sample[:, ::-1])
            check(f"{side} and {against}", ours[side], sample, levels=1.0)
