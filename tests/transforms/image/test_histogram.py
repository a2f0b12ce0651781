"""Equalised and stretched images are Pillow's, bit by bit."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.image.histogram import AutoContrast, Equalize
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform
from tests.transforms.image.agree import run
from tests.transforms.image.pictures import NUMBERS, channels_first, channels_last, picture, pictures


def pillows(image: np.ndarray, name: str) -> np.ndarray:
    from PIL import Image, ImageOps

    return np.asarray(getattr(ImageOps, name)(Image.fromarray(image)))


@st.composite
def exposures(draw: Any) -> np.ndarray:
    """uint8 images whose levels are spread in different ways, some of them over one level only."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    shape = draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    planes = []
    for _ in range(draw(st.sampled_from([1, 3]))):
        middle, width = draw(st.integers(0, 255)), draw(st.sampled_from([0, 0.6, 5, 40, 300]))
        planes.append(np.clip(rng.normal(middle, width, shape), 0, 255).astype(np.uint8))
    return planes[0] if len(planes) == 1 else np.stack(planes, axis=2)


@settings(max_examples=100)
@given(exposures())
def test_equalised_images_are_pillows(image: np.ndarray) -> None:
    np.testing.assert_array_equal(run(Equalize(), image), pillows(image, "equalize"))


@settings(max_examples=100)
@given(exposures())
def test_stretched_images_are_pillows(image: np.ndarray) -> None:
    np.testing.assert_array_equal(run(AutoContrast(), image), pillows(image, "autocontrast"))


@settings(max_examples=30)
@given(exposures())
def test_the_kernel_is_the_same_in_numpy(image: np.ndarray) -> None:
    small = image[:12, :12].copy()
    for transform in (Equalize(), AutoContrast()):
        expected = run(transform, small, python=True)
        result = channels_last(run(channels_first(transform), small, python=True))
        np.testing.assert_array_equal(result.reshape(small.shape), expected)


@pytest.mark.parametrize("transform", [Equalize(), AutoContrast()])
def test_the_compiled_kernel_agrees(transform: Transform) -> None:
    image = picture(30, 41)
    for darker in range(0, 240, 40):
        run(transform, np.maximum(image, darker) - np.uint8(darker), compiled=True)


@settings(max_examples=60)
@given(pictures(dtypes=NUMBERS))
def test_stretched_channels_of_all_dtypes(image: np.ndarray) -> None:
    result = run(AutoContrast(), image, python=True)
    white = Spec.of(image).white
    values = image.astype(np.float64)
    low, high = values.min((0, 1)), values.max((0, 1))
    with np.errstate(invalid="ignore"):
        exact = np.where(low < high, (values - low) / (high - low) * white, values)
    if image.dtype.kind == "f":
        np.testing.assert_allclose(result, exact, rtol=0, atol=1e-6)
    else:
        # The fraction is cut off; what float64 makes of 32 bits is exact to a millionth.
        assert (result <= exact + 1e-6).all()
        assert (result > exact - 1 - 1e-6).all()


def test_stretched_floats_are_torchvisions() -> None:
    image = picture(9, 10, dtype=np.float32)
    torch = pytest.importorskip("torch")
    # As torchvision.transforms.functional.autocontrast does it.
    planes = torch.from_numpy(image).permute(2, 0, 1)
    least, most = planes.amin((1, 2), keepdim=True), planes.amax((1, 2), keepdim=True)
    expected = ((planes - least) * (1.0 / (most - least))).clamp(0, 1).permute(1, 2, 0).numpy()
    np.testing.assert_allclose(run(AutoContrast(), image), expected, rtol=0, atol=1e-6)


def test_close_values_of_32_bits_are_told_apart() -> None:
    image = np.array([[4294967290, 4294967291, 4294967295]], np.uint32)
    result = run(AutoContrast(), image, python=True)
    np.testing.assert_array_equal(result, [[0, 4294967295 // 5, 4294967295]])


def test_not_a_number_is_neither_dark_nor_bright() -> None:
    image = np.array([[np.nan, 2.0, 4.0], [3.0, np.nan, 2.5]], np.float32)
    result = run(AutoContrast(), image, python=True)
    np.testing.assert_array_equal(result, np.array([[np.nan, 0, 1], [0.5, np.nan, 0.25]], np.float32))
    nothing = np.full((2, 2), np.nan, np.float32)
    np.testing.assert_array_equal(run(AutoContrast(), nothing, python=True), nothing)
    image[0, 1] = np.inf
    run(AutoContrast(), image, python=True)


@pytest.mark.parametrize("dtype", ["bool", "uint16", "int8", "float32"])
def test_only_bytes_are_equalised(dtype: str) -> None:
    with pytest.raises(ValueError, match=rf"^Equalize\(\): an image of {dtype} cannot be equalised"):
        Equalize().step(Spec((4, 5), np.dtype(dtype)))


def test_bools_are_not_stretched() -> None:
    with pytest.raises(ValueError, match=r"^AutoContrast\(\): an image of bool"):
        AutoContrast().step(Spec((4, 5), np.dtype(np.bool_)))
