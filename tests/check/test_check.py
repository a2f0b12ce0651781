"""The check as its users see it: what it takes, what it heeds, what it returns, what it refuses."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader import cli
from nogil_loader.check import check_dataset, speed
from tests.check.hostile import Lines, SharedFile
from tests.scripts import RunScript

QUICK: dict[str, Any] = {"samples": 12, "threads": 4, "rounds": 1, "timeout": 5.0}


@pytest.fixture(autouse=True)
def no_long_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast these datasets are is of no interest."""
    monkeypatch.setattr(speed, "SECONDS", 0.002)


class Squares:
    def __init__(self, length: int = 30) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return {"x": np.full(4, index**2), "name": f"number {index}"}


def test_the_report_says_what_the_dataset_is_like() -> None:
    report = check_dataset(Squares(), samples=20, threads=4, rounds=1)
    assert (report.name, report.kind, report.length, report.ok) == ("Squares", "map", 30, True)
    assert report.summary.read == 20
    text = str(report)
    assert text.startswith("Squares, 30 samples, 20 of them read: nothing wrong was found\n")
    assert "  name  str\n  x     int64 (4,)\n" in text
    assert "read in 4 threads at once" in text
    assert all(len(line) <= 60 for line in report.to_text(60).splitlines())


def test_the_report_can_be_written_as_json(tmp_path: Path) -> None:
    dataset = SharedFile(tmp_path)
    try:
        report = check_dataset(dataset, **QUICK)
    finally:
        dataset.close()
    facts = json.loads(report.to_json())
    assert facts["ok"] is False
    assert facts["dataset"] == {"name": "SharedFile", "kind": "map", "length": 24}
    assert facts["findings"][0]["kind"] == "differs"
    assert facts["findings"][0]["indices"]
    assert facts["summary"]["handles"] == [["dataset.file", "an open file"]]


def test_the_gil_share_of_a_sample_is_told_where_it_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "SECONDS", 0.2)
    measured = check_dataset(Squares(), **QUICK).summary.speed
    assert measured is not None
    assert measured.alone > 0
    assert measured.together > 0
    with nl.gil_meter() as meter:
        pass
    if meter.report().available and measured.gil is not None:
        assert 0 < measured.gil <= 1


def test_slow_samples_are_named(tmp_path: Path) -> None:
    class Slow(Lines):
        def __getitem__(self, index: int) -> str:
            if index == 9:
                threading.Event().wait(0.005)
            return super().__getitem__(index)

    report = check_dataset(Slow(tmp_path), **{**QUICK, "samples": 24})
    assert [key for key, _ in report.summary.slow] == [9]
    assert report.findings == ()


# Loaders


def test_each_thread_reads_its_own_copy_if_the_loader_gives_it_one(tmp_path: Path) -> None:
    opened = [SharedFile(tmp_path)]

    def clone(worker: int) -> SharedFile:
        opened.append(SharedFile(tmp_path))
        return opened[-1]

    try:
        shared = nl.DataLoader(opened[0], num_workers=2)
        assert not check_dataset(shared, **QUICK).ok
        cloned = nl.DataLoader(opened[0], num_workers=2, clone_dataset=clone)
        assert check_dataset(cloned, **QUICK).findings == ()
        assert len(opened) == 1 + QUICK["threads"]
    finally:
        for each in opened:
            each.close()


class PerWorker(Squares):
    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def __getitem__(self, index: int) -> Any:
        return self.local.scale * index


def test_worker_init_fn_runs_in_each_thread_before_its_first_call() -> None:
    dataset = PerWorker()
    workers = []

    def init(worker: int) -> None:
        info = nl.get_worker_info()
        assert info is not None
        workers.append(info.id)
        dataset.local.scale = 2

    report = check_dataset(nl.DataLoader(dataset, num_workers=2, worker_init_fn=init), **QUICK)
    assert sorted(workers) == list(range(QUICK["threads"]))
    # In the caller's own thread nobody has set it up.
    assert {finding.kind for finding in report.findings} <= {"thread-bound"}


def test_a_collate_function_of_ones_own_may_take_ragged_samples() -> None:
    ragged = [np.zeros(2 + at % 3) for at in range(12)]
    assert [each.kind for each in check_dataset(ragged, **QUICK).findings] == ["ragged"]
    loader = nl.DataLoader(ragged, batch_size=4, collate_fn=nl.pad_collate())
    assert check_dataset(loader, **QUICK).findings == ()


def test_keys_of_a_sampler_and_of_a_mapping_are_used() -> None:
    class Keyed:
        def __getitem__(self, key: str) -> str:
            return key.upper()

    loader = nl.DataLoader(Keyed(), sampler=["a", "b", "c"], num_workers=1)
    assert check_dataset(loader, **QUICK).summary.read == 3
    assert check_dataset({"a": 1, "b": 2}, **QUICK).summary.read == 2
    with pytest.raises(TypeError, match="has no __len__"):
        check_dataset(Keyed(), **QUICK)


@pytest.mark.torch
def test_a_loader_of_torch_is_as_good_as_its_dataset() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(20.0), torch.arange(20))
    report = check_dataset(torch.utils.data.DataLoader(data, batch_size=4), **QUICK)
    assert report.findings == ()
    assert [part.describe() for part in report.summary.parts[1:]] == [
        "tensor of float32 ()",
        "tensor of int64 ()",
    ]


# Random numbers and iterables


def test_random_samples_are_still_compared(tmp_path: Path) -> None:
    class Noise(Squares):
        def __init__(self) -> None:
            super().__init__()
            self.index = 0

        def __getitem__(self, index: int) -> Any:
            noise = np.random.rand()
            self.index = index
            return np.array([noise, self.index])

    kinds = {finding.kind for finding in check_dataset(Noise(), **QUICK).findings}
    assert kinds == {"differs", "random-global"}


def test_the_samples_own_generator_is_the_one_that_a_loader_gives() -> None:
    class Drawn(Squares):
        drawn: dict[int, float] = {}

        def __getitem__(self, index: int) -> Any:
            self.drawn[index] = float(nl.sample_rng().random())
            return self.drawn[index]

    dataset = Drawn()
    assert check_dataset(dataset, seed=7, **QUICK).findings == ()
    checked = {index: value for index, value in dataset.drawn.items() if index < 30}
    batches = list(nl.DataLoader(dataset, batch_size=30, seed=7, num_workers=1))
    assert checked
    assert all(batches[0][index] == value for index, value in checked.items())


def test_an_endless_iterable_is_read_at_its_beginning() -> None:
    class Endless:
        def __iter__(self) -> Iterator[int]:
            number = 0
            while True:
                yield number
                number += 1

    report = check_dataset(Endless(), **QUICK)
    assert report.kind == "iterable"
    assert report.summary.read == QUICK["samples"]
    assert report.findings == ()
    assert "one thread reads it" in str(report)


# Refusals


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        ([], ValueError, "dataset=\\[\\]: list is empty"),
        (iter([]), ValueError, "it is empty"),
        (3, TypeError, "defines neither __getitem__ nor __iter__"),
        (Squares, TypeError, "this is the class itself"),
        ("text", TypeError, "expected a dataset, not str"),
    ],
)
def test_f01_what_is_no_dataset_is_refused(dataset: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_dataset(dataset)


@pytest.mark.parametrize(
    "arguments",
    [
        {"samples": 0},
        {"samples": "many"},
        {"threads": 1},
        {"threads": 1000},
        {"rounds": -1},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_f01_wrong_arguments_are_refused_by_name(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises((TypeError, ValueError), match=f"{name}="):
        check_dataset([1, 2, 3], **arguments)


# The command

MODULE = """
import numpy as np


class Rows:
    length = 20

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return np.full(3, index)


class Shared(Rows):
    def __getitem__(self, index):
        self.index = index
        return np.full(3, self.index)


class Damaged(Rows):
    def __getitem__(self, index):
        if index == 13:
            raise ValueError("sample 13 is damaged")
        return index


class Empty(Rows):
    length = 0


rows = Rows()
number = 3


def make():
    return Rows()


def needs(argument):
    return Rows()


def broken():
    raise RuntimeError("the disk is gone")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hers.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("hers.py:rows", 0, "Rows, 20 samples: nothing wrong was found"),
        ("hers.py:make", 0, "nothing wrong was found"),
        ("hers.py:Rows", 0, "nothing wrong was found"),
        ("hers.py:Shared", 1, "ERROR: not thread-safe"),
        ("hers.py:Damaged", 1, "sample 13: ValueError: sample 13 is damaged (hers.py:24 in __getitem__)"),
    ],
)
def test_the_command_tells_and_its_code_says_whether_it_is_bad(
    target: str, code: int, told: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", target, "--threads", "4", "--rounds", "1"]) == code
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("hers.py:number", "hers.py:number is int 3; expected a dataset"),
        ("hers.py:needs", "hers.py:needs takes arguments"),
        ("hers.py:row", "hers.py has no 'row'; did you mean 'rows'?"),
        ("hers.py:Empty", "Empty is empty; expected at least one sample"),
        ("hers.py:broken", "RuntimeError: the disk is gone\nnogil-loader: hers.py:broken() failed"),
        ("his.py:rows", "there is no file his.py"),
        ("nowhere:rows", "there is no module 'nowhere'"),
    ],
)
def test_f01_the_command_says_what_is_wrong_with_its_target(
    target: str, told: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", target, "--json", "out.json"]) == 1
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in module.iterdir() if path.name != "__pycache__") == ["hers.py"]


def test_f01_an_error_in_the_users_module_has_its_own_traceback(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (module / "bad.py").write_text("import hers_missing_dependency\n")
    assert cli.main(["check", "bad.py:x"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):\n")
    assert "ModuleNotFoundError: No module named 'hers_missing_dependency'" in told
    assert "nogil_loader/" not in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rows"], "target 'rows': expected module:name or path.py:name"),
        (["hers.py:rows", "--samples", "0"], "argument --samples: '0': expected an integer ≥ 1"),
        (["hers.py:rows", "--threads", "1"], "argument --threads: '1': expected an integer from 2 to 256"),
        (["hers.py:rows", "--timeout", "0"], "argument --timeout: '0': expected seconds above 0"),
        (
            ["hers.py:rows", "--json", "no/such/folder.json"],
            "argument --json: no/such/folder.json: there is no",
        ),
        (["hers.py:rows", "--json", "."], "argument --json: . is a folder"),
    ],
)
def test_f01_wrong_arguments_of_the_command_are_refused(
    arguments: list[str], told: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", *arguments])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_json_goes_to_a_file_or_takes_the_reports_place(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "hers.py:rows", "--samples", "9", "--threads", "2", "--rounds", "0"]
    assert cli.main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert cli.main([*arguments, "--json", "out.json"]) == 0
    assert capsys.readouterr().out.startswith("Rows, 20 samples, 9 of them read")
    written = json.loads((module / "out.json").read_text())
    assert printed["summary"]["read"] == written["summary"]["read"] == 9
    assert written.keys() == printed.keys() == {"format", "ok", "dataset", "findings", "summary"}


def test_a_crash_of_the_process_leaves_the_stacks_of_all_threads(run_script: RunScript) -> None:
    result = run_script(
        """
        import signal, sys, threading

        class Crashes:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                if threading.current_thread().name == "check-2":
                    signal.raise_signal(signal.SIGSEGV)
                return index

        from nogil_loader.cli import main
        sys.modules["mine"] = sys.modules["__main__"]
        main(["check", "mine:Crashes"])
        """
    )
    assert result.returncode == -11
    assert "nogil-loader check: asking for" in result.stderr
    assert "in __getitem__" in result.stderr


def test_files_that_a_dataset_is_provoked_to_lose_raise_no_warnings(tmp_path: Path) -> None:
    class Reopens(Lines):
        def __getitem__(self, index: int) -> Any:
            self.file = (self.folder / "file").open("rb")
            try:
                return self.file.read() + bytes([index])
            finally:
                self.file.close()

    (tmp_path / "file").write_bytes(b"data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not check_dataset(Reopens(tmp_path), **QUICK).ok
