"""Resized rows: the same bits as numpy, the pictures of Pillow, OpenCV and torch, nothing written beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.images.resample import (
    blend_rows,
    fill_holes,
    gather_1,
    gather_3,
    gather_4,
    gather_many,
    line_length,
    resize_column,
    resize_planes,
)
from nogil_loader.kernels.images.resized import resize_image
from nogil_loader.kernels.images.taps import (
    area_taps,
    bilinear_taps,
    place_columns,
    taps_needed,
    triangle_taps,
)
from tests.kernels.images.pictures import Guarded, noise, parts

KINDS = ("bilinear", "triangle", "area")
# Each dtype costs two seconds of compiling. The others differ in one conversion, which plain Python shows as well.
WORK = {"u1": "f4", "f8": "f8"}
OTHERS = {"i2": "f4", "u2": "f4", "f4": "f4", "i4": "f8"}
HWC, CHW, TURNED = range(3)


def find_taps(kind: Any, start: Any, extent: Any, limit: Any, first: Any, weights: Any) -> Any:
    if kind == 0:
        return bilinear_taps(start, extent, limit, first, weights)
    if kind == 1:
        return triangle_taps(start, extent, limit, first, weights)
    return area_taps(start, extent, limit, first, weights)


def resize(
    flat: Any,  # the source
    shape: Any,  # int64 (3,): its height, width and channels
    plan: Any,  # int64 (3,): kind, way, whether to round
    box: Any,  # float64 (4,)
    rows: Any,
    cols: Any,
    fill: Any,
    firsts: Any,  # int64 (2, …) and weights (2, …, taps): of rows and of columns of the resized image
    weights: Any,
    starts: Any,
    by_column: Any,
    line: Any,
    row: Any,
    out: Any,  # (H, C, W)
    resized: Any,  # int64 (2,): height and width of the resized image
) -> None:
    """What a fused kernel does with a resize and an index step behind it."""
    height, width, channels = shape[0], shape[1], shape[2]
    way, whole = plan[1], plan[2] != 0
    first_row, row_weights = firsts[0, : resized[0]], weights[0, : resized[0]]
    first_col, col_weights = firsts[1, : resized[1]], weights[1, : resized[1]]
    row_taps = find_taps(plan[0], box[0], box[2], height, first_row, row_weights)
    col_taps = find_taps(plan[0], box[1], box[3], width, first_col, col_weights)
    low, columns, holes = 0, 0, 0
    if way != TURNED:
        step = channels if way == HWC else 1
        low, columns, holes = place_columns(first_col, col_weights, col_taps, cols, step, starts, by_column)
    for y in range(len(rows)):
        at = rows[y]
        if at < 0:
            for c in range(channels):
                row[c, :] = fill[c]
        elif way == HWC:
            used = line[: columns * channels]
            image = flat.reshape((height, width * channels))
            if columns > 0:
                blend_rows(image, first_row, row_weights, row_taps, at, low * channels, used)
                if channels == 1:
                    gather_1(line, starts, by_column, col_taps, whole, row)
                elif channels == 3:
                    gather_3(line, starts, by_column, col_taps, whole, row)
                elif channels == 4:
                    gather_4(line, starts, by_column, col_taps, whole, row)
                else:
                    gather_many(line, starts, by_column, col_taps, whole, row)
            if holes > 0:
                fill_holes(cols, fill, row)
        elif way == CHW:
            planes = flat.reshape((channels, height, width))
            if columns > 0:
                used = line[:columns]
                resize_planes(
                    *(planes, first_row, row_weights, row_taps, at, low, used),
                    *(starts, by_column, col_taps, whole, row),
                )
            if holes > 0:
                fill_holes(cols, fill, row)
        else:
            resize_column(
                *(flat, (width * channels, channels, 1), first_row, row_weights, row_taps),
                *(first_col, col_weights, col_taps, at, cols, whole, row),
            )
            fill_holes(cols, fill, row)
        for c in range(channels):
            for x in range(row.shape[1]):
                out[y, c, x] = row[c, x]


@functools.cache
def compiled(dtype: str) -> Callable[..., None]:
    """``resize`` as a kernel for images of one dtype."""
    import numba

    from nogil_loader.kernels.images import vectors  # noqa: F401

    jit.introduce(numba)
    numba.extending.register_jitable(find_taps)
    t = numba.types
    source = t.Array(getattr(t, np.dtype(dtype).name), 1, "C", readonly=True)
    work = t.float32 if WORK[dtype] == "f4" else t.float64
    ints, floats = t.int64[::1], t.float64[::1]
    tables = (t.int64[:, ::1], work[:, :, ::1], ints, work[:, ::1], work[::1], work[:, ::1], work[:, :, ::1])
    signature = t.void(source, ints, ints, floats, ints, ints, floats, *tables, ints)
    kernel: Callable[..., None] = numba.njit(signature, nogil=True, error_model="numpy")(resize)
    return kernel


def run(
    image: Any,
    box: tuple[float, ...],
    size: tuple[int, int],
    kind: Any,
    *,
    form: Callable[..., None] | None = None,
    way: int = HWC,
    rows: Any = None,
    cols: Any = None,
    fill: Any = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    whole: bool = False,
) -> Any:
    """Resize an image (H, W, C) with the kernel; all that it writes to stands between guards."""
    channels = image.shape[2]
    rows = np.arange(size[0] if way != TURNED else size[1]) if rows is None else np.asarray(rows, np.int64)
    cols = np.arange(size[1] if way != TURNED else size[0]) if cols is None else np.asarray(cols, np.int64)
    taps = max(taps_needed(kind, box[2], size[0]), taps_needed(kind, box[3], size[1]))
    work = (WORK | OTHERS)[image.dtype.str[1:]]
    guarded = Guarded()
    flat = np.ascontiguousarray(image if way != CHW else image.transpose(2, 0, 1)).reshape(-1)
    flat.flags.writeable = False
    out = guarded.array((len(rows), channels, len(cols)), work)
    with np.errstate(all="ignore"):
        (form or compiled(image.dtype.str[1:]))(
            flat,
            np.array(image.shape),
            np.array([KINDS.index(kind), way, whole]),
            np.array(box, np.float64),
            rows,
            cols,
            np.array(fill, np.float64),
            guarded.array((2, max(size)), np.int64),
            guarded.array((2, max(size), taps), work),
            guarded.array((len(cols),), np.int64),
            guarded.array((taps, len(cols)), work),
            guarded.array((line_length(image.shape[1], channels),), work),
            guarded.array((channels, len(cols)), work),
            out,
            np.array(size),
        )
    guarded.check()
    return out.transpose(0, 2, 1)


@st.composite
def cases(
    draw: st.DrawFn, dtypes: Any = tuple(WORK), longest: int = 30
) -> tuple[Any, tuple[float, ...], tuple[int, int], Any]:
    """An image, a part of it, a size and a kind."""
    (top, tall, height), (left, wide, width) = draw(parts(longest)), draw(parts(longest))
    dtype = draw(st.sampled_from(dtypes))
    image = noise((height, width, draw(st.integers(1, 5))), dtype, draw(st.integers(0, 99)))
    size = draw(st.tuples(st.integers(1, longest), st.integers(1, longest)))
    return image, (top, left, tall, wide), size, draw(st.sampled_from(KINDS))


def whole_box(image: Any) -> tuple[float, float, float, float]:
    return (0.0, 0.0, float(image.shape[0]), float(image.shape[1]))


@given(case=cases(), way=st.sampled_from([HWC, CHW, TURNED]), whole=st.booleans())
def test_kernels_give_the_bits_of_numpy(case: Any, way: int, whole: bool) -> None:
    image, box, size, kind = case
    expected = resize_image(image, box, size, kind, WORK[image.dtype.str[1:]])
    if whole:
        expected = np.rint(expected)
    if way == TURNED:
        expected = expected.transpose(1, 0, 2)
    np.testing.assert_array_equal(run(image, box, size, kind, way=way, whole=whole), expected)


@settings(max_examples=50)
@given(
    case=cases(tuple(OTHERS | WORK), longest=7), way=st.sampled_from([HWC, CHW, TURNED]), whole=st.booleans()
)
def test_plain_python_gives_the_bits_of_numpy(case: Any, way: int, whole: bool) -> None:
    image, box, size, kind = case
    expected = resize_image(image, box, size, kind, (WORK | OTHERS)[image.dtype.str[1:]])
    if whole:
        expected = np.rint(expected)
    if way == TURNED:
        expected = expected.transpose(1, 0, 2)
    np.testing.assert_array_equal(run(image, box, size, kind, way=way, whole=whole, form=resize), expected)


@given(
    case=cases(),
    way=st.sampled_from([HWC, CHW, TURNED]),
    picked=st.lists(st.floats(-0.3, 0.999), min_size=1, max_size=12),
)
@example(
    case=(noise((4, 4, 3), "u1"), (0.0, 0.0, 4.0, 4.0), (3, 3), "bilinear"), way=HWC, picked=[-0.1, -0.1]
)
def test_what_index_steps_pick_comes_from_the_resized_image(case: Any, way: int, picked: Any) -> None:
    # Rows and columns dropped, repeated, in any order, and -1 for the fill.
    image, box, size, kind = case
    fill = [0.5, 1.5, 2.5, 3.5, 4.5]
    rows, cols = (
        np.array([int(at * length) if at >= 0 else -1 for at in picked])
        for length in (size if way != TURNED else size[::-1])
    )
    done = resize_image(image, box, size, kind, WORK[image.dtype.str[1:]])
    if way == TURNED:
        done = done.transpose(1, 0, 2)
    expected = done[np.maximum(rows, 0)][:, np.maximum(cols, 0)]
    expected[(rows < 0)[:, None] | (cols < 0)] = fill[: image.shape[2]]
    result = run(image, box, size, kind, way=way, rows=rows, cols=cols, fill=fill)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", sorted(WORK))
def test_an_image_in_its_own_size_stays_as_it_is(kind: Any, dtype: str) -> None:
    image = noise((9, 7, 3), dtype)
    if image.dtype.kind == "f":
        image[2, 3] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(run(image, whole_box(image), (9, 7), kind), image)
    np.testing.assert_array_equal(run(image, (2.0, 1.0, 5.0, 4.0), (5, 4), kind), image[2:7, 1:5])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("source", "target"),
    [((1, 1), (17, 33)), ((40, 50), (1, 1)), ((1, 50), (50, 1)), ((300, 2), (1, 300)), ((2, 2), (3, 3))],
)
def test_extreme_ratios_give_the_bits_of_numpy(kind: Any, source: Any, target: Any) -> None:
    for channels in (1, 3, 4):
        image = noise((*source, channels), "u1")
        result = run(image, whole_box(image), target, kind)
        np.testing.assert_array_equal(result, resize_image(image, whole_box(image), target, kind, np.float32))
        assert result.min() >= image.min() - 1e-3
        assert result.max() <= image.max() + 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_white_images_stay_white_when_rounded(kind: Any) -> None:
    image = np.full((211, 307, 3), 255, np.uint8)
    for size in [(1, 1), (7, 13), (210, 306), (400, 500)]:
        assert (run(image, whole_box(image), size, kind, whole=True) == 255.0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(5, 5), (30, 30)])
def test_nan_and_infinities_reach_as_far_as_in_numpy_and_no_farther(kind: Any, size: tuple[int, int]) -> None:
    image = noise((12, 12, 3), "f8")
    image[6, 6], image[3, 3] = np.nan, np.inf
    expected = resize_image(image, whole_box(image), size, kind, np.float64)
    np.testing.assert_array_equal(run(image, whole_box(image), size, kind), expected)
    assert np.isnan(expected).any()
    assert np.isfinite(expected).mean() > 0.3


def smooth(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    planes = [np.sin(y / 7 + x / 5), np.cos(x / 9), np.sin(y * x / 500)]
    return (127.5 + 127.5 * np.stack(planes, 2)).astype(np.uint8)


@pytest.mark.parametrize("size", [(20, 31), (60, 70), (101, 40), (7, 160)])
def test_triangle_and_nearest_are_those_of_pillow(size: tuple[int, int]) -> None:
    pil = pytest.importorskip("PIL.Image")
    image = smooth(60, 70)
    picture = pil.fromarray(image)
    expected = np.asarray(picture.resize(size[::-1], pil.Resampling.BILINEAR)).astype(float)
    result = run(image, whole_box(image), size, "triangle", whole=True)
    assert np.abs(result - expected).max() <= 1.0
    nearest = resize_image(image, whole_box(image), size, "nearest", np.float32)
    np.testing.assert_array_equal(nearest, np.asarray(picture.resize(size[::-1], pil.Resampling.NEAREST)))


@pytest.mark.parametrize("size", [(20, 31), (60, 70), (101, 40), (7, 160)])
def test_a_part_of_whole_pixels_is_a_picture_of_its_own_as_in_pillow(size: tuple[int, int]) -> None:
    pil = pytest.importorskip("PIL.Image")
    image = smooth(60, 70)
    cut = np.ascontiguousarray(image[11:44, 5:61])
    expected = np.asarray(pil.fromarray(cut).resize(size[::-1], pil.Resampling.BILINEAR)).astype(float)
    result = run(image, (11.0, 5.0, 33.0, 56.0), size, "triangle", whole=True)
    assert np.abs(result - expected).max() <= 1.0


# In sizes in which OpenCV's area does not miss borders that are whole numbers, as it does from 70 to 90 pixels.
@pytest.mark.parametrize("size", [(20, 31), (60, 70), (101, 97), (7, 60)])
@pytest.mark.parametrize("kind", ["bilinear", "area"])
def test_bilinear_and_area_are_those_of_opencv(kind: Any, size: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    image = smooth(60, 70)
    how = cv2.INTER_LINEAR if kind == "bilinear" else cv2.INTER_AREA
    expected = cv2.resize(image, size[::-1], interpolation=how).astype(float)
    result = run(image, whole_box(image), size, kind, whole=True)
    assert np.abs(result - expected).max() <= 1.0


@pytest.mark.torch
@pytest.mark.parametrize("size", [(20, 31), (60, 70), (101, 40), (7, 160)])
@pytest.mark.parametrize("kind", ["bilinear", "triangle"])
def test_floats_are_those_of_torch(kind: Any, size: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    image = smooth(60, 70) / 255
    batch = torch.from_numpy(image).permute(2, 0, 1)[None]
    expected = torch.nn.functional.interpolate(
        batch, size=size, mode="bilinear", antialias=kind == "triangle", align_corners=False
    )
    result = run(image, whole_box(image), size, kind)
    np.testing.assert_allclose(result, expected[0].permute(1, 2, 0).numpy(), atol=1e-5)
