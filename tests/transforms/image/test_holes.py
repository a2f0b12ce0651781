"""Holes have the sizes, places and values that were asked for, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.image.holes import CoarseDropout, Cutout
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Operation
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, channels_last, picture, pictures


def holes(transform: Operation, image: np.ndarray, index: int) -> list[tuple[int, int, int, int]]:
    """Top, left, height and width of each hole of a sample."""
    told = parameters(transform, image, index=index)
    names = ("top", "left", "height", "width")
    found = [tuple(int(told[f"{name}_{i}"]) for name in names) for i in range(int(told["holes"]))]
    absent = [told[f"{name}_{i}"] for name in names for i in range(len(found), (len(told) - 1) // 4)]
    assert not any(absent)
    return found  # type: ignore[return-value]


def erased(image: np.ndarray, where: list[tuple[int, int, int, int]], fill: Any) -> np.ndarray:
    expected = image.copy()
    for top, left, height, width in where:
        assert 0 <= top <= top + height <= image.shape[0]
        assert 0 <= left <= left + width <= image.shape[1]
        expected[top : top + height, left : left + width] = fill
    return expected


@settings(max_examples=60)
@given(pictures(), st.data(), st.integers(0, 1000))
def test_dropout_erases_its_holes(image: np.ndarray, data: st.DataObject, index: int) -> None:
    def ranges(least: int, most: int) -> tuple[int, int]:
        low = data.draw(st.integers(least, most))
        return low, data.draw(st.integers(low, most))

    counts, heights, widths = ranges(0, 4), ranges(1, image.shape[0]), ranges(1, image.shape[1])
    dropout = CoarseDropout(counts, heights, widths, fill=1)
    where = holes(dropout, image, index)
    assert counts[0] <= len(where) <= counts[1]
    for _, _, height, width in where:
        assert heights[0] <= height <= heights[1]
        assert widths[0] <= width <= widths[1]
    np.testing.assert_array_equal(run(dropout, image, index=index, python=True), erased(image, where, 1))


@settings(max_examples=60)
@given(pictures(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.integers(0, 1000))
def test_cutout_erases_what_lies_within_the_image(
    image: np.ndarray, height: int, width: int, count: int, index: int
) -> None:
    cutout = Cutout((height, width), count, fill=1)
    where = holes(cutout, image, index)
    assert len(where) == count
    # The centre, which every hole contains, is never cut away.
    assert all(1 <= each[2] <= height and 1 <= each[3] <= width for each in where)
    np.testing.assert_array_equal(run(cutout, image, index=index, python=True), erased(image, where, 1))


def test_cutout_centres_are_everywhere() -> None:
    image = picture(4, 3)
    places = {(each["top_0"], each["left_0"]) for each in drawn(Cutout(1), image, range(300))}
    assert places == {(y, x) for y in range(4) for x in range(3)}


def test_dropout_draws_all_sizes_numbers_and_places() -> None:
    image = picture(5, 5)
    told = drawn(CoarseDropout((0, 2), (1, 3), 5), image, range(900))
    assert {each["holes"] for each in told} == {0, 1, 2}
    there = [each for each in told if each["holes"]]
    assert {(each["height_0"], each["top_0"]) for each in there} == {
        (height, top) for height in (1, 2, 3) for top in range(6 - height)
    }
    assert {(each["width_0"], each["left_0"]) for each in there} == {(5, 0)}


def test_shares_are_parts_of_the_image() -> None:
    image = picture(40, 20)
    told = drawn(CoarseDropout(1, (0.1, 0.25), 0.5), image, range(300))
    assert {each["height_0"] for each in told} == set(range(4, 11))
    assert {each["width_0"] for each in told} == {10}
    assert {each["height_0"] for each in drawn(CoarseDropout(1, 0.001, 1.0), image, range(3))} == {1}


def test_a_value_for_each_channel() -> None:
    image = picture(9, 11, dtype=np.float32)
    dropout = CoarseDropout((2, 4), 3, 4, fill=(0.1, -2.0, 3.0))
    for index in range(3):
        expected = erased(image, holes(dropout, image, index), np.array([0.1, -2.0, 3.0], np.float32))
        np.testing.assert_array_equal(run(dropout, image, index=index, python=True), expected)
        result = run(channels_first(dropout), image, index=index, python=True)
        assert result.shape == (3, 9, 11)
    only = CoarseDropout(1, 9, 11, fill=(0.1, -2.0, 3.0))
    result = channels_last(run(channels_first(only), image, python=True))
    np.testing.assert_array_equal(
        result, np.broadcast_to(np.array([0.1, -2.0, 3.0], np.float32), image.shape)
    )


def test_compiled_holes_agree() -> None:
    image = picture(21, 22)
    for index in range(4):
        run(CoarseDropout((1, 5), (2, 9), (3, 7), fill=(1, 2, 3)), image, index=index, compiled=True)
        run(Cutout(9, 5, fill=(1, 2, 3)), image, index=index, compiled=True)


def test_probability_of_any_hole() -> None:
    image = picture(5, 5)
    count = sum(each["holes"] > 0 for each in drawn(Cutout(2, p=0.25), image, range(1600)))
    assert abs(count - 400) < 5 * 17.3  # the standard deviation of the count
    run(Cutout(2, p=0.0), image, python=True)
    np.testing.assert_array_equal(run(CoarseDropout(p=0.0), image), image)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: CoarseDropout(holes=-1), ValueError, "CoarseDropout.holes=-1"),
        (lambda: CoarseDropout(holes=(1, 300)), ValueError, "CoarseDropout.holes=300.*from 0 to 256"),
        (lambda: CoarseDropout(holes=(3, 2)), ValueError, r"CoarseDropout.holes=\(3, 2\).*low ≤ high"),
        (lambda: CoarseDropout(holes=(1, 2, 3)), ValueError, "one number or"),  # type: ignore[arg-type]
        (lambda: CoarseDropout(height=0), ValueError, "CoarseDropout.height=0: expected an integer ≥ 1"),
        (lambda: CoarseDropout(height=(0.5, 1.5)), ValueError, "CoarseDropout.height=1.5"),
        (lambda: CoarseDropout(width=(1, 0.5)), TypeError, "CoarseDropout.width=0.5: expected an integer"),
        (lambda: CoarseDropout(p=2), ValueError, "CoarseDropout.p=2"),
        (lambda: Cutout(0), ValueError, "Cutout.size=0"),
        (lambda: Cutout(3, holes=0), ValueError, "Cutout.holes=0"),
        (lambda: Cutout(3, p=-1), ValueError, "Cutout.p=-1"),
        (lambda: Cutout(3, fill="black"), TypeError, "Cutout.fill='black'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (CoarseDropout(height=9), "height may be 9 pixels, but the image has 8"),
        (CoarseDropout(width=(2, 11)), "width may be 11 pixels, but the image has 10"),
        (CoarseDropout(fill=(1, 2)), "fill has 2 values, but the image .* has 3 channels"),
        (Cutout(2, fill=300), "fill is outside of 0 to 255"),
    ],
)
def test_holes_that_do_not_fit(transform: Operation, words: str) -> None:
    with pytest.raises(ValueError, match=words) as told:
        transform.step(Spec((8, 10, 3), np.dtype(np.uint8)))
    assert str(told.value).startswith(repr(transform))
