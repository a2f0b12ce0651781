"""Noise has the distribution that it says, depends on a pixel's place only, and saturates."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nogil_loader.transforms.image.noise import GaussianNoise
from tests.transforms.image.agree import drawn, parameters, run
from tests.transforms.image.pictures import channels_first, picture, pictures


@settings(max_examples=60)
@given(pictures(), st.integers(0, 1000))
def test_the_kernel_is_the_same_in_numpy(image: np.ndarray, index: int) -> None:
    noise = GaussianNoise((0.0, 0.5), mean=0.1, p=0.9)
    run(noise, image, index=index, python=True)
    run(channels_first(noise), image, index=index, python=True)


@pytest.mark.parametrize("width", [16, 23])
def test_the_compiled_kernel_agrees(width: int) -> None:
    for index in range(3):
        run(GaussianNoise((0.0, 0.5), mean=0.1, p=0.9), picture(7, width), index=index, compiled=True)


def test_distribution() -> None:
    image = np.full((200, 200, 3), 5.0, np.float32)
    noise = (run(GaussianNoise(0.2, mean=0.1), image) - 5.0).astype(np.float64)
    # Of 120,000 numbers: the standard deviations of these statistics are 0.0006 and below.
    assert abs(noise.mean() - 0.1) < 0.003
    assert abs(noise.std() - 0.2) < 0.003
    standard = (noise - 0.1) / 0.2
    assert abs((standard**3).mean()) < 0.04
    assert abs((standard**4).mean() - 3) < 0.08
    for one, other in [
        (standard[1:], standard[:-1]),
        (standard[:, 1:], standard[:, :-1]),
        (standard[:, 4:], standard[:, :-4]),
        (standard[..., 1:], standard[..., :-1]),
    ]:
        assert abs((one * other).mean()) < 0.02


def test_samples_have_noise_of_their_own() -> None:
    image = np.zeros((50, 50), np.float32)
    first, second = (run(GaussianNoise(1.0), image, index=index) for index in (1, 2))
    assert abs((first * second).mean()) < 0.1
    again = run(GaussianNoise(1.0), image, index=1)
    np.testing.assert_array_equal(first, again)
    assert abs((first * run(GaussianNoise(1.0), image, index=1, seed=1)).mean()) < 0.1


def test_noise_depends_on_the_place_only() -> None:
    zeros = np.zeros((9, 10, 3), np.float32)
    noise = run(GaussianNoise(0.25), zeros)
    np.testing.assert_array_equal(run(GaussianNoise(0.25), np.zeros((5, 10, 3), np.float32)), noise[:5])
    values = picture(9, 10, dtype=np.float32)
    np.testing.assert_array_equal(run(GaussianNoise(0.25), values), values + noise)
    doubled = run(GaussianNoise(0.5), zeros)
    np.testing.assert_array_equal(doubled, 2 * noise)


@pytest.mark.parametrize(
    ("dtype", "white"), [("uint8", 255), ("uint16", 65535), ("int16", 32767), ("float32", 1)]
)
def test_full_intensity_is_one(dtype: str, white: float) -> None:
    image = np.full((100, 100), white // 2, dtype)
    noise = run(GaussianNoise(0.1), image).astype(np.float64) - white // 2
    assert abs(noise.std() / white - 0.1) < 0.004


def test_integers_saturate_and_floats_do_not() -> None:
    image = picture(20, 20)
    zeros = np.zeros(image.shape, np.float32)
    exact = image + run(GaussianNoise(255.0), zeros).astype(np.float64)  # std 255 in pixel values
    np.testing.assert_array_equal(run(GaussianNoise(1.0), image), np.clip(np.rint(exact), 0, 255))
    assert run(GaussianNoise(1.0), zeros).min() < 0


def test_not_a_number_stays() -> None:
    image = np.full((2, 3), np.nan, np.float32)
    image[0] = np.inf
    result = run(GaussianNoise(1.0), image, python=True)
    assert np.isposinf(result[0]).all()
    assert np.isnan(result[1]).all()


def test_deviations_are_drawn_from_the_range() -> None:
    image = picture(2, 2)
    told = drawn(GaussianNoise((0.1, 0.3), mean=0.5, p=0.75), image, range(1000))
    noisy = np.array([each["std"] for each in told if each["mean"]])
    assert abs(len(noisy) - 750) < 5 * 13.7  # the standard deviation of the count
    assert 0.1 <= noisy.min() < 0.105
    assert 0.295 < noisy.max() < 0.3
    assert {each["mean"] for each in told} == {0.0, 0.5}
    assert parameters(GaussianNoise(0.2), image) == {"std": 0.2, "mean": 0.0}


def test_without_noise_nothing_changes() -> None:
    image = picture(5, 6, dtype=np.float32)
    for noise in (GaussianNoise(0.0), GaussianNoise(0.5, p=0.0)):
        np.testing.assert_array_equal(run(noise, image, python=True), image)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: GaussianNoise(-0.1), ValueError, "GaussianNoise.std=-0.1"),
        (lambda: GaussianNoise((0.3, 0.1)), ValueError, r"GaussianNoise.std=\(0.3, 0.1\)"),
        (lambda: GaussianNoise(mean=float("inf")), ValueError, "GaussianNoise.mean=inf"),
        (lambda: GaussianNoise(p=1.5), ValueError, "GaussianNoise.p=1.5"),
        (lambda: GaussianNoise("loud"), TypeError, "GaussianNoise.std='loud'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
