"""Warped rows: the same bits as numpy, the pictures of OpenCV, nothing read or written beside the arrays."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from nogil_loader.kernels.compiler import jit
from nogil_loader.kernels.images.resized import warp_image
from nogil_loader.kernels.images.warp import nearest_pixels, warp_3, warp_4, warp_many
from tests.kernels.images.pictures import Guarded, noise

WORK = {"u1": "f4", "i2": "f4", "f8": "f8"}
FILL = (3.0, -0.1, 7.25, 0.0, 1.0)
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def warp(
    flat: Any,  # the source
    shape: Any,  # int64 (3,): its height, width and channels
    plan: Any,  # int64 (2,): whether channels are first, whether to round
    matrix: Any,
    fill: Any,
    corners: Any,
    weights: Any,
    row: Any,
    out: Any,  # (H, C, W)
    nearest: Any,  # int64 (H, W)
) -> None:
    """What a fused kernel does with an affine map."""
    height, width, channels = shape[0], shape[1], shape[2]
    whole = plan[1] != 0
    for y in range(len(out)):
        nearest_pixels(matrix, y, height, width, nearest[y])
        if plan[0]:
            steps = (width, 1, height * width)
            warp_many(flat, (height, width), steps, matrix, y, fill, whole, corners, weights, row)
        else:
            steps = (width * channels, channels, 1)
            if channels == 3:
                warp_3(flat, (height, width), steps, matrix, y, fill, whole, corners, weights, row)
            elif channels == 4:
                warp_4(flat, (height, width), steps, matrix, y, fill, whole, corners, weights, row)
            else:
                warp_many(flat, (height, width), steps, matrix, y, fill, whole, corners, weights, row)
        for c in range(channels):
            for x in range(row.shape[1]):
                out[y, c, x] = row[c, x]


@functools.cache
def compiled(dtype: str) -> Callable[..., None]:
    """``warp`` as a kernel for images of one dtype."""
    import numba

    from nogil_loader.kernels.images import vectors  # noqa: F401

    jit.introduce(numba)
    t = numba.types
    source = t.Array(getattr(t, np.dtype(dtype).name), 1, "C", readonly=True)
    work = t.float32 if WORK[dtype] == "f4" else t.float64
    ints, floats = t.int64[::1], t.float64[::1]
    tables = (ints, work[:, ::1], work[:, ::1], work[:, :, ::1], t.int64[:, ::1])
    signature = t.void(source, ints, ints, floats, floats, *tables)
    kernel: Callable[..., None] = numba.njit(signature, nogil=True, error_model="numpy")(warp)
    return kernel


def run(
    image: Any,
    matrix: Any,
    size: tuple[int, int],
    *,
    form: Callable[..., None] | None = None,
    first: bool = False,
    whole: bool = False,
    copy: bool = True,
) -> tuple[Any, Any]:
    """Warp an image (H, W, C); returns the bilinear result, and the nearest one as positions of source pixels."""
    channels = image.shape[2]
    work = WORK.get(image.dtype.str[1:], "f4")
    guarded = Guarded()
    flat = image.transpose(2, 0, 1) if first else image
    flat = (flat.copy() if copy else flat).reshape(-1)
    flat.flags.writeable = False
    out, nearest = guarded.array((size[0], channels, size[1]), work), guarded.array(size, np.int64)
    with np.errstate(all="ignore"):
        (form or compiled(image.dtype.str[1:]))(
            flat,
            np.array(image.shape),
            np.array([first, whole], np.int64),
            np.array(matrix, np.float64),
            np.array(FILL[:channels]),
            guarded.array((size[1],), np.int64),
            guarded.array((4, size[1]), work),
            guarded.array((channels, size[1]), work),
            out,
            nearest,
        )
    guarded.check()
    return out.transpose(0, 2, 1), nearest


def turn(degrees: float, zoom: float, shift: tuple[float, float], size: tuple[int, int]) -> tuple[float, ...]:
    """The map of a turn about the middle of an image."""
    a, middle = np.radians(degrees), (np.array(size[::-1]) - 1) / 2
    linear = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) * zoom
    move = middle + shift - linear @ middle
    return (*linear[0], move[0], *linear[1], move[1])


COEFFICIENTS = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-3, 3), st.floats(-1e18, 1e18))
MOVES = st.one_of(st.integers(-5, 25), st.floats(-5, 25), st.sampled_from([-1e300, 1e300]))
MATRICES = st.one_of(
    st.builds(
        turn,
        st.floats(-180, 180),
        st.floats(0.2, 2.0),
        st.tuples(st.floats(-9, 9), st.floats(-9, 9)),
        st.just((20, 20)),
    ),
    st.tuples(COEFFICIENTS, COEFFICIENTS, MOVES, COEFFICIENTS, COEFFICIENTS, MOVES),
)
SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))


def check(image: Any, matrix: Any, size: tuple[int, int], first: bool, form: Any = None) -> None:
    work = WORK.get(image.dtype.str[1:], "f4")
    fill = np.array(FILL[: image.shape[2]])
    result, pixels = run(image, matrix, size, first=first, form=form)
    np.testing.assert_array_equal(result, warp_image(image, matrix, size, "bilinear", fill, work))
    expected = warp_image(image, matrix, size, "nearest", fill, work)
    picked = image.reshape(-1, image.shape[2]).astype(work)[np.maximum(pixels, 0)]
    picked[pixels < 0] = fill
    np.testing.assert_array_equal(picked, expected)


@given(
    dtype=st.sampled_from(sorted(WORK)),
    shape=st.tuples(st.integers(1, 22), st.integers(1, 22), st.integers(1, 5)),
    matrix=MATRICES,
    size=SIZES,
    first=st.booleans(),
)
@example(dtype="u1", shape=(20, 20, 3), matrix=turn(20, 0.5, (0, 0), (24, 24)), size=(24, 24), first=False)
@example(dtype="f8", shape=(20, 20, 4), matrix=turn(200, 1, (1, 3), (24, 24)), size=(24, 24), first=False)
@example(dtype="u1", shape=(20, 20, 3), matrix=(np.nan,) * 6, size=(3, 3), first=False)
@example(dtype="i2", shape=(3, 3, 3), matrix=(np.inf, 0, 0, 0, -np.inf, 0), size=(3, 3), first=True)
def test_kernels_give_the_bits_of_numpy(dtype: str, shape: Any, matrix: Any, size: Any, first: bool) -> None:
    check(noise(shape, dtype), matrix, size, first)


@settings(max_examples=30)
@given(
    dtype=st.sampled_from(["u1", "u2", "f4", "f8"]),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)),
    matrix=MATRICES,
    size=st.tuples(st.integers(1, 6), st.integers(1, 9)),
    first=st.booleans(),
)
def test_plain_python_gives_the_bits_of_numpy(
    dtype: str, shape: Any, matrix: Any, size: Any, first: bool
) -> None:
    check(noise(shape, dtype), matrix, size, first, form=warp)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_rounded_when_asked_for(channels: int) -> None:
    image = noise((20, 20, channels), "u1")
    matrix = turn(10, 0.4, (0, 0), (20, 20))  # all of it inside
    exact, _ = run(image, matrix, (20, 20))
    rounded, _ = run(image, matrix, (20, 20), whole=True)
    np.testing.assert_array_equal(rounded, np.rint(exact))
    assert (exact != rounded).any()


@pytest.mark.parametrize("dtype", sorted(WORK))
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_identity_changes_nothing(dtype: str, channels: int) -> None:
    image = noise((9, 12, channels), dtype)
    result, pixels = run(image, IDENTITY, (9, 12))
    np.testing.assert_array_equal(result, image)
    np.testing.assert_array_equal(pixels.reshape(-1), np.arange(9 * 12))


def test_what_is_outside_is_exactly_the_fill() -> None:
    result, pixels = run(noise((4, 4, 3), "f8"), (1.0, 0.0, 100.3, 0.0, 1.0, 0.0), (5, 5))
    np.testing.assert_array_equal(result, np.broadcast_to(FILL[:3], (5, 5, 3)))
    assert (pixels == -1).all()


def test_nan_and_infinities_reach_their_neighbours_as_in_numpy() -> None:
    image = noise((12, 12, 3), "f8")
    image[6, 6], image[3, 3] = np.nan, np.inf
    check(image, turn(30, 0.7, (0, 0), (12, 12)), (12, 12), first=False)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("degrees", [0, 5, 45, 90, 180])
def test_warps_are_those_of_opencv(channels: int, degrees: float) -> None:
    cv2 = pytest.importorskip("cv2")
    image = cv2.resize(noise((8, 9, channels), "u1"), (70, 60)).reshape(60, 70, channels)
    matrix = np.array(turn(degrees, 0.8, (2, 1), (60, 70))).reshape(2, 3)
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    expected = cv2.warpAffine(image, matrix, (70, 60), flags=how, borderValue=FILL[:channels])
    result, _ = run(image, matrix.reshape(-1), (60, 70), whole=True)
    assert np.abs(np.clip(result, 0, 255) - expected.reshape(60, 70, channels)).max() <= 1.0


def walled(image: Any) -> tuple[mmap.mmap, Any]:
    """A copy of an image that ends where memory ends that may be read."""
    pages = -(-image.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    end = pages * mmap.PAGESIZE
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, end))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = np.frombuffer(memory, np.uint8, image.nbytes, end - image.nbytes).view(image.dtype)
    copy[:] = image.reshape(-1)
    return memory, copy.reshape(image.shape)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects memory by Linux' mprotect")
@pytest.mark.parametrize("dtype", sorted(WORK))
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_nothing_behind_the_source_is_read(dtype: str, channels: int) -> None:
    # Pixels are read in vectors; one beyond the last pixel ends the process.
    image = noise((20, 20, channels), dtype)
    _, copy = walled(image)
    for matrix in (IDENTITY, turn(180, 1, (0, 0), (20, 20)), turn(3, 0.9, (1, 1), (20, 20))):
        result, _ = run(copy, matrix, (20, 20), copy=False)
        np.testing.assert_array_equal(result, run(image, matrix, (20, 20))[0])
