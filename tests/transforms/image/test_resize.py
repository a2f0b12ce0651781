"""Images in other sizes: in every form the same, boxes drawn as in torchvision, wrong arguments named."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.crop import CenterCrop
from nogil_loader.transforms.image.flip import HorizontalFlip
from nogil_loader.transforms.image.pad import Pad
from nogil_loader.transforms.image.resize import RandomResizedCrop, Resize
from nogil_loader.transforms.image.turn import Rotate90
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures

KINDS = [("bilinear", True), ("bilinear", False), ("nearest", True), ("area", True)]


def of_kind(transform: Any, size: Any, kind: tuple[str, bool]) -> Any:
    return transform(size, interpolation=kind[0], antialias=kind[1])


@settings(max_examples=60)
@given(
    image=pictures(),
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    kind=st.sampled_from(KINDS),
    first=st.booleans(),
)
def test_every_kind_of_image_and_size(image: np.ndarray, size: Any, kind: Any, first: bool) -> None:
    transform = of_kind(Resize, size, kind)
    if first and image.ndim == 3:
        result = channels_last(run(channels_first(transform), image, python=True))
    else:
        result = run(transform, image, python=True)
    assert (result.shape, result.dtype) == ((*size, *image.shape[2:]), image.dtype)
    if result.dtype.kind != "b":
        # A mean lies between the extremes, but for the rounding of floats.
        slack = 0.0 if result.dtype.kind in "ui" else 1e-5
        assert result.min() >= image.min() - slack
        assert result.max() <= image.max() + slack


@settings(max_examples=40)
@given(
    image=pictures(),
    size=st.integers(1, 12),
    kind=st.sampled_from(KINDS),
    index=st.integers(0, 99),
)
def test_every_kind_of_random_box(image: np.ndarray, size: int, kind: Any, index: int) -> None:
    result = run(of_kind(RandomResizedCrop, size, kind), image, index=index, python=True)
    assert (result.shape, result.dtype) == ((size, size, *image.shape[2:]), image.dtype)


@pytest.mark.parametrize(
    ("transform", "dtype"),
    [
        (channels_first(Resize((40, 19), antialias=False)), np.uint16),
        (Compose([RandomResizedCrop(24), HorizontalFlip(0.5), Pad(3, fill=7)]), np.uint8),
    ],
)
def test_compiled_kernels_give_the_bits_of_numpy(transform: Any, dtype: Any) -> None:
    for index in range(6):
        run(transform, picture(33, 41, dtype=dtype, seed=index), index=index, compiled=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_resize_is_done_with_the_resized_image(kind: Any) -> None:
    image = picture(11, 7)
    resized = run(of_kind(Resize, (8, 9), kind), image)
    chain = Compose(
        [of_kind(Resize, (8, 9), kind), CenterCrop((6, 7)), Pad((2, 0, 0, 1), fill=9), Rotate90(1)]
    )
    padded = np.pad(resized[1:7, 1:8], ((0, 1), (2, 0), (0, 0)), constant_values=9)
    np.testing.assert_array_equal(run(chain, image, python=True), np.rot90(padded))
    narrow = Compose([of_kind(Resize, (21, 3), kind), Rotate90(3)])
    expected = np.rot90(run(of_kind(Resize, (21, 3), kind), image), 3)
    np.testing.assert_array_equal(run(narrow, image, python=True), expected)


def test_one_number_is_the_length_of_the_shorter_side() -> None:
    assert Resize(8).output_spec(Spec.of(picture(20, 33))).shape == (8, 13, 3)
    assert Resize(8).output_spec(Spec.of(picture(33, 20))).shape == (13, 8, 3)
    assert Resize(8).output_spec(Spec.of(picture(5, 5, None))).shape == (8, 8)
    assert Resize((8, 9)).output_spec(Spec.of(picture(5, 5))).shape == (8, 9, 3)
    assert RandomResizedCrop(8).output_spec(Spec.of(picture(5, 9))).shape == (8, 8, 3)


def test_antialiased_images_are_those_of_pillow() -> None:
    pil = pytest.importorskip("PIL.Image")
    image = picture(40, 60)
    for size in [(13, 17), (40, 30), (160, 240)]:
        expected = np.asarray(pil.fromarray(image).resize(size[::-1], pil.Resampling.BILINEAR))
        result = run(Resize(size), image)
        assert np.abs(result.astype(int) - expected).max() <= 1
        expected = np.asarray(pil.fromarray(image).resize(size[::-1], pil.Resampling.NEAREST))
        np.testing.assert_array_equal(run(Resize(size, "nearest"), image), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_box_is_a_picture_of_its_own(kind: Any) -> None:
    image = picture(30, 40)
    for index in range(10):
        box = {
            name: int(value) for name, value in parameters(RandomResizedCrop(16), image, index=index).items()
        }
        cut = image[box["top"] : box["top"] + box["height"], box["left"] : box["left"] + box["width"]]
        result = run(of_kind(RandomResizedCrop, 16, kind), image, index=index)
        np.testing.assert_array_equal(result, run(of_kind(Resize, (16, 16), kind), cut))


@given(
    shape=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted),
    ratio=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)).map(sorted),
    index=st.integers(0, 2**31),
)
def test_boxes_lie_in_the_image(shape: Any, scale: Any, ratio: Any, index: int) -> None:
    box = parameters(
        RandomResizedCrop(4, tuple(scale), tuple(ratio)), picture(shape[0], shape[1], None), index=index
    )
    assert all(value == int(value) for value in box.values())
    assert box["top"] >= 0 <= box["left"]
    assert 1 <= box["height"] <= shape[0] - box["top"]
    assert 1 <= box["width"] <= shape[1] - box["left"]


def test_boxes_have_the_area_and_the_shape_that_were_asked_for() -> None:
    image = picture(400, 500, None)
    boxes = drawn(RandomResizedCrop(8, scale=(0.2, 0.4), ratio=(0.5, 1.5)), image, range(2000))
    height, width, top, left = (
        np.array([box[name] for box in boxes]) for name in ("height", "width", "top", "left")
    )
    shares, ratios = height * width / image.size, width / height
    assert 0.197 < shares.min() < 0.21
    assert 0.39 < shares.max() < 0.403
    assert 0.497 < ratios.min() < 0.51
    assert 1.47 < ratios.max() < 1.51
    # Uniform on the scale on which it is drawn; places reach from one border to the other.
    assert abs(np.log(ratios).mean() - np.log(0.75) / 2) < 0.03
    for place, room in ((top, 400 - height), (left, 500 - width)):
        assert place.min() == 0
        assert abs((place / room).mean() - 0.5) < 0.03
        assert (place == room).any()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((10, 100), (0, 43, 10, 13)), ((100, 10), (43, 0, 13, 10)), ((30, 33), (0, 0, 30, 33))],
)
def test_where_no_box_fits_the_largest_in_the_middle_is_taken(shape: Any, expected: Any) -> None:
    # A share of the area that the allowed shapes cannot have in this image.
    transform = RandomResizedCrop(8, scale=(1.0, 1.0))
    assert tuple(parameters(transform, picture(shape[0], shape[1], None)).values()) == expected


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Resize(0), ValueError, "Resize.size=0"),
        (lambda: Resize((8, 0)), ValueError, "Resize.size=0"),
        (lambda: Resize((8, 8, 8)), ValueError, r"Resize.size=.*expected one number or \(height, width\)"),
        (lambda: Resize(8.5), TypeError, "Resize.size=8.5"),  # type: ignore[arg-type]
        (lambda: Resize(True), TypeError, "Resize.size=True"),
        (lambda: Resize(8, "cubic"), ValueError, "Resize.interpolation='cubic': expected 'bilinear' or"),
        (lambda: Resize(8, antialias=None), TypeError, "Resize.antialias=None"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(8, scale=(0.0, 1.0)), ValueError, "RandomResizedCrop.scale"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 1.5)), ValueError, "RandomResizedCrop.scale"),
        (lambda: RandomResizedCrop(8, ratio=(2.0, 1.0)), ValueError, "RandomResizedCrop.ratio"),
        (lambda: RandomResizedCrop(8, ratio=(0.0, 1.0)), ValueError, "RandomResizedCrop.ratio"),
        (lambda: RandomResizedCrop("8"), TypeError, "RandomResizedCrop.size='8'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3)])
@pytest.mark.parametrize("transform", [Resize(8), Resize((8, 8)), RandomResizedCrop(8)])
def test_an_image_without_pixels_is_refused(transform: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="has nothing to resize"):
        transform.output_spec(Spec(shape, np.dtype(np.uint8), "HWC"))


def test_a_side_that_would_become_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Resize.*would become 500000000 pixels long"):
        Resize(1000).output_spec(Spec((1, 500_000, 3), np.dtype(np.uint8), "HWC"))
