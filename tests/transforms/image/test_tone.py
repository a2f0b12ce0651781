from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.image.tone import Brightness, Gamma
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import parameters, run
from tests.transforms.image.test_colour_kernels import pixels


def test_integers_saturate() -> None:  # E11
    image = np.array([[250, 200, 0]], np.uint8)
    assert run(Brightness(1.16), image, python=True).tolist() == [[255, 232, 0]]
    image = np.array([[30000, -30000, 16383, -1]], np.int16)
    assert run(Brightness(2), image, python=True).tolist() == [[32767, -32768, 32766, -2]]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
@given(st.floats(0, 10, width=16), st.integers(0, 1000))
def test_equals_float64_rounded_and_clipped(dtype: str, factor: float, seed: int) -> None:  # E11
    image = pixels(dtype, (3, 4, 2), seed)
    info = np.iinfo(dtype)
    exact = image.astype(np.float64) * factor
    expected = np.clip(np.rint(exact), info.min, info.max)
    result = run(Brightness(factor), image)
    # One float32 rounding may carry a product across one half.
    near_half = np.abs(exact % 1 - 0.5) < np.abs(exact) * 2.0**-23
    np.testing.assert_array_equal(result[~near_half], expected[~near_half].astype(dtype))
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=1)


def test_floats_are_not_clipped() -> None:
    image = np.array([[0.75, -0.5, np.inf, np.nan]], np.float32)
    result = run(Brightness(2), image, python=True)
    np.testing.assert_array_equal(result, [[1.5, -1, np.inf, np.nan]])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint32", "float32", "float64"])
@pytest.mark.parametrize("transform", [Brightness(0.7), Gamma(1.7, gain=1.5), Gamma((0.5, 2), p=0.5)])
def test_every_dtype_and_number_of_channels(transform: Brightness | Gamma, dtype: str) -> None:
    for channels in (1, 2, 4):
        image = (
            pixels("uint8", (3, 5, channels), 1) % 2
            if dtype == "bool"
            else pixels(dtype, (3, 5, channels), 1)
        )
        # numpy has its own power of float64, whose last bit may be another one than the C library's.
        exact = isinstance(transform, Brightness) or image.dtype.itemsize < 4 or dtype == "float32"
        run(transform, image.astype(dtype), index=2, python=exact)


def test_gamma_of_wide_pixels_is_that_of_the_c_library_to_one_ulp() -> None:
    image = np.random.default_rng(0).random((8, 9, 3)) + 1e-3
    step = Gamma(2.2).step(Spec.of(image))
    assert step.function is not None
    assert step.reference is not None
    rows = image.transpose(0, 2, 1).copy()
    for y, row in enumerate(rows):
        step.function(row, y, np.array(step.numbers), np.array([2.2, 1.0]), None)
    expected = step.reference(image, np.array(step.numbers), np.array([2.2, 1.0]), None)
    np.testing.assert_array_max_ulp(rows.transpose(0, 2, 1), expected, maxulp=1)
    np.testing.assert_allclose(expected, image**2.2, rtol=1e-15)


@given(st.floats(0.05, 8), st.floats(0, 2), st.integers(0, 1000))
def test_gamma_is_the_power_on_the_scale_of_white(gamma: float, gain: float, seed: int) -> None:
    image = pixels("uint8", (4, 5), seed)
    exact = gain * (image / 255) ** gamma * 255
    assert np.abs(run(Gamma(gamma, gain), image) - exact.clip(0, 255)).max() < 0.5 + 2e-7 * 255 * max(gain, 1)


def test_gamma_of_negative_values_is_0_and_nan_stays() -> None:
    image = np.array([[-0.5, 0, 0.25, 1, np.nan, np.inf]], np.float32)
    result = run(Gamma(0.5), image, python=True)
    np.testing.assert_allclose(result, [[0, 0, 0.5, 1, np.nan, np.inf]], rtol=1e-6)


def test_brightness_is_that_of_pillow() -> None:
    enhance, picture = pytest.importorskip("PIL.ImageEnhance"), pytest.importorskip("PIL.Image")
    image = pixels("uint8", (20, 20, 3), 3)
    for factor in (0.0, 0.3, 1.0, 1.7):
        expected = np.asarray(enhance.Brightness(picture.fromarray(image)).enhance(factor))
        assert np.abs(run(Brightness(factor), image).astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    "transform", [Brightness(1.0), Gamma(1.0), Brightness(0.5, p=0), Gamma(2, gain=3, p=0)]
)
def test_neutral_amounts_change_no_bit(transform: Brightness | Gamma) -> None:
    image = pixels("float32", (4, 5, 3), 5)
    np.testing.assert_array_equal(run(transform, image, python=True), image)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_amounts_are_drawn_from_their_range(index: int, seed: int) -> None:
    image = np.zeros((1, 1), np.uint8)
    drawn = parameters(Brightness((0.5, 0.7)), image, seed=seed, index=index)
    assert 0.5 <= drawn["factor"] <= 0.7
    drawn = parameters(Gamma((0.5, 0.7), gain=2, p=0.5), image, seed=seed, index=index)
    assert drawn == {"gamma": 1.0, "gain": 1.0} or (0.5 <= drawn["gamma"] <= 0.7 and drawn["gain"] == 2)


def test_the_share_of_samples_is_the_probability() -> None:
    image = np.zeros((1, 1), np.uint8)
    drawn = [parameters(Brightness(0.5, p=0.25), image, index=i)["factor"] for i in range(1000)]
    assert set(drawn) == {0.5, 1.0}
    assert 200 < drawn.count(0.5) < 300


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Brightness(-0.1), r"Brightness.factor=-0.1: expected a finite number ≥ 0"),
        (lambda: Brightness((1.2, 0.8)), r"low ≤ high"),
        (lambda: Brightness(np.nan), r"expected a finite number"),
        (lambda: Brightness(1, p=1.5), r"Brightness.p=1.5: expected a number from 0 to 1"),
        (lambda: Gamma(0), r"Gamma.gamma=0: expected positive numbers"),
        (lambda: Gamma((0.0, 2)), r"expected positive numbers"),
        (lambda: Gamma(1, gain=-1), r"Gamma.gain=-1"),
    ],
)
def test_wrong_arguments(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()
