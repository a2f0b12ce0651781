"""``nogil-loader bench``, with what it writes and demands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from nogil_loader import cli
from nogil_loader.bench import Bench, Result, command, read_result
from nogil_loader.bench.command import Command, run_command
from nogil_loader.bench.rounds import Case
from nogil_loader.bench.sweep import Step
from nogil_loader.bench.ticker import Ticker
from tests.bench.datasets import place_of
from tests.bench.made_up import failed_of, result_of, setting_of

QUICK = ["--seconds", "0.02", "--repeats", "1", "--workers", "0"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, str, Path]:
    """One run of the command: exit code, what it printed, and the folder with its files."""
    folder = tmp_path_factory.mktemp("bench")
    output, errors = io.StringIO(), io.StringIO()
    arguments = ["bench", place_of("rows"), *QUICK, "--json", str(folder / "a.json")]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = cli.main([*arguments, "--report", str(folder / "a.html"), "--fail-below", "1"])
    return code, output.getvalue(), errors.getvalue(), folder


def test_the_table_is_printed_and_nothing_else(ran: tuple[int, str, str, Path]) -> None:
    code, output, errors, _ = ran
    assert (code, errors) == (0, "")
    assert "samples/s" in output
    assert "nogil_loader.DataLoader(dataset, batch_size=32, num_workers=0)" in output


def test_json_and_report_are_there_and_nothing_beside_them(ran: tuple[int, str, str, Path]) -> None:
    folder = ran[3]
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "a.json"]
    assert read_result(folder / "a.json").dataset == "Rows, 100 samples"
    assert "<html" in (folder / "a.html").read_text(encoding="utf-8")


class Runs:
    """Runs the command with a sweep that was made up."""

    def __init__(self, result: Result, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.errors = ""
        self.output = ""
        monkeypatch.setattr(command, "run_bench", lambda bench, progress: result)

    def __call__(self, *, earlier: Result | None = None, **options: Any) -> int:
        if earlier is not None:
            options["against"] = self.folder / "earlier.json"
            options["against"].write_text(earlier.to_json())
        output, errors = io.StringIO(), io.StringIO()
        bench = Bench(place_of("rows"), workers=(1, 2))
        code = run_command(Command(bench, **options), output, errors)
        self.output, self.errors = output.getvalue(), errors.getvalue()
        return code


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(result_of(setting_of(1, 100.0), setting_of(2, 180.0)), tmp_path, monkeypatch)


def test_a_rate_that_is_not_reached_fails_with_the_numbers(runs: Runs) -> None:
    assert runs(fail_below=179.0) == 0
    assert runs(fail_below=181.0) == 1
    assert runs.errors == "nogil-loader: too slow: 180.0 samples/s in the best setting, less than 181.0\n"


def test_a_setting_that_failed_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(result_of(setting_of(1, 100.0), failed_of(2)), tmp_path, monkeypatch)
    assert runs() == 1
    assert "failed: 2 workers, prefetch 2, batches of 32: ValueError: bad (sample 7, worker 0)" in runs.output


def test_slower_than_before_is_told_and_fails_if_that_is_demanded(runs: Runs) -> None:
    before = result_of(setting_of(1, 125.0), setting_of(2, 225.0))
    assert runs(earlier=before) == 0
    assert "all settings together: -20.0 %" in runs.output
    assert runs(earlier=before, fail_regression=10.0) == 1
    assert runs.errors.startswith("nogil-loader: slower than before: -20.0 %")
    assert runs(earlier=before, fail_regression=25.0) == 0


def test_faster_than_before_is_no_failure(runs: Runs) -> None:
    assert runs(earlier=result_of(setting_of(1, 50.0), setting_of(2, 90.0)), fail_regression=0.0) == 0
    assert "+100.0 %" in runs.output


def test_what_is_within_the_noise_is_no_failure(runs: Runs) -> None:
    before = result_of(
        setting_of(1, 0.0, rates=(90.0, 120.0, 104.0)), setting_of(2, 0.0, rates=(150.0, 230.0, 185.0))
    )
    assert runs(earlier=before, fail_regression=0.0) == 0


def test_the_report_gets_the_comparison(runs: Runs, tmp_path: Path) -> None:
    runs(earlier=result_of(setting_of(1, 125.0), setting_of(2, 225.0)), report=tmp_path / "a.html")
    assert "20.0" in (tmp_path / "a.html").read_text(encoding="utf-8")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run the command, which may not begin to measure; return exit code and message."""
    try:
        code = cli.main(["bench", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "1,x"], "argument --workers: 'x': expected an integer ≥ 0"),
        (["--workers", "1,1"], "workers=1,1: expected each number once"),
        (["--seconds", "0"], "argument --seconds: '0': expected a number above 0"),
        (["--fail-below", "fast"], "argument --fail-below: 'fast': expected a number above 0"),
        (["--fail-regression", "100"], "argument --fail-regression: '100': expected per cent"),
        (["--fail-regression", "5"], "--fail-regression: slower than what?"),
        (["--memory-limit", "600 apples"], "argument --memory-limit: '600 apples': expected a size"),
        (["--memory-limit", "auto"], "argument --memory-limit: 'auto': expected a size"),
        (["--memory-limit", "3"], "argument --memory-limit: '3': expected a size"),
        (["--compare", "fast"], "compare='fast': expected torch"),
        (["--json", "x", "--report", "x"], "--json and --report: x cannot be both"),
    ],
)
def test_f01_wrong_arguments_are_refused_with_name_and_value(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, errors = refused([place_of("rows"), *arguments], capsys)
    assert code == 2
    assert message in errors


@pytest.mark.parametrize(
    ("size", "nbytes"), [("600M", 600_000_000), ("2GiB", 2 << 30), ("1.5g", 1_500_000_000)]
)
def test_sizes_are_written_as_people_write_them(
    size: str, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(order: Command, *streams: Any) -> int:
        seen.append(order)
        return 0

    monkeypatch.setattr(command, "run_command", run)
    assert cli.main(["bench", place_of("rows"), "--memory-limit", size]) == 0
    assert seen[0].bench.memory_limit == nbytes


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_path_that_cannot_be_written_is_refused_first(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, message in [(tmp_path, "is a folder"), (tmp_path / "no" / "a", "there is no folder")]:
        code, errors = refused([place_of("Stuck"), option, str(path)], capsys)
        assert code == 1
        assert message in errors


def test_an_earlier_result_that_is_of_no_use_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = tmp_path / "earlier.json"
    arguments = [place_of("Stuck"), "--workers", "1,2", "--against", str(earlier), "--repeats"]
    assert "earlier.json: No such file" in refused([*arguments, "3"], capsys)[1]
    earlier.write_text("{}")
    assert "no result of nogil-loader bench" in refused([*arguments, "3"], capsys)[1]
    earlier.write_text(result_of(setting_of(8, 1.0)).to_json())
    assert "none of the settings that are to be measured" in refused([*arguments, "3"], capsys)[1]
    earlier.write_text(result_of(setting_of(1, 1.0)).to_json())
    code, errors = refused([*arguments, "3", "--fail-regression", "5"], capsys)
    assert code == 1
    assert "3 repeats now and 3 then of 1 settings in common cannot tell slower from noise" in errors


def test_a_file_is_replaced_only_when_the_new_one_is_complete(runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        Runs(
            replace(
                result_of(setting_of(1, 1.0)), options=replace(result_of().options, seconds=float("nan"))
            ),
            tmp_path,
            pytest.MonkeyPatch(),
        )(json=path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_ctrl_c_ends_the_child_as_well(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = subprocess.Popen(
        [sys.executable, "-m", "nogil_loader", "bench", place_of("Stuck"), *QUICK],
        env={**os.environ, "NOGIL_LOADER_TEST_MARK": str(mark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 50
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (130, b"", b"")
    assert not psutil.pid_exists(int(mark.read_text()))


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_tells_how_far_it_is() -> None:
    stream = Terminal()
    ticker = Ticker(stream)
    ticker(Step(0, 9, Case("nogil_loader", 2, 2), None))
    ticker(Step(1, 9, Case("torch", 1, 2), setting_of(2, 1234.0)))
    ticker(Step(2, 9, None, failed_of(1)))
    ticker.clear()
    lines = [line.rstrip() for line in stream.getvalue().split("\r")]
    assert lines == [
        "",
        "[0/9] nogil_loader, workers 2, prefetch 2",
        "[1/9] torch, workers 1, prefetch 2; last: 1,234 samples/s",
        "[2/9] done; last: failed",
        "",
        "",
    ]


def test_the_json_is_for_other_programs_as_well(ran: tuple[int, str, str, Path]) -> None:
    data = json.loads((ran[3] / "a.json").read_text(encoding="utf-8"))
    assert data["settings"][0]["median"] == data["settings"][0]["rates"][0]
