"""Erased rectangles are drawn as torchvision draws them."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.image.erase import RandomErasing
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, picture, pictures


def part(told: dict[str, float]) -> tuple[slice, slice]:
    top, left, height, width = (int(told[name]) for name in ("top", "left", "height", "width"))
    return slice(top, top + height), slice(left, left + width)


@settings(max_examples=60)
@given(pictures(longest=12), st.integers(0, 1000))
def test_only_the_rectangle_is_erased(image: np.ndarray, index: int) -> None:
    erasing = RandomErasing(0.9, scale=(0.05, 0.9), value=1)
    told = parameters(erasing, image, index=index)
    expected = image.copy()
    expected[part(told)] = 1
    np.testing.assert_array_equal(run(erasing, image, index=index, python=True), expected)


@settings(max_examples=30)
@given(
    st.tuples(st.integers(20, 300), st.integers(20, 300)),
    st.tuples(st.floats(0.01, 0.5), st.floats(0.01, 0.5)).map(sorted),
    st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(sorted),
)
def test_area_and_shape_are_in_range(size: tuple[int, int], scale: Any, ratio: Any) -> None:
    erasing = RandomErasing(1.0, tuple(scale), tuple(ratio))
    for told in drawn(erasing, np.zeros((*size, 3), np.uint8), range(20)):
        height, width = told["height"], told["width"]
        if not told["erased"]:
            assert told == dict.fromkeys(told, 0.0)
            continue
        assert height < size[0]
        assert width < size[1]
        assert 0 <= told["top"] <= size[0] - height
        assert 0 <= told["left"] <= size[1] - width
        # Both sides were rounded to whole pixels.
        assert (height + 0.5) * (width + 0.5) >= scale[0] * size[0] * size[1] * (1 - 1e-9)
        assert (height - 0.5) * (width - 0.5) <= scale[1] * size[0] * size[1] * (1 + 1e-9)
        assert (height + 0.5) / (width - 0.5) >= ratio[0] * (1 - 1e-9)
        assert (height - 0.5) / (width + 0.5) <= ratio[1] * (1 + 1e-9)


def test_shapes_are_even_on_a_logarithmic_scale() -> None:
    told = drawn(RandomErasing(1.0, (0.2, 0.2), (0.25, 4.0)), np.zeros((400, 400), np.uint8), range(2000))
    ratios = np.log([each["height"] / each["width"] for each in told]) / math.log(4)
    counts, _ = np.histogram(ratios, bins=8, range=(-1.01, 1.01))
    assert abs(counts - 250).max() < 5 * 14.8  # the standard deviation of a count
    assert all(each["erased"] for each in told)


def test_what_never_fits_is_not_erased() -> None:
    image = picture(8, 8)
    np.testing.assert_array_equal(run(RandomErasing(1.0, (1.0, 1.0), (1.0, 1.0)), image, python=True), image)


def test_probability() -> None:
    count = sum(each["erased"] for each in drawn(RandomErasing(0.25), np.zeros((64, 64)), range(1600)))
    assert abs(count - 400) < 5 * 17.3  # the standard deviation of the count


def test_compiled_erasing_agrees() -> None:
    image = picture(21, 23)
    for index in range(4):
        run(RandomErasing(0.9, (0.1, 0.6), value="random"), image, index=index, compiled=True)


@settings(max_examples=40)
@given(pictures(longest=12), st.integers(0, 1000))
def test_noise_is_the_same_in_numpy(image: np.ndarray, index: int) -> None:
    erasing = RandomErasing(1.0, scale=(0.05, 0.9), value="random")
    run(erasing, image, index=index, python=True)
    run(channels_first(erasing), image, index=index, python=True)


def test_noise_of_floats_is_standard_normal() -> None:
    image = np.full((200, 200, 3), 50.0, np.float32)
    erasing = RandomErasing(1.0, (0.3, 0.3), (1.0, 1.0), "random")
    result = run(erasing, image)
    inside = np.zeros_like(image, bool)
    inside[part(parameters(erasing, image))] = True
    assert (result[~inside] == 50).all()
    noise = result[inside].reshape(-1, 3)
    assert len(noise) == 12100  # 110 x 110: each statistic's standard deviation is below 0.01
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(np.cov(noise.T), np.eye(3), atol=0.05)
    rows = result[part(parameters(erasing, image))]
    assert abs(np.mean(rows[1:] * rows[:-1])) < 0.03
    assert abs(np.mean(rows[:, 1:] * rows[:, :-1])) < 0.03


def test_noise_of_integers_is_around_middle_grey() -> None:
    image = np.zeros((200, 200, 3), np.uint8)
    erasing = RandomErasing(1.0, (0.3, 0.3), (1.0, 1.0), "random")
    noise = run(erasing, image)[part(parameters(erasing, image))]
    assert abs(noise.mean() - 127.5) < 2
    # 2.3 % at either end are clipped, which takes 1.8 off the standard deviation of 63.75.
    assert abs(noise.std() - 62) < 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomErasing(p=1.1), "RandomErasing.p=1.1"),
        (lambda: RandomErasing(scale=(0.1, 1.1)), "RandomErasing.scale=1.1"),
        (lambda: RandomErasing(scale=(0.3, 0.1)), r"RandomErasing.scale=\(0.3, 0.1\)"),
        (lambda: RandomErasing(ratio=(0, 1)), r"RandomErasing.ratio=\(0, 1\): expected positive numbers"),
        (lambda: RandomErasing(value="pixel"), "RandomErasing.value='pixel': expected numbers or 'random'"),
    ],
)
def test_wrong_arguments(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_value_that_does_not_fit() -> None:
    erasing = RandomErasing(value=(1, 2))
    with pytest.raises(ValueError, match=r"value has 2 values, but the image .* has 3 channels") as told:
        erasing.step(Spec((8, 10, 3), np.dtype(np.uint8)))
    assert str(told.value).startswith(repr(erasing))
