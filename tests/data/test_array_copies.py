"""Copies of an array dataset: of mapped files by their path, of other arrays by value."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import ArrayDataset


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    """A read-only map of a .npy file with 40 rows of 25 kB, in the byte order of other machines."""
    array = np.arange(40 * 6400, dtype=">f4").reshape(40, 6400)
    np.save(tmp_path / "rows.npy", array)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert isinstance(rows, np.memmap)
    return rows


def copies_of(dataset: Any) -> list[Any]:
    return [pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset), copy.copy(dataset)]


def test_copies_read_the_same_samples() -> None:
    dataset = ArrayDataset(x=np.arange(6).reshape(3, 2), y=np.array(["a", "b", "c"]))
    for other in copies_of(dataset):
        assert len(other) == 3
        assert other[1]["x"].tolist() == [2, 3]
        assert other[2]["y"] == "c"
        assert repr(other) == repr(dataset)
    assert not np.shares_memory(copy.deepcopy(dataset)[0]["x"], dataset[0]["x"])


@pytest.mark.parametrize(
    "view",
    [
        lambda rows: rows,
        lambda rows: rows[5:30:3],
        lambda rows: rows[::-1, ::2],
        lambda rows: rows.reshape(40, 80, 80).transpose(0, 2, 1),
        lambda rows: rows[:, :10].T,
        lambda rows: rows.view(np.ndarray)[7:],
    ],
    ids=["whole", "slice", "reversed", "transposed", "columns", "plain view"],
)
def test_a_mapped_file_is_copied_by_its_path_and_not_by_its_contents(
    mapped: np.memmap, view: Callable[[np.ndarray], np.ndarray]
) -> None:
    dataset = ArrayDataset(view(mapped))
    assert len(pickle.dumps(dataset)) < 2000
    again = copy.deepcopy(copy.deepcopy(dataset))
    assert len(pickle.dumps(again)) < 2000, "a copy is a mapped file too"
    for other in [*copies_of(dataset), again]:
        assert repr(other) == repr(dataset)
        assert other.arrays.tobytes() == np.asarray(dataset.arrays).tobytes()
        assert not other.arrays.flags.writeable


def test_a_copy_of_a_writable_map_sees_what_is_written_and_does_not_empty_the_file(tmp_path: Path) -> None:
    rows = np.memmap(tmp_path / "rows.raw", np.int32, "w+", shape=(4, 2))
    rows[:] = 7
    for other in copies_of(ArrayDataset(rows)):
        rows[1] += 1
        assert other[0].tolist() == [7, 7]
        assert other[1].tolist() == rows[1].tolist()


def test_private_changes_to_a_map_travel_with_the_copy(tmp_path: Path) -> None:
    np.arange(4).tofile(tmp_path / "rows.raw")
    rows = np.memmap(tmp_path / "rows.raw", np.int64, "c")
    rows[2] = 99
    for other in copies_of(ArrayDataset(rows)):
        assert list(other) == [0, 1, 99, 3]


def test_a_copy_whose_file_is_gone_says_which(mapped: np.memmap) -> None:
    data = pickle.dumps(ArrayDataset(mapped))
    Path(str(mapped.filename)).unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.npy"):
        pickle.loads(data)


def test_rows_of_a_map_are_plain_arrays(mapped: np.memmap) -> None:
    assert type(ArrayDataset(mapped)[0]) is np.ndarray
