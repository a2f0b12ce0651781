"""The JSON of a sweep: what goes in comes out, and what is damaged is refused by its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.bench.result import (
    BatchSeconds,
    Gil,
    Memory,
    Queue,
    Result,
    ResultError,
    Setting,
    read_result,
)
from tests.bench.made_up import failed_of, result_of, setting_of

numbers = st.floats(0, 1e12)
points = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
settings = st.builds(
    Setting,
    loader=st.sampled_from(["nogil_loader", "torch"]),
    num_workers=st.integers(0, 99),
    prefetch_factor=st.none() | st.integers(1, 9),
    batch_size=st.none() | st.integers(1, 999),
    rates=st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=4).map(tuple),
    batch_seconds=st.none() | st.builds(BatchSeconds, numbers, numbers, numbers),
    wait_share=st.none() | numbers,
    stages=st.dictionaries(st.text(max_size=5), numbers, max_size=3),
    gil=st.none() | st.builds(Gil, numbers, st.dictionaries(st.just("fetch"), numbers), numbers, numbers),
    memory=st.none() | st.builds(Memory, st.none() | st.integers(0), st.none() | st.integers(0), points),
    queue=st.none() | st.builds(Queue, st.none() | st.integers(0), points),
    failure=st.none(),
    note=st.text(max_size=9),
)


@given(st.lists(settings, min_size=1, max_size=3))
def test_what_was_written_is_read(given_settings: list[Setting]) -> None:
    result = result_of(*given_settings, failed_of(3), memory_limit=10**9, notes=("one", "two"))
    assert Result.from_dict(json.loads(result.to_json())) == result


def test_whoever_reads_the_file_finds_medians_and_bounds() -> None:
    data = result_of(setting_of(1, 100.0), failed_of(2)).to_dict()
    assert data["format"] == 1
    assert [data["settings"][0][key] for key in ("median", "low", "high")] == [100.0, 99.0, 101.0]
    assert [data["settings"][1][key] for key in ("median", "low", "high")] == [None, None, None]
    assert data["settings"][1]["failure"] == {"error": "ValueError: bad", "sample": "7", "worker": "0"}


def test_keys_that_a_later_release_adds_are_passed_over() -> None:
    data = result_of(setting_of(1, 100.0)).to_dict()
    data["settings"][0]["new"] = data["new"] = 1
    assert Result.from_dict(data).settings[0].num_workers == 1


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["settings", 1, "rates", 0], "fast", r"settings\[1\]\.rates\[0\]: expected a number, not 'fast'"),
        (["settings", 0, "num_workers"], 1.5, r"settings\[0\]\.num_workers: expected an integer, not 1\.5"),
        (["settings", 0, "num_workers"], True, "expected an integer, not True"),
        (["settings", 0, "rates"], [], r"settings\[0\]: expected either rates or a failure"),
        (["settings", 0, "rates", 1], -1.0, r"settings\[0\]: rates: expected numbers above 0, not -1.0"),
        (["settings", 0, "rates", 0], float("nan"), "expected a number, not nan"),
        (["settings", 0, "stages"], [], r"settings\[0\]\.stages: expected an object"),
        (["settings"], {}, "settings: expected a list"),
        (["machine", "load"], "high", "machine.load: expected a number, not 'high'"),
        (["machine", "cores"], None, "machine.cores: expected an integer, not None"),
        (["machine"], 5, "machine: expected an object, not 5"),
        (["recommended"], 7, "recommended=7: expected the index of a setting that was measured"),
        (["format"], 2, "format 2: this version of nogil_loader reads format 1"),
        (["format"], None, "format None"),
    ],
)
def test_what_is_damaged_is_named_by_its_place(path: list[Any], value: Any, message: str) -> None:
    data = result_of(setting_of(1, 100.0), setting_of(2, 200.0)).to_dict()
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ResultError, match=message):
        Result.from_dict(data)


def test_a_timeline_of_something_else_is_refused() -> None:
    memory = Memory(1, None, ((0.0, 1.0),))
    data = result_of(setting_of(1, 100.0, memory=memory)).to_dict()
    data["settings"][0]["memory"]["timeline"][0].append(3.0)
    with pytest.raises(ResultError, match=r"memory\.timeline\[0\]: expected 2 values, not 3"):
        Result.from_dict(data)


def test_a_missing_key_is_named() -> None:
    data = result_of(setting_of(1, 100.0)).to_dict()
    del data["machine"]["cpu"]
    with pytest.raises(ResultError, match=r"machine\.cpu is missing"):
        Result.from_dict(data)


@pytest.mark.parametrize("data", [[], {}, "text", None])
def test_what_is_no_result_at_all_is_refused(data: Any) -> None:
    with pytest.raises(ResultError, match="no result of nogil-loader bench"):
        Result.from_dict(data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b'{"format": 1', "not JSON"),
        (b"\xff\xfe\x00", "can't decode"),
        (b"[" * 100_000, "recursion"),
        (b"{}", "no result of nogil-loader bench"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "earlier.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ResultError, match=rf"earlier\.json: .*{message}"):
        read_result(path)


def test_a_number_that_is_none_is_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        result_of(setting_of(1, 1.0, wait_share=float("nan"))).to_json()
