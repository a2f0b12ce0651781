from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.image.levels import Invert, Posterize, Solarize
from nogil_loader.transforms.transform import Operation
from tests.transforms.image.agree import parameters, run
from tests.transforms.image.test_colour_kernels import pixels


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
)
@pytest.mark.parametrize("transform", [Invert(), Solarize((0, 1)), Posterize((1, 6))])
def test_every_dtype_and_number_of_channels(transform: Operation, dtype: str) -> None:
    if isinstance(transform, Posterize) and dtype.startswith("float"):
        return
    for shape in [(3, 5), (3, 5, 2), (4, 3, 3)]:
        run(transform, pixels(dtype, shape, 1), index=2, python=True)


def test_inverted_is_short_of_white() -> None:
    assert run(Invert(), np.array([[0, 1, 255]], np.uint8)).tolist() == [[255, 254, 0]]
    assert run(Invert(), np.array([[0, 65535]], np.uint16)).tolist() == [[65535, 0]]
    assert run(Invert(), np.array([[True, False]]), python=True).tolist() == [[False, True]]
    assert run(Invert(), np.array([[0.25, 1, 1.5]], np.float32)).tolist() == [[0.75, 0, -0.5]]
    assert run(Invert(), np.array([[5, -5]], np.int8), python=True).tolist() == [[122, 127]]


def test_solarized_from_the_threshold_on() -> None:
    image = np.array([[0, 127, 128, 255]], np.uint8)
    assert run(Solarize(128), image).tolist() == [[0, 127, 127, 0]]
    assert run(Solarize(0), image).tolist() == (255 - image).tolist()
    assert run(Solarize(128, p=0), image, python=True).tolist() == image.tolist()
    floats = np.array([[0.4, 0.5, np.nan, np.inf]], np.float32)
    np.testing.assert_array_equal(run(Solarize(0.5), floats), [[np.float32(0.4), 0.5, np.nan, -np.inf]])


@given(st.integers(1, 8), st.integers(0, 1000))
def test_posterized_keeps_the_highest_bits(bits: int, seed: int) -> None:
    image = pixels("uint8", (4, 5), seed)
    mask = 256 - (1 << (8 - bits))
    np.testing.assert_array_equal(run(Posterize(bits), image), image & np.uint8(mask))


def test_posterized_wide_and_negative() -> None:
    image = np.array([[2**31 - 1, -(2**31), -1, 5]], np.int32)
    assert run(Posterize(1), image, python=True).tolist() == [[2**30, -(2**31), -(2**30), 0]]
    assert run(Posterize(32), image, python=True).tolist() == image.tolist()
    image16 = np.array([[65535, 255, 256]], np.uint16)
    assert run(Posterize(8), image16, python=True).tolist() == [[65280, 0, 256]]


@pytest.mark.parametrize(
    ("transform", "name", "amounts"),
    [(Invert(), "invert", ()), (Solarize(90), "solarize", (90,)), (Posterize(3), "posterize", (3,))],
)
def test_same_as_pillow(transform: Operation, name: str, amounts: tuple[int, ...]) -> None:
    ops, picture = pytest.importorskip("PIL.ImageOps"), pytest.importorskip("PIL.Image")
    image = pixels("uint8", (20, 20, 3), 3)
    expected = np.asarray(getattr(ops, name)(picture.fromarray(image), *amounts))
    np.testing.assert_array_equal(run(transform, image), expected)


@given(st.integers(0, 2**64 - 1))
def test_amounts_are_drawn_from_their_range(index: int) -> None:
    image = np.zeros((1, 1), np.uint8)
    assert parameters(Posterize((3, 5)), image, index=index)["bits"] in (3, 4, 5)
    assert parameters(Posterize((3, 12)), image, index=index)["bits"] in range(3, 9)
    assert 10 <= parameters(Solarize((10, 20)), image, index=index)["threshold"] <= 20
    assert parameters(Solarize(10, p=0.5), image, index=index)["threshold"] in (10, np.inf)
    assert parameters(Invert(0.5), image, index=index)["inverted"] in (0, 1)


def test_all_numbers_of_bits_are_drawn_equally_often() -> None:
    image = np.zeros((1, 1), np.uint8)
    drawn = [parameters(Posterize((3, 5)), image, index=i)["bits"] for i in range(900)]
    assert all(230 < drawn.count(bits) < 370 for bits in (3, 4, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Invert(2), r"Invert.p=2: expected a number from 0 to 1"),
        (lambda: Solarize(np.inf), r"Solarize.threshold=.*: expected a finite number"),
        (lambda: Posterize(0), r"Posterize.bits=0"),
        (lambda: Posterize((5, 3)), r"Posterize.bits=\(5, 3\): expected \(fewest, most\)"),
        (lambda: Posterize((1, 2, 3)), r"expected one number or \(fewest, most\)"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_images_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"^Solarize\(threshold=.*\): .* above white, which is 1 "):
        run(Solarize(128), np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"^Posterize\(bits=.*\): images of float32 have no bits"):
        run(Posterize(4), np.zeros((2, 2), np.float32))
    with pytest.raises(TypeError, match=r"Posterize.bits"):
        Posterize(4.0)  # type: ignore[arg-type]
