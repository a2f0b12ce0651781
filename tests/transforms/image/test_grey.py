from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.grey import Grayscale, RandomGrayscale
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.tone import Brightness
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Operation
from tests.transforms.image.agree import run
from tests.transforms.image.test_colour_kernels import pixels


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3])
def test_luma_of_every_dtype(channels: int, dtype: str) -> None:
    image = pixels(dtype, (4, 5, 3), 1)
    result = run(Grayscale(channels), image, python=True)
    with np.errstate(invalid="ignore"):
        exact = image.astype(np.float64) @ [0.2989, 0.587, 0.114]
    assert result.shape == (4, 5, channels)
    for channel in range(channels):
        if result.dtype.kind == "f":
            np.testing.assert_allclose(result[..., channel], exact, rtol=1e-5, atol=1e-6)
        else:
            assert (
                np.abs(result[..., channel] - (np.maximum(exact, 0) if dtype[0] == "u" else exact)).max()
                <= 0.51
            )


def test_white_stays_white() -> None:
    assert run(Grayscale(), np.full((1, 1, 3), 255, np.uint8)).tolist() == [[[255]]]


def test_luma_is_that_of_pillow() -> None:
    picture = pytest.importorskip("PIL.Image")
    image = pixels("uint8", (20, 20, 3), 3)
    expected = np.asarray(picture.fromarray(image).convert("L"))
    assert np.abs(run(Grayscale(), image)[..., 0].astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("shape", "channels", "made"),
    [
        ((4, 5), 1, (4, 5)),
        ((4, 5), 3, (4, 5, 3)),
        ((4, 5, 1), 1, (4, 5, 1)),
        ((4, 5, 1), 3, (4, 5, 3)),
    ],
)
def test_images_of_one_channel_keep_their_values(
    shape: tuple[int, ...], channels: int, made: tuple[int, ...]
) -> None:
    image = pixels("uint8", shape, 1)
    result = run(Grayscale(channels), image, python=True)
    assert result.shape == made
    np.testing.assert_array_equal(
        result, np.broadcast_to(image.reshape(4, 5, 1), (4, 5, channels)).reshape(made)
    )


def test_channels_first_and_what_follows() -> None:
    image = pixels("uint8", (3, 4, 5), 1)
    one = run(Compose([ToHWC(), Grayscale(), Brightness(0.5), ToCHW()]), image, python=True)
    three = run(Compose([ToHWC(), Brightness(0.5), Grayscale(3), ToCHW()]), image, python=True)
    assert (one.shape, three.shape) == ((1, 4, 5), (3, 4, 5))
    assert np.abs(one.astype(int) - three).max() <= 1


def test_some_samples_are_grey() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    grey = run(Grayscale(3), image)
    results = [run(RandomGrayscale(0.5), image, index=i, python=i < 4) for i in range(100)]
    assert all((each == image).all() or (each == grey).all() for each in results)
    assert 30 < sum((each == grey).all() for each in results) < 70
    np.testing.assert_array_equal(run(RandomGrayscale(1), image[..., :1], python=True), image[..., :1])


@pytest.mark.parametrize("transform", [Grayscale(), Grayscale(3), RandomGrayscale()])
@pytest.mark.parametrize("channels", [2, 4])
def test_one_channel_or_three(transform: Operation, channels: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^{type(transform).__name__}\(.*: expected an image of 1 or 3 channels"
    ):
        transform.step(Spec((4, 5, channels), np.dtype(np.uint8)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grayscale(2), r"Grayscale.num_output_channels=2: expected 1 or 3"),
        (lambda: Grayscale(True), r"expected 1 or 3"),
        (lambda: RandomGrayscale(-0.1), r"RandomGrayscale.p=-0.1"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
