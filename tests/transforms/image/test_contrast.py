from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import parameters, run
from tests.transforms.image.test_colour_kernels import pixels


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
)
def test_every_dtype_and_layout(dtype: str) -> None:
    for shape in [(4, 5), (4, 5, 1), (4, 5, 3), (3, 3, 3)]:
        image = (pixels("uint8", shape, 1) > 99) if dtype == "bool" else pixels(dtype, shape, 1)
        result = run(Contrast((0, 3)), image, index=1, python=True)
        if len(shape) == 3:
            planes = np.ascontiguousarray(np.moveaxis(image, 2, 0))
            chain = Compose([ToHWC(), ToCHW(), Contrast((0, 3))])
            turned = run(chain, planes, index=1, python=True)
            assert turned.shape == planes.shape
        np.testing.assert_array_equal(run(Contrast(1), image, python=True), image)
        assert result.shape == shape


def test_channels_first_or_last_makes_no_difference() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    turned = run(Compose([ToHWC(), ToCHW(), Contrast(1.7)]), image.transpose(2, 0, 1).copy(), python=True)
    np.testing.assert_array_equal(turned.transpose(1, 2, 0), run(Contrast(1.7), image))


@given(st.floats(0, 3), st.integers(0, 1000))
def test_equals_float64_rounded_and_clipped(factor: float, seed: int) -> None:  # E11
    image = pixels("uint8", (4, 5, 3), seed)
    mean = (image @ [0.2989, 0.587, 0.114]).mean()
    exact = image * factor + mean * (1 - factor)
    result = run(Contrast(factor), image)
    assert np.abs(result - exact.clip(0, 255)).max() < 0.5 + 1e-3


def test_integers_saturate() -> None:  # E11
    image = np.array([[250, 250, 10, 10]], np.uint8)
    assert run(Contrast(1.5), image, python=True).tolist() == [[255, 255, 0, 0]]
    image16 = np.array([[30000, -30000]], np.int16)
    assert run(Contrast(2), image16, python=True).tolist() == [[32767, -32768]]
    image32 = np.array([[2**31 - 1, -(2**31), 0]], np.int32)
    assert run(Contrast(2), image32, python=True).tolist() == [[2**31 - 1, -(2**31), 0]]


def test_floats_are_not_clipped_and_nan_is_everywhere() -> None:
    image = np.array([[0.0, 1.0]], np.float32)
    assert run(Contrast(2), image, python=True).tolist() == [[-0.5, 1.5]]
    image[0, 0] = np.nan
    assert np.isnan(run(Contrast(2), image, python=True)).all()


def test_contrast_is_that_of_pillow() -> None:
    enhance, picture = pytest.importorskip("PIL.ImageEnhance"), pytest.importorskip("PIL.Image")
    image = pixels("uint8", (20, 20, 3), 3)
    for factor in (0.0, 0.5, 1.0, 1.8):
        expected = np.asarray(enhance.Contrast(picture.fromarray(image)).enhance(factor))
        # Pillow rounds the mean, and cuts off the fraction of the mixture.
        assert np.abs(run(Contrast(factor), image).astype(int) - expected).max() <= 2


@given(st.integers(0, 2**64 - 1))
def test_factor_is_drawn_from_its_range(index: int) -> None:
    image = np.zeros((1, 1, 3), np.uint8)
    assert 0.7 <= parameters(Contrast((0.7, 1.1)), image, index=index)["factor"] <= 1.1
    assert parameters(Contrast(0.3, p=0.5), image, index=index)["factor"] in (1, 0.3)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"^Contrast\(factor=.*\): expected an image of 1 or 3"):
        Contrast(2).step(Spec((4, 5, 4), np.dtype(np.uint8)))
    with pytest.raises(ValueError, match=r"Contrast.factor=-1: expected a finite number ≥ 0"):
        Contrast(-1)
