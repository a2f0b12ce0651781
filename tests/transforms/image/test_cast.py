from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.cast import Cast, ToFloat
from nogil_loader.transforms.image.tone import Brightness
from tests.transforms.image.agree import run
from tests.transforms.image.test_colour_kernels import pixels

_DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]


def image_of(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return pixels("uint8", (4, 5, 3), 1) > 99
    image = pixels(dtype, (4, 5, 3), 1)
    if image.dtype.kind == "f":
        image[0, 0] = [1e12, -1e12, 2.5]
        image[1] *= 300
    return image


@pytest.mark.parametrize(("source", "target"), list(itertools.product(_DTYPES, _DTYPES)))
def test_every_dtype_to_every_dtype(source: str, target: str) -> None:
    image = image_of(source)
    result = run(Cast(target), image, python=True)
    assert result.dtype == target
    if result.dtype.kind == "f":
        np.testing.assert_array_equal(result, image.astype(target))
        return
    low, high = (0, 1) if target == "bool" else (np.iinfo(target).min, np.iinfo(target).max)
    exact = np.nan_to_num(np.clip(np.rint(image.astype(np.float64)), low, high), nan=0.0)
    if source == "float32" and result.dtype.itemsize == 4:
        exact = np.minimum(exact, np.nextafter(np.float32(high), np.float32(0)))
    np.testing.assert_array_equal(result, exact.astype(target))


def test_rounds_to_even_and_nan_is_0() -> None:
    image = np.array([[0.5, 1.5, 2.5, -0.5, 254.5, 255.5, 1e9, -1e9, np.nan, np.inf, -np.inf]])
    assert run(Cast("uint8"), image, python=True).tolist() == [[0, 2, 2, 0, 254, 255, 255, 0, 0, 255, 0]]
    assert run(Cast(bool), np.array([[0.5, 0.51, 255, -1, np.nan]])).tolist() == [[0, 1, 1, 0, 0]]


def test_the_largest_integers_of_32_bits() -> None:
    image = np.array([[3e9, -3e9, 5e9]], np.float32)
    assert run(Cast("int32"), image, python=True).tolist() == [[2147483520, -(2**31), 2147483520]]
    assert run(Cast("uint32"), image, python=True).tolist() == [[3000000000, 0, 4294967040]]
    wide = image.astype(np.float64)
    assert run(Cast("int32"), wide, python=True).tolist() == [[2**31 - 1, -(2**31), 2**31 - 1]]


def test_between_other_operations() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    chain = Compose([Cast("float32"), Brightness(0.3), Brightness(1 / 0.3), Cast("uint8")])
    np.testing.assert_array_equal(run(chain, image, python=True), image)
    chain = Compose([Cast("int32"), Brightness(2), Cast("uint16")])
    np.testing.assert_array_equal(run(chain, image, python=True), image.astype(int) * 2)


@pytest.mark.parametrize("dtype", ["uint8", np.uint8, np.dtype(np.uint8), ">u1", "B"])
def test_dtype_by_any_name(dtype: Any) -> None:
    assert repr(Cast(dtype)) == "Cast(dtype='uint8')"
    assert Cast(">f4") == Cast("float32")


def test_wrong_dtypes() -> None:
    for dtype in ("float16", "int64", "complex64", "U3"):
        with pytest.raises(ValueError, match=r"^Cast.dtype=.*: images of .* are not supported"):
            Cast(dtype)
    for nothing in (None, "pixels", 3.5):
        with pytest.raises(TypeError, match=r"^Cast.dtype=.*: expected a dtype"):
            Cast(nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", _DTYPES)
def test_to_float_is_on_the_scale_of_0_to_1(dtype: str) -> None:
    image = image_of(dtype)
    result = run(ToFloat(), image, python=True)
    assert result.dtype == np.float32
    white = np.iinfo(dtype).max if image.dtype.kind in "iu" else 1
    np.testing.assert_allclose(result, (image.astype(np.float64) / white).astype(np.float32), rtol=2e-7)
    if white != 1:
        assert run(ToFloat(), np.full((1, 1), white, dtype)).tolist() == [[1.0]]


def test_to_float_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    expected = torch.from_numpy(image).to(torch.float32).mul_(1.0 / 255).numpy()
    np.testing.assert_array_equal(run(ToFloat(), image), expected)
