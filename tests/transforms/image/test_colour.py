from __future__ import annotations

import colorsys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.image.colour import Hue, Saturation
from nogil_loader.transforms.transform import Operation
from tests.transforms.image.agree import parameters, run
from tests.transforms.image.test_colour_kernels import pixels


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
)
@pytest.mark.parametrize("transform", [Saturation((0, 3)), Hue((-0.5, 0.5)), Hue(-0.5), Hue(0.2, p=0.5)])
def test_every_dtype_agrees_with_numpy(transform: Operation, dtype: str) -> None:
    for seed in range(3):
        run(transform, pixels(dtype, (5, 6, 3), seed), index=seed, python=True)


def turned(pixel: list[float], turns: float) -> list[float]:
    hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
    return list(colorsys.hsv_to_rgb((hue + turns) % 1.0, saturation, value))


@given(st.floats(-0.5, 0.5), st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3))
def test_hue_is_turned_in_hsv(turns: float, pixel: list[float]) -> None:
    result = run(Hue(turns), np.array([[pixel]], np.float32))
    np.testing.assert_allclose(result[0, 0], turned(pixel, turns), atol=2e-6)


@given(st.floats(-0.5, 0.5), st.lists(st.integers(0, 255), min_size=3, max_size=3))
def test_hue_of_integers_is_rounded(turns: float, pixel: list[int]) -> None:
    result = run(Hue(turns), np.array([[pixel]], np.uint8))
    exact = 255 * np.array(turned([each / 255 for each in pixel], turns))
    assert np.abs(result[0, 0] - exact).max() < 0.5 + 1e-3


def test_hue_in_thirds_of_the_circle() -> None:
    image = np.array([[[200, 100, 10], [7, 7, 7], [0, 0, 0], [0, 255, 255]]], np.uint8)
    green = run(Hue(1 / 3), image, python=True)
    assert green.tolist() == [[[10, 200, 100], [7, 7, 7], [0, 0, 0], [255, 0, 255]]]
    assert run(Hue(-1 / 3), green).tolist() == image.tolist()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_reaches_the_whole_pixel(odd: float) -> None:
    image = np.full((3, 3, 3), 0.5, np.float32)
    for channel in range(3):
        image[channel, channel, channel] = odd
    for values in (
        image,
        np.where(np.isfinite(image), np.float32(0.1) * np.arange(3, dtype=np.float32), image),
    ):
        result = run(Hue(0.25), values.astype(np.float32), python=True)
        reached = np.isnan(result) if np.isnan(odd) else ~np.isfinite(result)
        np.testing.assert_array_equal(reached.all(-1), np.eye(3, dtype=bool))
        np.testing.assert_array_equal(reached.any(-1), np.eye(3, dtype=bool))


def test_saturation_is_that_of_pillow() -> None:
    enhance, picture = pytest.importorskip("PIL.ImageEnhance"), pytest.importorskip("PIL.Image")
    image = pixels("uint8", (20, 20, 3), 3)
    for factor in (0.0, 0.5, 1.0, 1.8):
        expected = np.asarray(enhance.Color(picture.fromarray(image)).enhance(factor))
        # Pillow rounds the luma, and cuts off the fraction of the mixture.
        assert np.abs(run(Saturation(factor), image).astype(int) - expected).max() <= 2


def test_saturation_saturates() -> None:  # E11
    image = np.array([[[250, 10, 10]]], np.uint8)
    assert run(Saturation(3), image, python=True).tolist() == [[[255, 0, 0]]]
    image16 = np.array([[[30000, -30000, 0]]], np.int16)
    assert run(Saturation(4), image16, python=True).tolist() == [[[32767, -32768, 25929]]]


def test_saturation_of_floats_is_not_clipped() -> None:
    image = np.array([[[1.0, 0.5, 0.0]]])
    grey = 0.2989 + 0.587 * 0.5
    np.testing.assert_allclose(run(Saturation(2), image, python=True), 2 * image - grey)
    np.testing.assert_allclose(run(Saturation(0), image, python=True), [[[grey, grey, grey]]])


@pytest.mark.parametrize("transform", [Saturation(1), Hue(0), Saturation(0, p=0), Hue(0.5, p=0)])
def test_neutral_amounts_change_no_bit(transform: Operation) -> None:
    image = pixels("float32", (4, 5, 3), 5)
    np.testing.assert_array_equal(run(transform, image, python=True), image)


@given(st.integers(0, 2**64 - 1))
def test_amounts_are_drawn_from_their_range(index: int) -> None:
    image = np.zeros((1, 1, 3), np.uint8)
    assert -0.1 <= parameters(Hue((-0.1, 0.2)), image, index=index)["turns"] <= 0.2
    assert 0.7 <= parameters(Saturation((0.7, 1.1)), image, index=index)["factor"] <= 1.1
    assert parameters(Hue(0.3, p=0.5), image, index=index)["turns"] in (0, 0.3)


@pytest.mark.parametrize("transform", [Saturation(2), Hue(0.1)])
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 1), (4, 4, 4)])
def test_three_channels_are_needed(transform: Operation, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=rf"^{type(transform).__name__}\(.*: expected an image of 3 channels"
    ):
        run(transform, np.zeros(shape, np.uint8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Saturation(-1), r"Saturation.factor=-1: expected a finite number ≥ 0"),
        (lambda: Hue(0.6), r"Hue.turns=0.6: expected a number from -0.5 to 0.5"),
        (lambda: Hue((-1, 0)), r"Hue.turns"),
        (lambda: Hue(0.1, p=-1), r"Hue.p=-1: expected a number from 0 to 1"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
