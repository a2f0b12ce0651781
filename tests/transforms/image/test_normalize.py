from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.cast import ToFloat
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.spec import Spec
from tests.transforms.image.agree import run
from tests.transforms.image.test_colour_kernels import pixels

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float32", "float64"])
def test_every_dtype(dtype: str) -> None:
    image = pixels(dtype, (4, 5, 3), 1)
    white = np.iinfo(dtype).max if image.dtype.kind in "iu" else 1
    result = run(Normalize(MEAN, STD), image, python=True)
    assert result.dtype == np.float32
    exact = (image.astype(np.float64) / white - MEAN) / STD
    np.testing.assert_allclose(result, exact, rtol=1e-6, atol=2e-6)


def test_scaled_before_or_within_is_the_same() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    np.testing.assert_allclose(
        run(Compose([ToFloat(), Normalize(MEAN, STD)]), image), run(Normalize(MEAN, STD), image), atol=2e-6
    )


def test_one_number_for_all_channels_and_no_axis_for_them() -> None:
    image = pixels("uint8", (4, 5), 1)
    result = run(Normalize(0.5, 0.25), image, python=True)
    np.testing.assert_allclose(result, (image / 255 - 0.5) / 0.25, atol=2e-6)
    colour = pixels("uint8", (4, 5, 3), 1)
    np.testing.assert_array_equal(
        run(Normalize(0.5, 0.25), colour), run(Normalize([0.5] * 3, (0.25,) * 3), colour)
    )


def test_axes_are_put_in_order() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    planes = run(ToCHW(), image, python=True)
    np.testing.assert_array_equal(planes, image.transpose(2, 0, 1))
    np.testing.assert_array_equal(run(ToHWC(), planes, python=True), image)
    grey = image[..., 0].copy()
    assert run(ToCHW(), grey, python=True).shape == (1, 4, 5)
    assert run(ToHWC(), grey, python=True).shape == (4, 5, 1)
    expected = run(Normalize(MEAN, STD), image).transpose(2, 0, 1)
    np.testing.assert_array_equal(run(Compose([Normalize(MEAN, STD), ToCHW()]), image, python=True), expected)
    np.testing.assert_array_equal(run(Compose([ToHWC(), ToCHW(), Normalize(MEAN, STD)]), planes), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normalize(0.5, 0), r"Normalize.std=0: expected positive numbers"),
        (lambda: Normalize(0.5, (0.5, -1)), r"expected positive numbers"),
        (lambda: Normalize([], 1), r"Normalize.mean=\[\]: expected at least one number"),
        (lambda: Normalize(np.nan, 1), r"Normalize.mean=.*: expected a finite number"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_as_many_numbers_as_channels() -> None:
    for transform in (Normalize(MEAN, 1), Normalize(0, STD)):
        with pytest.raises(
            ValueError, match=r"^Normalize\(.*(mean|std) has 3 values, but .* has 1 channels?"
        ):
            transform.step(Spec((4, 5), np.dtype(np.uint8)))
    with pytest.raises(ValueError, match=r"^ToHWC\(\): expected an image"):
        ToHWC().step(Spec((4,), np.dtype(np.uint8)))
