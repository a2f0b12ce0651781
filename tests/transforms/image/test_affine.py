"""Affine maps: in every form the same, the maps of torchvision, wrong arguments named."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.affine import Affine, place_affine
from nogil_loader.transforms.image.flip import HorizontalFlip
from nogil_loader.transforms.image.turn import Rotate90
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, picture, pictures

MUCH: dict[str, Any] = {
    "degrees": (-180, 180),
    "translate": (0.2, 0.3),
    "scale": (0.5, 2),
    "shear": (-20, 20, -9, 9),
}


@settings(max_examples=60)
@given(
    image=pictures(),
    how=st.sampled_from(["bilinear", "nearest"]),
    index=st.integers(0, 99),
    first=st.booleans(),
    fill=st.sampled_from([0, 1]),
)
def test_every_kind_of_image(image: np.ndarray, how: str, index: int, first: bool, fill: int) -> None:
    transform = Affine(**MUCH, interpolation=how, fill=fill)
    chain = channels_first(transform) if first and image.ndim == 3 else transform
    run(chain, image, index=index, python=True)


def test_compiled_kernels_give_the_bits_of_numpy() -> None:
    # Both kinds, each in a sweep of its own.
    steps = [
        Affine(**MUCH, fill=(1, 2, 3)),
        Affine(**MUCH, interpolation="nearest", fill=9),
        HorizontalFlip(0.5),
    ]
    for index in range(6):
        run(Compose(steps), picture(33, 41, seed=index), index=index, compiled=True)


@pytest.mark.parametrize("how", ["bilinear", "nearest"])
def test_no_change_by_default(how: str) -> None:
    image = picture(7, 9)
    np.testing.assert_array_equal(run(Affine(interpolation=how), image, python=True), image)


@pytest.mark.parametrize("how", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [8, 9])
def test_right_angles_turn_clockwise_about_the_middle(how: str, size: int) -> None:
    image = picture(size, size)
    for times in range(4):
        # Off by the last bits of sine and cosine; of integers that is nothing.
        result = run(Affine(90 * times, interpolation=how), image)
        np.testing.assert_array_equal(result[1:-1, 1:-1], run(Rotate90(-times % 4), image)[1:-1, 1:-1])


def test_moves_go_to_the_right_and_down() -> None:
    image = picture(20, 30)
    for index in range(9):
        move = parameters(Affine(translate=(0.1, 0.2)), image, index=index)
        right, down = round(move["right"]), round(move["down"])
        result = run(Affine(translate=(0.1, 0.2), interpolation="nearest", fill=7), image, index=index)
        expected = np.full((20 + 8, 30 + 6, 3), 7, np.uint8)
        expected[4 + down : 24 + down, 3 + right : 33 + right] = image
        np.testing.assert_array_equal(result, expected[4:-4, 3:-3])


def torchvision_map(drawn: dict[str, float]) -> np.ndarray:
    """The map from source to output as torchvision defines it, in coordinates from the middle of the image."""
    turn, x, y = np.radians([drawn["degrees"], drawn["shear_x"], drawn["shear_y"]])
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shear_y = np.array([[1, 0], [-np.tan(y), 1]])
    shear_x = np.array([[1, -np.tan(x)], [0, 1]])
    forward: np.ndarray = drawn["scale"] * rotation @ shear_y @ shear_x
    return forward


@given(index=st.integers(0, 2**31), shape=st.tuples(st.integers(1, 50), st.integers(1, 50)))
def test_the_map_is_that_of_torchvision(index: int, shape: tuple[int, int]) -> None:
    found = parameters(Affine(**MUCH), picture(*shape, None), index=index)
    matrix = np.zeros(6)
    place_affine(np.zeros(0), np.array(list(found.values())), np.array(shape), np.array(shape), matrix)
    forward = torchvision_map(found)
    middle, move = (np.array(shape[::-1]) - 1) / 2, np.array([found["right"], found["down"]])
    for point in [(0.0, 0.0), (3.0, -1.0), (shape[1] - 1.0, shape[0] - 1.0)]:
        back = matrix.reshape(2, 3) @ [*point, 1.0]
        np.testing.assert_allclose(forward @ (back - middle) + middle + move, point, atol=1e-9)


def test_pixels_are_those_of_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    image = picture(30, 40, None, np.float64)
    for index in range(5):
        found = parameters(Affine(**MUCH), image, index=index)
        m = np.zeros(6)
        place_affine(np.zeros(0), np.array(list(found.values())), np.array([30, 40]), np.array([30, 40]), m)
        y, x = np.mgrid[:30, :40]
        places = [m[3] * x + m[4] * y + m[5], m[0] * x + m[1] * y + m[2]]
        expected = ndimage.map_coordinates(image, places, order=1, mode="grid-constant", cval=5.0)
        result = run(Affine(**MUCH, fill=5.0), image, index=index)
        np.testing.assert_allclose(result, expected, atol=1e-9)


def test_parameters_fill_their_ranges() -> None:
    image = picture(10, 20, None)
    rows = drawn(Affine(**MUCH), image, range(1500))
    ranges = {"degrees": (-180, 180), "right": (-4, 4), "down": (-3, 3), "scale": (0.5, 2)}
    ranges |= {"shear_x": (-20, 20), "shear_y": (-9, 9)}
    for name, (low, high) in ranges.items():
        values = np.array([row[name] for row in rows])
        assert low <= values.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values.max() <= high
        assert abs(values.mean() - (low + high) / 2) < 0.05 * (high - low)


def test_one_number_is_that_very_value() -> None:
    transform = Affine(30, scale=1.5, shear=5)
    found = parameters(transform, picture(5, 5))
    assert (found["degrees"], found["scale"], found["shear_x"], found["shear_y"]) == (30.0, 1.5, 5.0, 0.0)
    assert (found["right"], found["down"]) == (0.0, 0.0)
    assert Affine(translate=0.25) == Affine(translate=(0.25, 0.25))
    assert Affine((-5, 5), shear=(-3, 3)) == Affine([-5, 5], shear=(-3, 3, 0, 0))  # type: ignore[arg-type]


def test_a_fill_between_integers_is_rounded() -> None:
    result = run(Affine(translate=1.0, fill=123.675), picture(3, 3), index=1, python=True)
    assert (result == 124).any()
    assert 123 not in result[[0, -1]][:, [0, -1]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Affine("30"), TypeError, "Affine.degrees='30'"),  # type: ignore[arg-type]
        (lambda: Affine((30, -30)), ValueError, r"Affine.degrees=\(30, -30\): expected \(low, high\)"),
        (lambda: Affine(translate=1.5), ValueError, "Affine.translate=1.5: expected a number from 0 to 1"),
        (lambda: Affine(translate=(0.1, 0.1, 0.1)), ValueError, "Affine.translate"),  # type: ignore[arg-type]
        (lambda: Affine(scale=0), ValueError, "Affine.scale=0: expected positive numbers"),
        (lambda: Affine(shear=(1, 2, 3)), ValueError, "Affine.shear"),
        (lambda: Affine(shear=90), ValueError, "Affine.shear=90"),
        (lambda: Affine(interpolation="area"), ValueError, "Affine.interpolation='area'"),
        (lambda: Affine(fill=float("nan")), ValueError, "Affine.fill=nan"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("fill", "words"), [((1, 2), "fill has 2 values"), (256, "fill is outside of 0 to 255")]
)
def test_a_fill_that_does_not_fit_is_refused(fill: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(Affine(fill=fill), picture(4, 4))
