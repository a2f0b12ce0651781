"""The kernel's source, run as plain Python: the same text must give what numpy gives, without any compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.kernels.philox import epoch_key
from nogil_loader.transforms.codegen import KERNEL, Writer
from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.image.crop import RandomCrop
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.reference import run_reference
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.user import kernel, pixelwise, uniform
from nogil_loader.transforms.workspace import Workspace


@pixelwise
def halve(value: float) -> float:
    return value / 2


@pixelwise
def swap(red: float, green: float, blue: float) -> tuple[float, float, float]:
    return blue, green, red


@kernel
def speckle(image: Any, out: Any, rng: Any) -> None:
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for c in range(image.shape[2]):
                out[y, x, c] = 255 if uniform(rng) < 0.2 else image[y, x, c]


NORMALIZE = Normalize([0.4, 0.5, 0.6], 0.25)
FLIP, TURN = HorizontalFlip(1.0), VerticalFlip(1.0)


@pytest.mark.parametrize(
    "chain",
    [
        Compose([]),
        Compose([RandomCrop(4), HorizontalFlip(), NORMALIZE, ToCHW()]),
        Compose([NORMALIZE, ToCHW(), RandomCrop(3), ToHWC()]),
        Compose([halve, swap, RandomCrop(5)]),
        Compose([speckle, FLIP, speckle]),
        Compose([RandomApply([FLIP, speckle]), OneOf([TURN, [FLIP, RandomApply(halve)]])]),
        Compose([RandomCrop(5), OneOf([halve, swap]), NORMALIZE]),
        Compose(
            [
                RandomCrop(5),
                RandomApply(FLIP),
                RandomApply(speckle),
                RandomCrop(3),
                RandomApply(TURN),
                ToCHW(),
            ]
        ),
    ],
    ids=str,
)
def test_e10_the_source_as_plain_python_is_bitwise_the_reference(chain: Compose) -> None:
    images = np.random.default_rng(1).integers(0, 256, (3, 6, 7, 3), dtype=np.uint8)
    fit = Fit.of(chain, Spec(images.shape[1:], images.dtype))
    writer = Writer(fit.nodes, fit.parts, fit.offsets, "a test", first_position=5)
    module: dict[str, Any] = dict(writer.names)
    exec(writer.text, module)
    key, words = epoch_key(3, 1), np.array([7, 2**63, 9], np.uint64)
    out = np.zeros((3, *fit.target.shape), fit.target.dtype)
    indices = np.array([2, 0, 1])
    module[KERNEL](images, indices, words, key, fit.numbers, fit.sizes, *Workspace().arrays(fit), out)
    for at, index in enumerate(indices):
        expected = run_reference(fit, images[index], epoch_key=key, word=int(words[at]), first_position=5)
        np.testing.assert_array_equal(out[at], expected)
