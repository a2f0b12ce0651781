"""Datasets over a path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nogil_loader.bench.data import ImageFolder, open_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    for name, size, colour in [
        ("cats/a.jpg", (20, 10), (200, 100, 50)),
        ("cats/b.PNG", (20, 10), (1, 2, 3)),
        ("dogs/c.jpeg", (40, 30), (9, 9, 9)),
        ("dogs/grey.png", (20, 10), None),
    ]:
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = image.new("L", size, 7) if colour is None else image.new("RGB", size, colour)
        picture.save(path)
    (tmp_path / "pictures" / "notes.txt").write_text("no picture")
    return tmp_path / "pictures"


def test_images_of_a_folder_have_the_size_of_the_first_and_the_label_of_theirs(folder: Path) -> None:
    dataset = open_path(folder)
    assert len(dataset) == 4
    samples = [dataset[index] for index in range(4)]
    assert {image.shape for image, _ in samples} == {(10, 20, 3)}
    assert {image.dtype for image, _ in samples} == {np.dtype(np.uint8)}
    assert [label for _, label in samples] == [0, 0, 1, 1]
    assert np.abs(samples[0][0].astype(int) - [200, 100, 50]).max() <= 3  # JPEG
    assert (samples[1][0] == [1, 2, 3]).all()
    assert (samples[3][0] == 7).all()
    assert repr(dataset) == f"ImageFolder({str(folder)!r}, images of 10 x 20)"


def test_jpegs_are_decoded_without_the_codec_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ImageFolder(folder)
    with_codec = dataset[0][0].astype(int)
    monkeypatch.setattr(dataset, "_has_codec", False)
    assert np.abs(dataset[0][0].astype(int) - with_codec).max() <= 2


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no images in this folder, that is \.jpg"):
        open_path(tmp_path)


def test_an_array_is_mapped_and_its_rows_are_the_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(12).reshape(4, 3))
    dataset = open_path(tmp_path / "a.npy")
    assert isinstance(dataset.arrays.base, np.memmap)
    assert dataset[2].tolist() == [6, 7, 8]


def test_arrays_of_an_archive_are_parts_of_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(4), y=np.arange(8).reshape(4, 2))
    assert {key: value.tolist() for key, value in open_path(tmp_path / "a.npz")[3].items()} == {
        "x": 3,
        "y": [6, 7],
    }


def test_archives_of_arrays_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(4), y=np.arange(3))
    with pytest.raises(ValueError, match=r"a\.npz: arrays of a dataset need equal lengths"):
        open_path(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01\x00v\x00{'descr'"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.npy: "):
        open_path(tmp_path / "a.npy")
