"""Photographs to try a loader on: made in memory, the same every time, and strict about damage."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import Photographs
from nogil_loader.data.dead_leaves import paint_dead_leaves

makers = pytest.mark.parametrize("make", [Photographs.load, Photographs.generated], ids=["load", "generated"])


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed: None in ``sys.modules`` makes an import fail."""
    for module in ("simplejpeg", "skimage", "skimage.data", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)


@makers
def test_samples_are_pixels_and_the_number_of_a_class(make: Any) -> None:
    photographs = make(count=30, size=(48, 64))
    assert len(photographs) == 30
    for pixels, label in photographs:
        assert pixels.shape == (48, 64, 3)
        assert pixels.dtype == np.uint8
        assert pixels.flags.writeable
        assert pixels.flags.c_contiguous
        assert isinstance(label, int)
        assert photographs.classes[label]
    assert len({label for _, label in photographs}) > 4
    assert len({pixels.tobytes() for pixels, _ in photographs}) == 30
    assert "30 images" in repr(photographs)
    assert photographs.source in repr(photographs)


@makers
def test_the_same_arguments_give_the_same_photographs_and_another_seed_gives_others(make: Any) -> None:
    first, second, other = (make(count=12, size=(32, 32), seed=seed) for seed in (5, 5, 6))
    assert first.images == second.images
    assert first.labels == second.labels
    assert first.images != other.images


@makers
def test_photographs_are_about_as_large_as_jpeg_of_photographs_is(make: Any) -> None:
    photographs = make(count=40)
    bytes_per_pixel = np.mean([len(image) for image in photographs.images]) / 256**2
    # White noise of this quality takes about 1.0 and a plain colour 0.01; see the numbers in dead_leaves.py.
    assert 0.15 < bytes_per_pixel < 0.45


@makers
def test_crops_may_be_larger_than_the_photographs(make: Any) -> None:
    # Of the photographs only one is as large; of the painted ones none is.
    for pixels, _ in make(count=16, size=(660, 700)):
        assert pixels.shape == (660, 700, 3)


def test_real_photographs_keep_their_names() -> None:
    photographs = Photographs.load(count=1, size=(16, 16))
    assert {"astronaut", "chelsea", "coffee", "rocket"} < set(photographs.classes)
    assert "scikit-image" in photographs.source


@makers
def test_indices_count_from_the_end_and_end_at_the_length(make: Any) -> None:
    photographs = make(count=3, size=(16, 16))
    assert photographs[-1][0].tolist() == photographs[2][0].tolist()
    for index in (3, -4):
        with pytest.raises(IndexError, match=rf"index {index} is out of range for Photographs of length 3"):
            photographs[index]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"no photograph", lambda data: b""]
)
def test_b27_damaged_data_is_an_error_that_names_the_sample(damage: Any) -> None:
    photographs = Photographs.generated(count=8, size=(64, 64))
    photographs.images[5] = damage(photographs.images[5])
    for index in (5, -3):
        with pytest.raises(ValueError, match="photograph 5 cannot be decoded") as caught:
            photographs[index]
        assert isinstance(caught.value.__cause__, ValueError), "the decoder's own error stays visible"
    photographs[4]


def test_without_the_extra_real_photographs_are_refused_with_what_to_install(without_extra: None) -> None:
    with pytest.raises(ImportError, match=r'pip install "nogil_loader\[photos\]"'):
        Photographs.load(count=1)
    with pytest.raises(ImportError, match=r'simplejpeg is not installed.*"nogil_loader\[photos\]"'):
        Photographs([b"jpeg"], [0], ["a"], "a test")


def test_without_the_extra_generated_ones_are_kept_as_pixels_and_say_so(without_extra: None) -> None:
    photographs = Photographs.generated(count=10, size=(32, 48))
    assert photographs.source == "dead leaves, uncompressed"
    first, _ = photographs[0]
    assert first.shape == (32, 48, 3)
    before = first.copy()
    first[...] = 0
    assert np.array_equal(photographs[0][0], before), "a sample belongs to whoever asked for it"


def test_generated_photographs_say_that_they_are_jpeg_where_the_codec_is_there() -> None:
    assert Photographs.generated(count=1, size=(16, 16)).source == "dead leaves, JPEG quality 90"


def test_jpeg_and_pixels_show_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    as_jpeg = Photographs.generated(count=5, size=(64, 64), seed=2)
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    as_pixels = Photographs.generated(count=5, size=(64, 64), seed=2)
    monkeypatch.undo()
    for (decoded, label), (pixels, same_label) in zip(as_jpeg, as_pixels, strict=True):
        assert label == same_label
        assert np.abs(decoded.astype(int) - pixels).mean() < 8


@makers
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"count": -1}, ValueError, "count=-1"),
        ({"count": 2.5}, TypeError, r"count=2\.5"),
        ({"size": 64}, TypeError, r"size=64: expected \(height, width\)"),
        ({"size": (64, 0)}, ValueError, r"size\[1\]=0"),
        ({"size": (64, 64, 3)}, TypeError, r"size=\(64, 64, 3\)"),
        ({"seed": -1}, ValueError, "seed=-1"),
    ],
)
def test_a_wrong_argument_is_refused(make: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(**{"count": 1, **arguments})


def test_images_without_labels_and_labels_without_classes_are_refused() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    with pytest.raises(ValueError, match="2 images and 1 labels"):
        Photographs([pixels, pixels], [0], ["a"], "a test")
    with pytest.raises(ValueError, match="label=1"):
        Photographs([pixels], [1], ["a"], "a test")


def test_copies_hold_the_same_photographs() -> None:
    photographs = Photographs.generated(count=3, size=(16, 16))
    for other in (pickle.loads(pickle.dumps(photographs)), copy.deepcopy(photographs)):
        assert [pixels.tolist() for pixels, _ in other] == [pixels.tolist() for pixels, _ in photographs]


def test_any_number_of_threads_may_decode_at_the_same_time() -> None:
    photographs = Photographs.generated(count=16, size=(64, 64))
    expected = [pixels.tobytes() for pixels, _ in photographs]
    barrier = threading.Barrier(6)
    results: list[list[bytes]] = []

    def read() -> None:
        barrier.wait()
        results.append([pixels.tobytes() for _ in range(10) for pixels, _ in photographs])

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected * 10] * 6


def test_dead_leaves_have_detail_at_every_scale_as_photographs_do() -> None:
    image = paint_dead_leaves(256, 320, seed=3).astype(float).mean(axis=2)
    spectrum = np.abs(np.fft.rfft2(image - image.mean())) ** 2
    frequency = np.hypot(np.fft.fftfreq(256)[:, None], np.fft.rfftfreq(320))
    octaves = [(2.0**-n, 2.0 ** (1 - n)) for n in range(2, 7)]
    power = [spectrum[(frequency >= low) & (frequency < high)].mean() for low, high in octaves]
    slope = np.polyfit([np.log2(low) for low, _ in octaves], np.log2(power), 1)[0]
    # The power of photographs falls as frequency**-2 (field amplitude as 1/f); noise has 0, a gradient about -4.
    assert -3.5 < slope < -1.5


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 300)])
def test_dead_leaves_can_be_of_any_size(shape: tuple[int, int]) -> None:
    assert paint_dead_leaves(*shape, seed=0).shape == (*shape, 3)
