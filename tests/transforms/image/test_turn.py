"""Turned images are numpy's and Pillow's."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.crop import Crop
from nogil_loader.transforms.image.flip import HorizontalFlip
from nogil_loader.transforms.image.turn import Rotate90, Transpose
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures


@settings(max_examples=40)
@given(pictures(), st.integers(0, 3))
def test_turns_are_numpys(image: np.ndarray, times: int) -> None:
    np.testing.assert_array_equal(run(Rotate90(times), image, python=True), np.rot90(image, times))


@settings(max_examples=40)
@given(pictures(square=True), st.integers(0, 1000))
def test_random_turns_are_numpys(image: np.ndarray, index: int) -> None:
    times = int(parameters(Rotate90(), image, index=index)["times"])
    np.testing.assert_array_equal(run(Rotate90(), image, index=index, python=True), np.rot90(image, times))


def test_turns_are_pillows() -> None:
    from PIL import Image

    image = picture(5, 7)
    turns = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
    for times, method in enumerate(turns, 1):
        expected = np.asarray(Image.fromarray(image).transpose(method))
        np.testing.assert_array_equal(run(Rotate90(times), image), expected)


@settings(max_examples=40)
@given(pictures())
def test_transposed_images_are_numpys(image: np.ndarray) -> None:
    np.testing.assert_array_equal(run(Transpose(), image, python=True), np.swapaxes(image, 0, 1))


def test_turns_add_up_within_a_pass() -> None:
    image = picture(5, 7)
    chain = Compose([Rotate90(1), Crop(1, 0, 6, 4), Transpose(), HorizontalFlip(1.0), Rotate90(3)])
    expected = np.rot90(np.swapaxes(np.rot90(image)[1:7, :4], 0, 1)[:, ::-1], 3)
    np.testing.assert_array_equal(run(chain, image, python=True), expected)
    np.testing.assert_array_equal(channels_last(run(channels_first(chain), image, python=True)), expected)


def test_a_compiled_turn_agrees() -> None:
    for index in range(6):
        run(Compose([Rotate90(), Transpose()]), picture(6, 6), index=index, compiled=True)


def test_all_angles_are_equally_likely() -> None:
    image = picture(2, 2)
    times = [each["times"] for each in drawn(Rotate90(), image, range(4000))]
    values, counts = np.unique(times, return_counts=True)
    assert values.tolist() == [0, 1, 2, 3]
    assert abs(counts - 1000).max() < 5 * 27.4  # the standard deviation of a count


@pytest.mark.parametrize(
    ("times", "error"), [(4, ValueError), (-1, ValueError), (0.5, TypeError), (True, TypeError)]
)
def test_wrong_angles(times: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"Rotate90.times={times}: expected an integer from 0 to 3"):
        Rotate90(times)


def test_random_angles_need_a_square() -> None:
    with pytest.raises(ValueError, match=r"^Rotate90.*: an image of 4 x 5 pixels"):
        Rotate90().step(Spec((4, 5), np.dtype(np.uint8)))
