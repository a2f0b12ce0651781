"""Colours: jitter of brightness, contrast, saturation and hue, and four operations more, one thread.

The images are like photographs, uint8, 224 by 224 pixels. The first chain is ColorJitter(0.4, 0.4, 0.4, 0.1),
whose four steps come in a random order, and then, for every image, four operations of those that RandAugment
draws from: a saturation of 0.5 to 1.5, 4 bits per channel, solarisation from 128 on, and equalisation. The second
chain has RandAugment itself instead, 4 operations of magnitude 9, of which some move pixels.

All sides run in one process with one thread each and take turns. Ours is the whole loader without workers,
batches included; the others make one sample after the other. torchvision is given images with their channels
first, with which it is faster. Before anything is timed, the operations are compared with torchvision's, each
with fixed parameters; albumentations turns hues in 8-bit HSV and equalises by another rule, so that its colours
differ from both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.augment.photographs import by_our_loader, check, make_photographs, one_by_one, time_samples
from benchmarks.augment.torchvision_v2 import load_v2
from benchmarks.harness import Row, compare, installed, missing

_GROUP = "augment_colour"
_UNIT = "µs/sample"
_SIDE = 224
_COUNT = 256
_JITTER: dict[str, Any] = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
_SATURATION = (0.5, 1.5)
_BITS, _THRESHOLD = 4, 128
_OPERATIONS, _MAGNITUDE = 4, 9
_FOUR = "ColorJitter, saturation, posterize, solarize, equalize"
_RANDOM = f"ColorJitter, RandAugment({_OPERATIONS}, {_MAGNITUDE})"
_V2, _ALBUMENTATIONS = "torchvision v2", "albumentations"

Images = NDArray[np.uint8]
Side = Callable[[], int]
# The rows: which chain, against whom, and the promise.
_ROWS: list[tuple[str, str, float | None]] = [
    (_FOUR, _V2, 3.0),
    (_FOUR, _ALBUMENTATIONS, None),
    (_RANDOM, _V2, None),
]


def run(quick: bool) -> list[Row]:
    rounds = 1 if quick else 11
    images = make_photographs(_COUNT, _SIDE, _SIDE)
    sides: dict[str, Side] = {
        name: by_our_loader(images, chain) for name, chain in ((_FOUR, _our_four()), (_RANDOM, _our_random()))
    }
    if installed("torchvision"):
        _check_agreement(images[0])
        sides |= _with_torchvision(images)
    if installed("albumentations"):
        sides |= _with_albumentations(images)
    taken = time_samples(sides, rounds, warm_ups=1)
    return [
        compare(_GROUP, name, _UNIT, taken[name], taken[name + peer], against=peer, target=target)
        if name + peer in taken
        else missing(_GROUP, name, _UNIT, peer, target)
        for name, peer, target in _ROWS
    ]


def _our_four() -> Any:
    from nogil_loader import transforms as T  # noqa: N812 - as everyone calls it

    return T.Compose(
        [
            T.ColorJitter(**_JITTER),
            T.Saturation(_SATURATION),
            T.Posterize(_BITS),
            T.Solarize(_THRESHOLD),
            T.Equalize(),
        ]
    )


def _our_random() -> Any:
    from nogil_loader import transforms as T  # noqa: N812 - as everyone calls it

    return T.Compose([T.ColorJitter(**_JITTER), T.RandAugment(_OPERATIONS, _MAGNITUDE)])


def _with_torchvision(images: Images) -> dict[str, Side]:
    import torch

    torch.set_num_threads(1)
    v2 = load_v2()
    four = v2.Compose(
        [
            v2.ColorJitter(**_JITTER),
            v2.ColorJitter(saturation=_SATURATION),
            v2.RandomPosterize(_BITS, p=1),
            v2.RandomSolarize(_THRESHOLD, p=1),
            v2.RandomEqualize(p=1),
        ]
    )
    random = v2.Compose([v2.ColorJitter(**_JITTER), v2.RandAugment(_OPERATIONS, _MAGNITUDE)])
    tensors = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return {
        _FOUR + _V2: one_by_one(lambda index: four(tensors[index]), _COUNT),
        _RANDOM + _V2: one_by_one(lambda index: random(tensors[index]), _COUNT),
    }


def _with_albumentations(images: Images) -> dict[str, Side]:
    import albumentations as A  # noqa: N812 - as everyone calls it
    import cv2

    cv2.setNumThreads(1)

    def jitter(amounts: dict[str, float]) -> Any:
        # Like torchvision's, except that a number is no shorthand for a range of 1 ± the number, and that there
        # are defaults.
        factors = ("brightness", "contrast", "saturation")
        ranges = {name: (1 - amounts.get(name, 0.0), 1 + amounts.get(name, 0.0)) for name in factors}
        hue = amounts.get("hue", 0.0)
        return A.ColorJitter(**ranges, hue=(-hue, hue), p=1)

    four = A.Compose(
        [
            jitter(_JITTER),
            jitter({"saturation": _SATURATION[1] - 1}),
            A.Posterize(num_bits=_BITS, p=1),
            A.Solarize(threshold_range=(_THRESHOLD / 255, _THRESHOLD / 255), p=1),
            A.Equalize(p=1),
        ]
    )
    return {_FOUR + _ALBUMENTATIONS: one_by_one(lambda index: four(image=images[index]), _COUNT)}


def _check_agreement(image: Images) -> None:
    """Compare operations with torchvision's, each with fixed parameters."""
    import torch

    from nogil_loader import transforms as T  # noqa: N812 - as everyone calls it

    v2 = load_v2()
    # ours, theirs, and by how many levels they may differ: rounding, at each of several steps for the hue
    pairs: list[tuple[Any, Any, float]] = [
        (T.ColorJitter(brightness=(1.3, 1.3)), v2.ColorJitter(brightness=(1.3, 1.3)), 1.0),
        (T.ColorJitter(contrast=(0.7, 0.7)), v2.ColorJitter(contrast=(0.7, 0.7)), 1.0),
        (T.ColorJitter(saturation=(0.5, 0.5)), v2.ColorJitter(saturation=(0.5, 0.5)), 1.0),
        (T.ColorJitter(hue=(0.08, 0.08)), v2.ColorJitter(hue=(0.08, 0.08)), 2.0),
        (T.Posterize(_BITS), v2.RandomPosterize(_BITS, p=1), 0.0),
        (T.Solarize(_THRESHOLD), v2.RandomSolarize(_THRESHOLD, p=1), 0.0),
        (T.Equalize(), v2.RandomEqualize(p=1), 1.0),
    ]
    tensor = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
    for ours, theirs, levels in pairs:
        sample = T.Compose([ours]).apply(image, seed=0, epoch=0, index=0)
        check(f"{ours} and torchvision", sample, np.asarray(theirs(tensor)).transpose(1, 2, 0), levels=levels)
