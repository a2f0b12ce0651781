"""Images are mirrored and turned exactly, and as often as they should be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from tests.transforms.image.agree import drawn, run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures


@settings(max_examples=40)
@given(pictures())
def test_flips_are_numpys(image: np.ndarray) -> None:
    np.testing.assert_array_equal(run(HorizontalFlip(1.0), image, python=True), image[:, ::-1])
    np.testing.assert_array_equal(run(VerticalFlip(1.0), image, python=True), image[::-1])
    np.testing.assert_array_equal(run(HorizontalFlip(0.0), image, python=True), image)
    np.testing.assert_array_equal(run(VerticalFlip(0.0), image, python=True), image)


def test_flips_are_pillows() -> None:
    from PIL import Image

    image = picture(6, 9)
    for flip, method in (
        (HorizontalFlip(1.0), Image.Transpose.FLIP_LEFT_RIGHT),
        (VerticalFlip(1.0), Image.Transpose.FLIP_TOP_BOTTOM),
    ):
        expected = np.asarray(Image.fromarray(image).transpose(method))
        np.testing.assert_array_equal(run(flip, image), expected)


def test_both_flips_in_one_pass() -> None:
    image = picture(6, 9)
    both = Compose([HorizontalFlip(1.0), VerticalFlip(1.0)])
    np.testing.assert_array_equal(run(both, image, python=True, compiled=True), image[::-1, ::-1])
    np.testing.assert_array_equal(
        channels_last(run(channels_first(both), image, python=True)), image[::-1, ::-1]
    )


@pytest.mark.parametrize("flip", [HorizontalFlip, VerticalFlip])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_flips_happen_with_their_probability(flip: Any, p: float) -> None:
    image = picture(2, 2)
    count = sum(each["flipped"] for each in drawn(flip(p), image, range(2000)))
    assert abs(count - 2000 * p) <= 5 * math.sqrt(2000 * p * (1 - p))


@pytest.mark.parametrize("flip", [HorizontalFlip, VerticalFlip])
@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_a_probability_outside_0_to_1_is_refused(flip: Any, p: float) -> None:
    with pytest.raises(ValueError, match=f"{flip.__name__}.p={p}: expected a number from 0 to 1"):
        flip(p)
