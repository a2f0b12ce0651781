"""Traces: what stands in the file, that it is whole or not there, and that it stays small."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.engine import listening
from tests.faults.traps import Samples, Trap, raises
from tests.loading import Numbers, Stream


def recorded(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def load(path: Path, loader: nl.DataLoader, **options: Any) -> list[dict[str, Any]]:
    with loader, nl.trace(path, **options):
        for _ in loader:
            pass
    assert listening.listeners == ()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    return recorded(path)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_batch_has_its_place_on_the_track_of_who_loaded_it(workers: int, tmp_path: Path) -> None:
    events = load(tmp_path / "run.json", nl.DataLoader(Numbers(40), 4, num_workers=workers))
    batches = [event for event in events if event["name"] == "batch"]
    assert sorted(event["args"]["batch"] for event in batches) == list(range(10))
    assert {event["args"]["outcome"] for event in batches} == {"loaded"}
    assert {event["args"]["samples"] for event in batches} == {4}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {names[event["tid"]] for event in batches} <= {
        f"worker {worker}" for worker in range(max(1, workers))
    }
    assert Counter(event["name"] for event in events)["take"] == 10


def test_events_are_those_that_a_viewer_expects(tmp_path: Path) -> None:
    events = load(tmp_path / "run.json", nl.DataLoader(Numbers(12), 4, num_workers=1))
    for event in events:
        assert {"ph", "name", "pid"} <= set(event)
        if event["ph"] != "M":
            assert event["ts"] >= 0.0
        if event["ph"] == "X":
            assert event["dur"] >= 0.0
    assert {event["ph"] for event in events} == {"M", "X", "i", "C"}
    waiting = [event["args"]["batches"] for event in events if event["name"] == "batches ready"]
    assert max(waiting) >= 1
    assert waiting[-1] == 0
    times = [event["ts"] for event in events if "ts" in event]
    assert times == sorted(times)


def test_parts_of_a_batch_lie_within_it_and_name_their_sample(tmp_path: Path) -> None:
    began, leave = threading.Event(), threading.Event()

    class Held(Numbers):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                began.set()
                assert leave.wait(20)
            return index

    path = tmp_path / "run.json"
    with nl.DataLoader(Held(4), 4, num_workers=1) as loader, nl.trace(path):
        iterator = iter(loader)
        assert began.wait(20)
        threading.Timer(0.01, leave.set).start()
        assert list(next(iterator)) == [0, 1, 2, 3]
    events = recorded(path)
    (batch,) = (event for event in events if event["name"] == "batch")
    fetches = [event for event in events if event["name"] == "fetch"]
    assert "2" in {event["args"]["sample"] for event in fetches}
    for event in fetches:
        assert batch["ts"] - 1 <= event["ts"]
        assert event["ts"] + event["dur"] <= batch["ts"] + batch["dur"] + 1


def test_failures_and_rebuilds_are_in_it(tmp_path: Path) -> None:
    data = Samples(20, Trap(raises(ValueError("torn")), {7}, times=1))
    events = load(tmp_path / "run.json", nl.DataLoader(data, 4, num_workers=1, on_failure="rebuild"))
    (failure,) = (event for event in events if event["name"] == "failure")
    assert failure["args"]["error"] == "ValueError: torn"
    assert (failure["args"]["batch"], failure["args"]["then"]) == (1, "REBUILD")
    assert [event for event in events if event["name"] == "rebuild"]
    outcomes = Counter(event["args"]["outcome"] for event in events if event["name"] == "batch")
    assert outcomes == {"loaded": 5, "failed": 1}


def test_a_reader_of_an_iterable_has_a_track(tmp_path: Path) -> None:
    events = load(tmp_path / "run.json", nl.DataLoader(Stream(20), 4, num_workers=1))
    assert sorted(event["args"]["batch"] for event in events if event["name"] == "batch") == list(range(5))


def test_of_many_events_the_latest_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    events = load(path, nl.DataLoader(Numbers(1000), 2, num_workers=2), max_events=100)
    assert sum(event["ph"] != "M" for event in events) == 100
    told = json.loads(path.read_text())["otherData"]
    assert told["dropped"] == told["events"] - 100 > 0
    assert max(event["args"]["batch"] for event in events if event["name"] == "take") == 499


def test_what_ends_by_an_exception_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    data = Samples(20, Trap(raises(ValueError("torn")), {7}))
    with pytest.raises(nl.DeadWorkerError), nl.trace(path), nl.DataLoader(data, 4, num_workers=2) as loader:
        for _ in loader:
            pass
    assert [event for event in recorded(path) if event["name"] == "failure"]


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), nl.trace(tmp_path / "no" / "run.json"):
        raise AssertionError("the block must not run")
    assert listening.listeners == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_f01_a_wrong_bound_is_refused_with_name_and_value(value: Any, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=f"max_events={value!r}"):
        nl.trace(tmp_path / "run.json", max_events=value)


def test_a_trace_is_recorded_once(tmp_path: Path) -> None:
    trace = nl.trace(tmp_path / "run.json")
    with trace:
        pass
    with pytest.raises(RuntimeError, match="recorded once"):
        trace.__enter__()


def test_two_traces_at_once_see_the_same(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    with nl.DataLoader(Numbers(20), 4, num_workers=2) as loader, nl.trace(paths[0]), nl.trace(paths[1]):
        list(loader)
    counts = [Counter(event["name"] for event in recorded(path))["batch"] for path in paths]
    assert counts == [5, 5]


def test_samples_of_any_kind_can_be_keys(tmp_path: Path) -> None:
    class Words:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, key: Any) -> Any:
            return np.zeros(300_000)

    keys = [("a", 1), b"\xff", "ü" * 1000]
    events = load(tmp_path / "run.json", nl.DataLoader(Words(), 1, sampler=keys, num_workers=1))
    assert len([event for event in events if event["name"] == "batch"]) == 3


def test_a_file_that_cannot_be_written_does_not_hide_what_ended_the_block(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ZeroDivisionError), nl.trace(folder / "run.json"):
        folder.rmdir()
        raise ZeroDivisionError
    assert "the trace cannot be written" in caplog.text
    with pytest.raises(FileNotFoundError, match="the trace cannot be written") as caught:
        folder.mkdir()
        with nl.trace(folder / "run.json"):
            folder.rmdir()
    assert caught.value.filename == str(folder / "run.json")


def test_the_file_is_where_it_was_said_to_be_whatever_folder_is_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with nl.trace("run.json"):
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert (tmp_path / "run.json").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_child_of_a_fork_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    trace = nl.trace(os.fsencode(path))
    with trace, nl.DataLoader(Numbers(8), 4, num_workers=0) as loader:
        list(loader)
        child = os.fork()
        if child == 0:
            trace.__exit__(None, None, None)
            os._exit(0 if not path.exists() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert len([event for event in recorded(path) if event["name"] == "batch"]) == 2


def test_what_was_never_entered_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        nl.trace(tmp_path / "run.json").__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []
