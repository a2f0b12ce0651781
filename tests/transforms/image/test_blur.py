"""Blurred images are those of a plain two-dimensional convolution."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from nogil_loader.transforms.image.blur import GaussianBlur
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import NUMBERS, channels_first, channels_last, picture, pictures


def convolved(image: np.ndarray, size: tuple[int, int], sigma: float) -> np.ndarray:
    """The sum over a window of weights exp(-r² / 2 sigma²) of a mirrored image, in float64."""
    up, left = size[0] // 2, size[1] // 2
    y, x = np.mgrid[-up : up + 1, -left : left + 1]
    weights = np.exp(-(y * y + x * x) / (2 * sigma * sigma))
    weights /= weights.sum()
    wide = np.pad(image.astype(np.float64), ((up, up), (left, left), (0, 0)), "reflect")
    windows = np.lib.stride_tricks.sliding_window_view(wide, size, axis=(0, 1))
    return np.asarray(np.einsum("yxcij,ij->yxc", windows, weights))


@settings(max_examples=60)
@given(
    pictures(dtypes=NUMBERS, longest=10),
    st.tuples(st.sampled_from([1, 3, 5, 7, 9]), st.sampled_from([1, 3, 5, 7, 9])),
    st.floats(0.05, 5),
    st.booleans(),
)
def test_it_is_a_convolution(image: np.ndarray, size: tuple[int, int], sigma: float, first: bool) -> None:
    assume(size[0] // 2 < image.shape[0] and size[1] // 2 < image.shape[1])
    blur = GaussianBlur(size, sigma)
    if first:
        result = channels_last(run(channels_first(blur), image, python=True))
    else:
        result = run(blur, image, python=True).reshape(*image.shape[:2], -1)
    exact = convolved(image.reshape(*image.shape[:2], -1), size, sigma)
    if image.dtype.kind == "f":
        tolerance = 4e-6 if image.dtype == np.float32 else 1e-14
        np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance)
    else:
        # Rounded once; float32 sums of 16 bits are exact to some percent of a level.
        assert abs(result - exact).max() <= 0.55


def test_it_is_torchs_convolution() -> None:
    torch = pytest.importorskip("torch")
    image = picture(12, 17, dtype=np.float32)
    result = run(GaussianBlur((5, 9), 1.7), image)
    # As torchvision.transforms.functional.gaussian_blur does it.
    kernels = []
    for size in (5, 9):
        pdf = torch.exp(-0.5 * (torch.linspace(-(size // 2), size // 2, size) / 1.7) ** 2)
        kernels.append(pdf / pdf.sum())
    weights = (kernels[0][:, None] * kernels[1][None]).expand(3, 1, 5, 9)
    mirrored = torch.nn.functional.pad(torch.from_numpy(image).permute(2, 0, 1), (4, 4, 2, 2), mode="reflect")
    expected = torch.nn.functional.conv2d(mirrored, weights, groups=3).permute(1, 2, 0).numpy()
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 3), ("int32", None)])
def test_the_compiled_kernel_agrees(dtype: str, channels: int | None) -> None:
    image = picture(19, 23, channels, dtype)
    for size in (1, 3, (5, 7), (9, 1), 23):
        blur = GaussianBlur(size, (0.3, 3.0))
        run(blur, image, compiled=True)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("sigma", [0.1, 1.0, 20.0])
def test_a_flat_image_stays_flat(dtype: str, sigma: float) -> None:
    limits = Spec((), np.dtype(dtype)).limits() or (-1.0, 1.0)
    for value in limits:
        image = np.full((16, 16), value, dtype)
        result = run(GaussianBlur(31, sigma), image)
        np.testing.assert_allclose(result, image, rtol=1e-6 if np.dtype(dtype).kind == "f" else 0)


def test_a_narrow_gaussian_changes_nothing() -> None:
    image = picture(9, 9)
    np.testing.assert_array_equal(run(GaussianBlur(9, 0.05), image, python=True), image)
    np.testing.assert_array_equal(run(GaussianBlur(1, 5.0), image, python=True), image)


def test_infinities_and_nan_spread_as_far_as_the_kernel() -> None:
    image = np.zeros((9, 9), np.float32)
    image[4, 4] = np.inf
    result = run(GaussianBlur(3, 1.0), image, python=True)
    assert np.isposinf(result[3:6, 3:6]).all()
    assert (np.delete(result, np.s_[3:6], 0) == 0).all()
    image[4, 4] = np.nan
    assert np.isnan(run(GaussianBlur(3, 1.0), image, python=True)).sum() == 9


def test_sigma_is_drawn_from_its_range() -> None:
    image = picture(5, 5)
    sigmas = np.array([each["sigma"] for each in drawn(GaussianBlur(3, (0.5, 1.5)), image, range(1000))])
    assert 0.5 <= sigmas.min() < 0.51
    assert 1.49 < sigmas.max() < 1.5
    assert abs(sigmas.mean() - 1) < 5 * math.sqrt(1 / 12 / 1000)
    assert parameters(GaussianBlur(3, 0.7), image) == {"sigma": 0.7}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: GaussianBlur(4), ValueError, "GaussianBlur.kernel_size=4: expected odd numbers"),
        (lambda: GaussianBlur((3, 2)), ValueError, r"GaussianBlur.kernel_size=\(3, 2\): expected odd"),
        (lambda: GaussianBlur(-3), ValueError, "GaussianBlur.kernel_size=-3"),
        (lambda: GaussianBlur(0), ValueError, "GaussianBlur.kernel_size=0"),
        (lambda: GaussianBlur(2.5), TypeError, "GaussianBlur.kernel_size=2.5"),  # type: ignore[arg-type]
        (lambda: GaussianBlur(3, 0), ValueError, "GaussianBlur.sigma=0: expected positive numbers"),
        (lambda: GaussianBlur(3, (-1, 1)), ValueError, "GaussianBlur.sigma=-1"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_images_that_do_not_fit() -> None:
    blur = GaussianBlur((11, 9))
    with pytest.raises(ValueError, match=r"an image of 5 x 5 pixels is too small.* up to 9 x 9") as told:
        blur.step(Spec((5, 5), np.dtype(np.uint8)))
    assert str(told.value).startswith(repr(blur))
    with pytest.raises(ValueError, match="an image of bool has only two values"):
        GaussianBlur(3).step(Spec((5, 5), np.dtype(np.bool_)))
