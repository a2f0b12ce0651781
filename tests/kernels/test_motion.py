"""Points move to where the pixels that they lie on are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.kernels.motion import (
    AT_REST,
    Motion,
    affine_motion,
    after,
    begin,
    go_on,
    inverse,
    resize_motion,
    table_motion,
    window_motion,
)

lengths = st.integers(2, 9)
numbers = st.floats(-8, 8).map(lambda x: round(x * 8) / 8)


def moved(points: Any, motion: Motion) -> Any:
    a, b, c, d, e, f = motion
    return np.array([[a * x + b * y + c, d * x + e * y + f] for x, y in points])


def centres(height: int, width: int) -> Any:
    """Return the centres of all pixels, row by row."""
    y, x = np.mgrid[:height, :width] + 0.5
    return np.stack([x, y], -1).reshape(-1, 2)


@given(
    height=lengths,
    width=lengths,
    down=st.booleans(),
    back=st.booleans(),
    turned=st.booleans(),
    margin=st.integers(0, 3),
)
def test_tables_tell_where_pixels_come_from_and_the_motion_where_they_go(
    height: int, width: int, down: bool, back: bool, turned: bool, margin: int
) -> None:
    image = np.arange(height * width).reshape(height, width)
    rows, cols = (
        np.pad(np.arange(length)[::step], margin, constant_values=-1)
        for length, step in zip(
            (width, height) if turned else (height, width),
            (-1 if down else 1, -1 if back else 1),
            strict=True,
        )
    )
    source = image.T if turned else image
    shown = np.where((rows[:, None] < 0) | (cols < 0), -1, source[rows][:, cols])
    points = moved(centres(height, width), table_motion(rows, cols, int(turned)))
    x, y = np.floor(points).astype(int).T
    np.testing.assert_array_equal(shown[y, x], image.reshape(-1))
    np.testing.assert_array_equal(points % 1, 0.5)


def test_a_window_moves_the_image_and_not_itself() -> None:
    np.testing.assert_array_equal(moved([[3.5, 7.25]], window_motion(7.0, -2.0)), [[5.5, 0.25]])


@given(top=numbers, left=numbers, height=lengths, width=lengths, out=st.tuples(lengths, lengths))
def test_a_resize_takes_the_corners_of_its_box_to_those_of_the_picture(
    top: float, left: float, height: int, width: int, out: tuple[int, int]
) -> None:
    motion = resize_motion(np.array([top, left, height, width]), *out)
    corners = [[left, top], [left + width, top + height]]
    np.testing.assert_allclose(moved(corners, motion), [[0, 0], [out[1], out[0]]], atol=1e-12)


@given(matrix=st.tuples(numbers, numbers, numbers, numbers, numbers, numbers), x=numbers, y=numbers)
def test_an_affine_motion_is_the_way_back_from_the_source(
    matrix: tuple[float, ...], x: float, y: float
) -> None:
    a, b, c, d, e, f = matrix
    if abs(a * e - b * d) < 1 / 16:
        return
    # In coordinates of pixel centres the matrix leads from (x, y) to the source.
    source = [[a * x + b * y + c + 0.5, d * x + e * y + f + 0.5]]
    np.testing.assert_allclose(
        moved(source, affine_motion(np.array(matrix))), [[x + 0.5, y + 0.5]], atol=1e-8
    )


@given(
    matrix=st.tuples(numbers, numbers, numbers, numbers, numbers, numbers), point=st.tuples(numbers, numbers)
)
def test_an_inverse_takes_back(matrix: Motion, point: tuple[float, float]) -> None:
    if abs(matrix[0] * matrix[4] - matrix[1] * matrix[3]) >= 1 / 16:
        there = moved([point], matrix)
        np.testing.assert_allclose(moved(there, inverse(matrix)), [point], atol=1e-8)


def course_of(size: tuple[int, int], *steps: tuple[Motion, int, int]) -> Any:
    course = np.empty(14)
    begin(size, course)
    for step, height, width in steps:
        go_on(step, height, width, course)
    return course


UP, ACROSS = (-1.0, 0.0, 8.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0, 0.0, 0.0)
ASLANT = (0.5, 0.5, 0.0, -0.5, 0.5, 4.0)


def test_what_a_crop_cuts_off_is_not_seen_again() -> None:
    crop, pad = (window_motion(2.0, 3.0), 4, 5), (window_motion(-6.0, -7.0), 20, 30)
    np.testing.assert_array_equal(course_of((10, 12), crop, pad)[6:10], [7, 6, 12, 10])
    # Mirrored in a picture 8 wide, then rows and columns exchanged.
    np.testing.assert_array_equal(course_of((6, 8), (UP, 6, 8), (ACROSS, 8, 6))[6:10], [0, 0, 6, 8])
    np.testing.assert_array_equal(course_of((10, 12), crop, (UP, 4, 8))[6:10], [3, 0, 8, 4])
    assert not np.isfinite(course_of((10, 12), crop, pad)[10:]).any()


def test_what_could_be_seen_before_a_slanting_step_is_kept_in_coordinates_of_the_source() -> None:
    crop, margin = (window_motion(2.0, 3.0), 4, 5), (window_motion(-1.0, -1.0), 6, 7)
    course = course_of((10, 12), crop, margin, (ASLANT, 6, 7), (ASLANT, 6, 7))
    np.testing.assert_array_equal(course[10:], [3, 2, 8, 6])
    # The image, at (1, 1) to (6, 5), comes to span 1 to 5.5 and 1.5 to 6, then 1.25 to 5.75 and 2 to 6.5.
    np.testing.assert_array_equal(course[6:10], [1.25, 2, 5.75, 6])


@given(
    first=st.tuples(numbers, numbers, numbers, numbers, numbers, numbers),
    then=st.tuples(numbers, numbers, numbers, numbers, numbers, numbers),
    point=st.tuples(numbers, numbers),
)
def test_one_motion_after_another(first: Motion, then: Motion, point: tuple[float, float]) -> None:
    # All numbers are multiples of 1/8, so nothing is rounded.
    np.testing.assert_array_equal(moved([point], after(first, then)), moved(moved([point], first), then))
    assert after(first, AT_REST) == after(AT_REST, first) == first


@pytest.mark.parametrize("table", [[4], [-1, 4], [-1, -1]])
def test_a_table_that_shows_one_pixel_or_none_has_a_motion(table: list[int]) -> None:
    x = moved([[4.5, 0.5]], table_motion(np.array([0, 1]), np.array(table), 0))[0, 0]
    if 4 in table:
        assert x == table.index(4) + 0.5
