"""Margins show what their mode says."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from nogil_loader.kernels.images.borders import BORDERS
from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.flip import VerticalFlip
from nogil_loader.transforms.image.pad import Pad
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures
from tests.transforms.image.test_crop import padded


@settings(max_examples=40)
@given(pictures(longest=6), st.tuples(*[st.integers(0, 6)] * 4), st.sampled_from(BORDERS))
def test_every_margin(image: np.ndarray, padding: tuple[int, int, int, int], mode: str) -> None:
    reach = {"constant": 9, "edge": 9, "reflect": -1, "symmetric": 0}[mode]
    assume(max(padding[1::2]) <= image.shape[0] + reach and max(padding[0::2]) <= image.shape[1] + reach)
    result = run(Pad(padding, mode, 1), image, python=True)
    np.testing.assert_array_equal(result, padded(image, padding, mode, 1))


@pytest.mark.parametrize("mode", BORDERS)
def test_a_margin_for_each_axis(mode: str) -> None:
    image = picture(5, 7)
    result = run(Pad((2, 3), mode, (9, 8, 7)), image)
    np.testing.assert_array_equal(result, padded(image, (2, 3, 2, 3), mode, (9, 8, 7)))


def test_a_fill_for_each_channel() -> None:
    image = picture(5, 7, dtype=np.float32)
    fill = (0.5, -1.0, 2.0)
    result = run(channels_first(Pad(2, fill=fill)), image, python=True)
    np.testing.assert_array_equal(channels_last(result), padded(image, (2, 2, 2, 2), "constant", fill))


def test_a_fill_between_integers_is_rounded() -> None:
    result = run(Pad(1, fill=(123.675, 116.28, 103.53)), picture(3, 3), python=True)
    np.testing.assert_array_equal(result[0, 0], [124, 116, 104])


def test_a_margin_stays_where_later_steps_move_it() -> None:
    image = picture(4, 5)
    chain = Compose([Pad((0, 2, 0, 0), fill=7), VerticalFlip(1.0), Pad((0, 0, 0, 1), fill=7)])
    expected = padded(padded(image, (0, 2, 0, 0), "constant", 7)[::-1], (0, 0, 0, 1), "constant", 7)
    np.testing.assert_array_equal(run(chain, image, python=True), expected)


@pytest.mark.parametrize(
    ("padding", "expected"),
    [(2, (2, 2, 2, 2)), ([3], (3, 3, 3, 3)), ((1, 2), (1, 2, 1, 2)), (np.array([1, 2, 3, 4]), (1, 2, 3, 4))],
)
def test_widths_mean_what_they_mean_in_torchvision(padding: Any, expected: tuple[int, ...]) -> None:
    assert Pad(padding).padding == expected
    assert Pad(padding) == Pad(expected)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Pad((1, -2)), r"Pad.padding=-2"),
        (lambda: Pad(()), r"Pad.padding=\(\)"),
        (lambda: Pad(1, "mirror"), "Pad.padding_mode='mirror': expected 'constant' or 'edge'"),
        (lambda: Pad(1, fill=()), r"Pad.fill=\(\)"),
    ],
)
def test_wrong_arguments(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("pad", "words"),
    [
        (
            Pad((0, 4, 0, 0), "reflect"),
            "an image 4 pixels high can be mirrored .'reflect'. 3 pixels far, not 4",
        ),
        (
            Pad((0, 0, 6, 0), "symmetric"),
            "an image 5 pixels wide can be mirrored .'symmetric'. 5 pixels far, not 6",
        ),
        (Pad(1, fill=-1), "fill is outside of 0 to 65535"),
        (Pad(1, fill=(1, 2, 3)), "fill has 3 values, but the image .* has 1 channel;"),
    ],
)
def test_margins_that_do_not_fit(pad: Pad, words: str) -> None:
    with pytest.raises(ValueError, match=words) as told:
        pad.step(Spec((4, 5), np.dtype(np.uint16)))
    assert str(told.value).startswith(repr(pad))


def test_an_image_without_pixels_has_no_edge() -> None:
    with pytest.raises(ValueError, match="0 pixels wide has nothing to pad with"):
        Pad(1, "edge").step(Spec((4, 0), np.dtype(np.uint8)))
