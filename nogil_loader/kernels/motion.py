"""Where a step of geometry moves points of the source to.

A *motion* is six float64 (a, b, c, d, e, f): the point (x, y) comes to (a x + b y + c, d x + e y + f). Coordinates
are those of pixel edges: the first pixel covers 0 to 1 in both directions, an image 0 to W and 0 to H.
"""

from __future__ import annotations

import math
from typing import Any, Final

from nogil_loader.kernels.compiler.jit import jitable

#: Six float64.
Motion = tuple[float, float, float, float, float, float]

#: Moves nothing.
AT_REST: Final[Motion] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@jitable
def after(first: Motion, then: Motion) -> Motion:
    """Return the motion that is the two, one after the other."""
    return (
        then[0] * first[0] + then[1] * first[3],
        then[0] * first[1] + then[1] * first[4],
        then[0] * first[2] + then[1] * first[5] + then[2],
        then[3] * first[0] + then[4] * first[3],
        then[3] * first[1] + then[4] * first[4],
        then[3] * first[2] + then[4] * first[5] + then[5],
    )


@jitable
def window_motion(top: float, left: float) -> Motion:
    """Return the motion by which a point comes to its place in a window on the image."""
    return (1.0, 0.0, -left, 0.0, 1.0, -top)


@jitable
def fixed_window_motion(numbers: Any, drawn: Any) -> Motion:
    """Return the motion of a window whose top and left are constants."""
    return window_motion(numbers[0], numbers[1])


@jitable
def drawn_window_motion(numbers: Any, drawn: Any) -> Motion:
    """Return the motion of a window whose top and left were drawn."""
    return window_motion(drawn[0], drawn[1])


@jitable
def table_motion(rows: Any, cols: Any, turned: int) -> Motion:
    """Return the motion of a step that takes each row and each column from one of the source.

    Args:
        rows: For each row of the output a row of the source (a column if ``turned``), rising or falling by 1 each;
            -1 outside.
        cols: The same for columns.
        turned: Whether rows of the output are columns of the source.
    """
    along, x = _axis_motion(cols)
    down, y = _axis_motion(rows)
    if turned:
        return (0.0, along, x, down, 0.0, y)
    return (along, 0.0, x, 0.0, down, y)


@jitable
def _axis_motion(table: Any) -> tuple[float, float]:
    """Return slope and offset from a source coordinate to an output coordinate."""
    at = 0
    while at < len(table) - 1 and table[at] < 0:
        at += 1
    if at < len(table) - 1 and table[at + 1] == table[at] - 1:
        # The pixel that ends at table[at] + 1 begins at ``at``.
        return -1.0, float(at + table[at] + 1)
    return 1.0, float(at - table[at])


@jitable
def resize_motion(box: Any, height: int, width: int) -> Motion:
    """Return the motion of a resize.

    Args:
        box: Top, left, height and width of the part of the source, float64.
        height: Rows of the output.
        width: Its columns.
    """
    along, down = width / box[3], height / box[2]
    return (along, 0.0, -box[1] * along, 0.0, down, -box[0] * down)


@jitable
def affine_motion(matrix: Any) -> Motion:
    """Return the motion of an affine step.

    Args:
        matrix: The six coefficients that lead from an output pixel to the source, in coordinates in which the
            centre of the first pixel is (0, 0).
    """
    a, b, d, e = matrix[0], matrix[1], matrix[3], matrix[4]
    # The same lines in coordinates of pixel edges, in which that centre is (0.5, 0.5).
    c = matrix[2] + 0.5 - 0.5 * (a + b)
    f = matrix[5] + 0.5 - 0.5 * (d + e)
    return inverse((a, b, c, d, e, f))


@jitable
def inverse(motion: Motion) -> Motion:
    """Return the motion that takes everything back."""
    a, b, c, d, e, f = motion
    area = a * e - b * d
    return (
        e / area,
        -b / area,
        (b * f - e * c) / area,
        -d / area,
        a / area,
        (d * c - a * f) / area,
    )


@jitable
def begin(size: Any, course: Any) -> None:
    """Write the course of an image that nothing has happened to yet.

    A *course* is what points have to know of a chain of steps, float64 ``(14,)``:

    - 0 to 5: the motion of all steps together.
    - 6 to 9: left, top, right, bottom of the window in which the image can be seen, in the coordinates that points
      have after the steps. A crop makes it smaller for good, though a margin behind it makes the picture larger.
    - 10 to 13: the part of the source that could be seen before the first step that leaves no rectangle upright,
      behind which windows are wider than what can be seen; all there is if there is no such step.

    Args:
        size: Height and width of the image.
        course: Is written.
    """
    _put_motion(AT_REST, course)
    course[6] = 0.0
    course[7] = 0.0
    course[8] = size[1]
    course[9] = size[0]
    course[10] = -math.inf
    course[11] = -math.inf
    course[12] = math.inf
    course[13] = math.inf


@jitable
def go_on(motion: Motion, height: int, width: int, course: Any) -> None:
    """Add a step to a course.

    Args:
        motion: Of the step.
        height: Rows of its output.
        width: Its columns.
        course: Is changed.
    """
    before = (course[0], course[1], course[2], course[3], course[4], course[5])
    upright = (motion[1] == 0.0 and motion[3] == 0.0) or (motion[0] == 0.0 and motion[4] == 0.0)
    if not upright and course[12] == math.inf:
        _put_moved(inverse(before), course[6:10], course[10:14])
    _put_moved(motion, course[6:10], course[6:10])
    course[6] = min(max(course[6], 0.0), float(width))
    course[7] = min(max(course[7], 0.0), float(height))
    course[8] = min(max(course[8], 0.0), float(width))
    course[9] = min(max(course[9], 0.0), float(height))
    _put_motion(after(before, motion), course)


@jitable
def _put_motion(motion: Motion, course: Any) -> None:
    for i in range(6):
        course[i] = motion[i]


@jitable
def _put_moved(motion: Motion, box: Any, moved: Any) -> None:
    """Write the upright box around a box that was moved; ``moved`` may be ``box``."""
    a, b, c, d, e, f = motion
    left, top, right, bottom = box[0], box[1], box[2], box[3]
    moved[0] = min(a * left, a * right) + min(b * top, b * bottom) + c
    moved[1] = min(d * left, d * right) + min(e * top, e * bottom) + f
    moved[2] = max(a * left, a * right) + max(b * top, b * bottom) + c
    moved[3] = max(d * left, d * right) + max(e * top, e * bottom) + f
