"""Crops show the part that they say, wherever it lies."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from nogil_loader.kernels.images.borders import BORDERS
from nogil_loader.transforms.image.crop import CenterCrop, Crop, RandomCrop
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures


def padded(image: np.ndarray, padding: tuple[int, int, int, int], mode: str, fill: Any = 0) -> np.ndarray:
    """Each channel with a margin of its own (left, top, right, bottom)."""
    left, top, right, bottom = padding
    values = image if image.ndim == 3 else image[..., None]
    fills = np.broadcast_to(fill, values.shape[2])
    planes = []
    for c, value in enumerate(fills):
        margins = ((top, bottom), (left, right))
        options: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
        planes.append(np.pad(values[..., c], margins, mode, **options))  # type: ignore[call-overload]
    return np.stack(planes, axis=2).reshape(*planes[0].shape, *image.shape[2:])


@settings(max_examples=40)
@given(
    pictures(longest=7),
    st.tuples(*[st.integers(0, 4)] * 4),
    st.sampled_from(BORDERS),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(0, 1000),
)
def test_random_crop_is_a_part_of_the_padded_image(
    image: np.ndarray, padding: tuple[int, int, int, int], mode: str, size: tuple[int, int], index: int
) -> None:
    left, top, right, bottom = padding
    height, width = image.shape[:2]
    reach = {"constant": 9, "edge": 9, "reflect": -1, "symmetric": 0}[mode]
    assume(max(top, bottom) <= height + reach and max(left, right) <= width + reach)
    assume(size[0] <= top + height + bottom and size[1] <= left + width + right)
    crop = RandomCrop(size, padding, mode, fill=1)
    place = parameters(crop, image, index=index)
    y, x = int(place["top"]) + top, int(place["left"]) + left
    expected = padded(image, padding, mode, 1)[y : y + size[0], x : x + size[1]]
    assert expected.shape[:2] == size
    np.testing.assert_array_equal(run(crop, image, index=index, python=True), expected)


def test_random_crop_draws_every_place_equally_often() -> None:
    image = picture(6, 7)
    pairs = [(each["top"], each["left"]) for each in drawn(RandomCrop((4, 6), padding=1), image, range(2000))]
    places, counts = np.unique(pairs, axis=0, return_counts=True)
    assert [tuple(each) for each in places] == [(y, x) for y in range(-1, 4) for x in range(-1, 3)]
    # 20 places, 100 of each expected; the standard deviation is 9.7.
    assert counts.min() > 50
    assert counts.max() < 150


def test_random_crop_without_padding_stays_inside() -> None:
    image = picture(10, 9)
    for place in drawn(RandomCrop((4, 9)), image, range(50)):
        assert 0 <= place["top"] <= 6
        assert place["left"] == 0


@pytest.mark.parametrize("mode", BORDERS)
def test_compiled_crops_agree(mode: str) -> None:
    image = picture(13, 11)
    for index in range(3):
        run(RandomCrop((14, 9), (2, 3, 1, 4), mode, fill=(3, 4, 5)), image, index=index, compiled=True)


def test_fixed_crops() -> None:
    image = picture(13, 11)
    result = run(Crop(2, 3, 8, 5), image, python=True, compiled=True)
    np.testing.assert_array_equal(result, image[2:10, 3:8])
    np.testing.assert_array_equal(run(Crop(0, 0, 13, 11), image, python=True), image)
    result = run(channels_first(Crop(2, 3, 8, 5)), image, python=True)
    np.testing.assert_array_equal(channels_last(result), image[2:10, 3:8])


@pytest.mark.parametrize(
    ("length", "size", "start"),
    # round((length - size) / 2) to even, as torchvision.transforms.v2.CenterCrop does
    [(6, 2, 2), (5, 2, 2), (7, 2, 2), (7, 4, 2), (3, 2, 0), (4, 4, 0)],
)
def test_center_crop_rounds_as_torchvision(length: int, size: int, start: int) -> None:
    image = picture(length, 9, None)
    result = run(CenterCrop((size, 9)), image, python=True)
    np.testing.assert_array_equal(result, image[start : start + size])
    np.testing.assert_array_equal(
        run(CenterCrop((9, size)), image.T.copy()), image.T[:, start : start + size]
    )


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Crop(-1, 0, 2, 2), ValueError, "Crop.top=-1"),
        (lambda: Crop(0, 0, 0, 2), ValueError, "Crop.height=0"),
        (lambda: Crop(0, 1.5, 2, 2), TypeError, "Crop.left=1.5"),  # type: ignore[arg-type]
        (lambda: CenterCrop(0), ValueError, "CenterCrop.size=0"),
        (lambda: RandomCrop((1, 2, 3)), ValueError, r"RandomCrop.size=\(1, 2, 3\)"),  # type: ignore[arg-type]
        (lambda: RandomCrop(3, padding=-1), ValueError, "RandomCrop.padding=-1"),
        (lambda: RandomCrop(3, padding=(1, 2, 3)), ValueError, r"RandomCrop.padding=\(1, 2, 3\)"),
        (lambda: RandomCrop(3, padding="2"), TypeError, "RandomCrop.padding='2'"),  # type: ignore[arg-type]
        (lambda: RandomCrop(3, padding_mode="wrap"), ValueError, "RandomCrop.padding_mode='wrap'"),
        (lambda: RandomCrop(3, fill=float("nan")), ValueError, "RandomCrop.fill=nan"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("crop", "words"),
    [
        (Crop(2, 0, 9, 4), "ends at row 11 and column 4, but the image has 10 x 8 pixels"),
        (Crop(0, 5, 9, 4), "ends at row 9 and column 9"),
        (CenterCrop(9), "the image has 10 x 8 pixels, less than the crop's 9 x 9"),
        (RandomCrop(13, padding=2), "the image has 14 x 12 pixels, less than the crop's 13 x 13"),
        (
            RandomCrop(8, padding=(8, 0), padding_mode="reflect"),
            "8 pixels wide can be mirrored .* 7 pixels far",
        ),
        (RandomCrop(8, padding=1, fill=(1, 2)), "fill has 2 values, but the image .* has 3 channels"),
        (RandomCrop(8, fill=(1, 2)), "fill has 2 values"),
        (RandomCrop(8, padding=1, fill=256), "fill is outside of 0 to 255, which uint8 can hold"),
    ],
)
def test_crops_that_do_not_fit(crop: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as told:
        crop.step(Spec((10, 8, 3), np.dtype(np.uint8)))
    assert str(told.value).startswith(repr(crop))
