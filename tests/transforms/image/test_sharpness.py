"""Sharpened images are Pillow's, apart from its rounding."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.image.sharpness import Sharpness
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, run
from tests.transforms.image.pictures import NUMBERS, channels_first, channels_last, picture, pictures


def sharpened(image: np.ndarray, factor: float) -> np.ndarray:
    """The formula in float64."""
    values = image.astype(np.float64)
    height, width = values.shape[:2]
    if height < 3 or width < 3:
        return values
    windows = np.lib.stride_tricks.sliding_window_view(values, (3, 3), axis=(0, 1))
    middle = values[1:-1, 1:-1]
    smooth = (windows.sum((-1, -2)) + 4 * middle) / 13
    result = values.copy()
    result[1:-1, 1:-1] = smooth + factor * (middle - smooth)
    return result


@settings(max_examples=60)
@given(pictures(dtypes=NUMBERS), st.floats(0, 4), st.booleans())
def test_it_is_the_formula(image: np.ndarray, factor: float, first: bool) -> None:
    sharpness = Sharpness(factor)
    if first:
        result = channels_last(run(channels_first(sharpness), image, python=True)).reshape(image.shape)
    else:
        result = run(sharpness, image, python=True)
    exact = sharpened(image, factor)
    limits = Spec.of(image).limits()
    if limits is None:
        tolerance = 1e-5 if image.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance)
    else:
        # Rounded once; float32 is exact to some percent of a level of 16 bits.
        assert abs(result - np.clip(exact, *limits)).max() <= 0.55


@pytest.mark.parametrize(("factor", "apart"), [(0.0, 0), (0.5, 1), (1.0, 0), (1.7, 1), (2.0, 1)])
def test_it_is_pillows(factor: float, apart: int) -> None:
    from PIL import Image, ImageEnhance

    image = picture(20, 30)
    expected = np.asarray(ImageEnhance.Sharpness(Image.fromarray(image)).enhance(factor))
    result = run(Sharpness(factor), image, compiled=True)
    assert abs(result.astype(int) - expected).max() <= apart


def test_small_images_have_nothing_but_borders() -> None:
    for shape in ((1, 12), (2, 12), (12, 1), (12, 2)):
        image = picture(*shape)
        np.testing.assert_array_equal(run(Sharpness(3), image, python=True, compiled=True), image)


def test_wide_images_are_computed_in_float64() -> None:
    image = picture(9, 9, None, np.int32)
    exact = sharpened(image, 1.5)
    result = run(Sharpness(1.5), image, python=True)
    np.testing.assert_array_equal(result, np.clip(np.rint(exact), -(2**31), 2**31 - 1))


def test_infinities_and_nan_spread_to_neighbours() -> None:
    image = np.zeros((7, 7), np.float32)
    image[3, 3] = np.nan
    assert np.isnan(run(Sharpness(0.5), image, python=True)).sum() == 9
    image[3, 3] = np.inf
    run(Sharpness(2.0), image, python=True)


def test_factors_are_drawn_from_their_range() -> None:
    factors = np.array([each["factor"] for each in drawn(Sharpness((0.5, 1.5)), picture(5, 5), range(500))])
    assert 0.5 <= factors.min() < 0.52
    assert 1.48 < factors.max() < 1.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sharpness(-0.5), "Sharpness.factor=-0.5"),
        (lambda: Sharpness((2, 1)), r"Sharpness.factor=\(2, 1\)"),
        (lambda: Sharpness(1.5).step(Spec((5, 5), np.dtype(np.bool_))), "an image of bool"),
    ],
)
def test_wrong_arguments(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
