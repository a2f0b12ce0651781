"""What a command line names, and which arguments of a loader are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.bench.subject import Subject, find_subject, parse_place
from nogil_loader.targets import Target, TargetError
from tests.bench import datasets
from tests.bench.datasets import Rows, place_of
from tests.loading import stream_of


def found(name: str) -> Subject:
    return find_subject(parse_place(place_of(name)))


def test_code_and_data_are_told_apart(tmp_path: Path) -> None:
    array = tmp_path / "a.npy"
    np.save(array, np.zeros((4, 2)))
    assert parse_place(str(array)) == array
    assert parse_place(str(tmp_path)) == tmp_path
    assert parse_place("package.module:name") == Target("package.module", "name")


@pytest.mark.parametrize("text", ["nothing", "no/such/folder", "script.py", "", "a:b:c"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected module:name or path\.py:name of a dataset"):
        parse_place(text)


def test_a_file_that_no_dataset_is_made_of_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.touch()
    with pytest.raises(
        ValueError, match=r"notes\.txt: expected a folder of images, or a file \.npy or \.npz"
    ):
        parse_place(str(path))


@pytest.mark.parametrize("name", ["rows", "Rows"])
def test_a_dataset_is_loaded_in_batches_of_32(name: str) -> None:
    subject = found(name)
    assert (subject.length, subject.is_loader, subject.no_peers) == (100, False, "")
    assert str(subject) == "Rows, 100 samples"
    with subject.loader(num_workers=0, prefetch_factor=2) as loader:
        assert [len(batch) for batch in loader] == [32, 32, 32, 4]


def test_a_list_is_a_dataset() -> None:
    subject = found("a_list")
    assert str(subject) == "list, 2 samples"


def test_an_iterable_is_one_that_peers_are_not_compared_on() -> None:
    subject = found("Stream")
    assert subject.length is None
    assert "is an iterable" in subject.no_peers


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "is int 3; expected a dataset or a DataLoader"),
        ("needs_an_argument", r"takes arguments \(missing a required argument: 'path'\)"),
        ("rowz", "has no 'rowz'; did you mean 'rows'"),
        ("HERE", "expected a dataset or a DataLoader"),
    ],
)
def test_what_is_no_dataset_is_refused(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        found(name)


def test_the_users_own_failure_comes_with_its_traceback() -> None:
    with pytest.raises(TargetError, match=r"raises\(\) failed") as caught:
        found("raises")
    assert "in raises" in caught.value.trace
    assert "RuntimeError: the disk is not mounted" in caught.value.trace


def test_a_loaders_own_arguments_are_kept() -> None:
    subject = found("loader")
    assert subject.is_loader
    assert subject.collate_fn.__name__ == "join"
    with subject.loader(num_workers=0, prefetch_factor=3, batch_size=20) as loader:
        assert (loader.num_workers, loader.prefetch_factor, loader.batch_size) == (0, 3, 20)
        batches = list(loader)
    assert [batch.shape for batch in batches] == [(40,)] * 5  # joined; the last batch is whole
    assert sorted(np.concatenate(batches)[::2]) == list(range(100))
    assert list(np.concatenate(batches)[::2]) != list(range(100))


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 7, "drop_last": True},
        {"batch_size": None},
        {"sampler": [5, 1, 3], "batch_size": 2},
        {"batch_sampler": [[1, 2], [7]]},
        {"batch_size": 4, "on_failure": "skip", "memory": "off", "timeout": 5, "in_order": False},
        {"batch_size": 4, "memory": nl.MemoryPolicy("8GB"), "clone_dataset": True},
        {"batch_size": 50, "persistent_workers": False, "output": "numpy"},
    ],
)
def test_a_loader_of_its_arguments_gives_the_same_batches(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = nl.DataLoader(Rows(), num_workers=0, seed=0, **arguments)
    monkeypatch.setattr(datasets, "rows", own)
    subject = find_subject(Target("tests.bench.datasets", "rows"))
    with subject.loader(num_workers=0, prefetch_factor=2) as loader:
        assert stream_of(loader) == stream_of(own)
        for name in ("memory_policy", "failure_policy", "timeout", "in_order", "clone_dataset"):
            assert getattr(loader, name) == getattr(own, name)


def test_a_batch_sampler_decides_about_the_size() -> None:
    subject = Subject(Rows(), {"batch_sampler": [[1]]})
    with pytest.raises(ValueError, match="batch_size=5: the loader's batch_sampler decides"):
        subject.loader(num_workers=0, prefetch_factor=2, batch_size=5)


def test_a_transform_is_kept_and_is_what_peers_do_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = nl.transforms.Normalize(0.0, 2.0)
    monkeypatch.setattr(datasets, "rows", nl.DataLoader(Rows(), transform=transform))
    subject = find_subject(Target("tests.bench.datasets", "rows"))
    assert subject.loader(num_workers=0, prefetch_factor=2).transform is transform
    assert "the loader has a transform" in subject.no_peers


@pytest.mark.torch
class TestTorch:
    def test_torchs_loader_is_taken_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = pytest.importorskip("torch.utils.data")
        for own, expected in [
            (data.DataLoader(Rows(), batch_size=8, drop_last=True), [8] * 12),
            (data.DataLoader(Rows(), batch_sampler=[[1, 2], [3]]), [2, 1]),
            (data.DataLoader(Rows(), batch_size=2, sampler=[4, 5, 6]), [2, 1]),
            (data.DataLoader(Rows(), batch_size=30, shuffle=True), [30, 30, 30, 10]),
        ]:
            monkeypatch.setattr(datasets, "rows", own)
            subject = find_subject(Target("tests.bench.datasets", "rows"))
            with subject.loader(num_workers=0, prefetch_factor=2) as loader:
                batches = list(loader)
            assert [len(batch) for batch in batches] == expected
            assert type(batches[0]).__name__ == "Tensor"
            assert subject.is_loader

    def test_shuffling_and_collation_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = pytest.importorskip("torch.utils.data")
        own = data.DataLoader(Rows(), batch_size=100, shuffle=True, collate_fn=datasets.join)
        monkeypatch.setattr(datasets, "rows", own)
        subject = find_subject(Target("tests.bench.datasets", "rows"))
        assert subject.collate_fn is datasets.join
        with subject.loader(num_workers=0, prefetch_factor=2) as loader:
            (batch,) = loader
        assert list(batch[::2]) != list(range(100))
        assert sorted(batch[::2]) == list(range(100))

    def test_our_loader_for_torch_stays_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = pytest.importorskip("torch")
        from nogil_loader.torch import DataLoader

        monkeypatch.setattr(datasets, "rows", DataLoader(Rows(), batch_size=50, num_workers=0))
        subject = find_subject(Target("tests.bench.datasets", "rows"))
        with subject.loader(num_workers=0, prefetch_factor=2) as loader:
            assert isinstance(next(iter(loader)), torch.Tensor)
