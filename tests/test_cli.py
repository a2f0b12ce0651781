"""The command line: the demo survives what it plants, counts honestly, and says so by its exit code.

The doctor tells what there is, and refuses what the loader would refuse.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader import cli, demo
from nogil_loader.data.photographs import Photographs
from nogil_loader.demo import Demo, PlantedDeath, worker_act
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.engine.statistics import Statistics
from nogil_loader.loader import DataLoader
from tests.scripts import RunScript

SMALL = ["demo", "--act", "worker", "--samples", "50", "--batch-size", "8", "--workers", "2"]


@pytest.fixture(autouse=True)
def small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of a few pixels: what is tested is neither the painter nor the decoder."""

    def make(count: int, seed: int) -> Photographs:
        rng = np.random.default_rng(seed)
        images = [rng.integers(256, size=(4, 5, 3), dtype=np.uint8) for _ in range(count)]
        return Photographs(images, [0] * count, ["noise"], "noise")

    monkeypatch.setattr(Photographs, "load", staticmethod(make))
    monkeypatch.setattr(Photographs, "generated", staticmethod(make))


def test_the_demo_loses_nothing_when_a_worker_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SMALL) == 0
    output = capsys.readouterr().out
    assert "planned 50, delivered 50, skipped 0, missing 0, repeated 0; rebuilt 1; " in output
    assert "in batch 3, will end the first worker" in output
    assert output.endswith("every sample is accounted for\n")


@pytest.mark.parametrize("batch", [0, 6])
@pytest.mark.parametrize("workers", ["0", "1", "auto"])
def test_the_worker_may_die_in_any_batch_of_any_number_of_workers(
    batch: int, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*SMALL, "--kill-batch", str(batch), "--workers", workers]) == 0
    assert "delivered 50, skipped 0, missing 0, repeated 0; rebuilt 1; " in capsys.readouterr().out


def test_nobody_dies_without_a_planted_death(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SMALL, "--no-kill"]) == 0
    output = capsys.readouterr().out
    assert "rebuilt 0" in output
    assert "kill" not in output


def test_with_raise_the_demo_shows_the_error_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SMALL, "--failure", "raise"]) == 1
    output = capsys.readouterr().out
    assert "Dataloader worker thread should be alive" in output
    assert "planned 50, delivered 24, skipped 0, missing 26, repeated 0; rebuilt 0; " in output
    assert "NOT every sample" in output


def test_with_skip_a_sample_that_kills_every_worker_is_left_out_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([*SMALL, "--failure", "skip"]) == 0
    output = capsys.readouterr().out
    doomed = re.search(r"sample (\d+), in batch 3, will end every worker", output)
    assert doomed is not None
    assert f"skipped sample {doomed[1]}: SystemExit" in output
    assert "delivered 49, skipped 1, missing 0, repeated 0" in output


class Tampering:
    """An epoch whose batches pass through someone else's hands, while its statistics look perfect."""

    def __init__(self, epoch: LoaderIterator, tamper: Callable[[list[Any]], list[Any]]) -> None:
        self.epoch = epoch
        self.batches = iter(tamper(list(epoch)))

    def __iter__(self) -> Tampering:
        return self

    def __next__(self) -> Any:
        return next(self.batches)

    def __enter__(self) -> Tampering:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.epoch.close()

    def statistics(self) -> Statistics:
        return self.epoch.statistics()


@pytest.mark.parametrize(
    ("tamper", "report"),
    [
        (lambda batches: batches[:-1], "missing 2, repeated 0"),
        (lambda batches: [*batches, batches[0]], "missing 0, repeated 8"),
        (lambda batches: [batches[0], *batches[:-1]], "missing 2, repeated 8"),
    ],
)
def test_the_count_does_not_trust_the_statistics(
    tamper: Callable[[list[Any]], list[Any]],
    report: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class TamperedLoader(DataLoader):
        def __iter__(self) -> Any:
            return Tampering(super().__iter__(), tamper)

    monkeypatch.setattr(worker_act, "DataLoader", TamperedLoader)
    assert cli.main([*SMALL, "--no-kill"]) == 1
    output = capsys.readouterr().out
    assert f"planned 50, delivered 50, skipped 0, {report}" in output
    assert "NOT every sample" in output


def test_without_the_extra_the_demo_generates_images_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(count: int, seed: int) -> NoReturn:
        raise ImportError("no photographs here")

    monkeypatch.setattr(Photographs, "load", staticmethod(load))
    assert cli.main([*SMALL, "--samples", "8"]) == 0
    assert "generated images instead of photographs: no photographs here" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_progress_bar_and_a_file_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    terminal, file = Terminal(), io.StringIO()
    options = Demo(samples=50, batch_size=8, workers=2, failure="raise", seed=0, acts=("worker",))
    assert demo.run_demo(options, terminal) == demo.run_demo(options, file) == 0
    assert "50/50" in terminal.getvalue()
    assert "50/50" not in file.getvalue()


def test_a_terminal_without_rich_gets_no_bar_and_the_same_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    options = Demo(samples=8, batch_size=8, workers=1, failure="raise", seed=0, acts=("worker",))
    assert demo.run_demo(options, terminal) == 0
    assert "delivered 8" in terminal.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--samples", "0"], "argument --samples: '0': expected an integer ≥ 1"),
        (["--samples", "many"], "argument --samples: 'many': expected an integer ≥ 1"),
        (["--workers", "-1"], "argument --workers: '-1': expected an integer ≥ 0"),
        (["--seed", str(2**64)], f"expected an integer from 0 to {2**64 - 1}"),
        (["--failure", "ignore"], "invalid choice: 'ignore'"),
        (["--act", "finale"], "invalid choice: 'finale'"),
        (["--kill-batch", "7"], "batch 7 does not exist: 50 samples make 7 batches of 8, counted from 0"),
        (["--kill-batch", "1", "--no-kill"], "not allowed with"),
    ],
)
def test_f01_wrong_arguments_are_refused_with_name_and_value(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([*SMALL, *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_doomed_sample_is_the_middle_one_of_its_batch_in_the_order_of_the_seed() -> None:
    plain = Demo(samples=50, batch_size=8, workers=0, failure="raise", seed=3)
    order = [
        index
        for batch in DataLoader(range(50), batch_size=8, shuffle=True, seed=3, num_workers=0)
        for index in batch.tolist()
    ]
    doomed = [plain.with_death(PlantedDeath(batch)).doomed_index for batch in range(7)]
    assert doomed == [*order[4:48:8], order[49]]


def test_ctrl_c_ends_the_demo_with_the_code_that_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(demo: Demo, output: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.demo, "run_demo", interrupted)
    assert cli.main(SMALL) == 130


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "memory"], ["doctor", "--memory", "0.5"]])
def test_the_doctor_tells_of_memory(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    output = capsys.readouterr().out
    assert output.count("<- binds") == 1
    assert f"A loader with memory={arguments[-1] if len(arguments) > 2 else repr('auto')}\n" in output


@pytest.mark.parametrize(
    ("limit", "shown"),
    [("auto", "'auto'"), ("4GiB", "'4GiB'"), ("0.5", "0.5"), ("1e-1", "0.1"), ("5000000000", "5000000000")],
)
def test_the_doctor_takes_limits_as_the_loader_does(
    limit: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["doctor", "memory", "--json", "--memory", limit]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts) == ["memory"]
    assert facts["memory"]["memory"] == shown
    assert facts["memory"]["share"]["soft"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "4 apples"], "memory='4 apples': expected 'off', a MemoryPolicy, 'auto', bytes"),
        (["--memory", "1.5"], "memory=1.5: expected"),
        (["--memory", "nan"], "memory=nan: expected"),
        (["--memory", "17"], "memory=17: expected"),
        (["lungs"], "argument PART: 'lungs': expected one of system, cpu, memory"),
    ],
)
def test_f01_the_doctor_refuses_wrong_arguments_with_name_and_value(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["doctor", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_package_runs_as_a_module(run_script: RunScript) -> None:
    result = run_script(
        """
        import runpy, sys
        sys.argv[1:] = ["--version"]
        runpy.run_module("nogil_loader", run_name="__main__", alter_sys=True)
        """
    )
    assert (result.returncode, result.stdout) == (0, f"nogil-loader {version('nogil_loader')}\n"), (
        result.stderr
    )


@pytest.mark.parametrize("where", ["| head -n 1", "> /dev/full", ">&-"])
def test_output_that_nobody_takes_ends_without_a_traceback(where: str) -> None:
    command = f"{sys.executable} -m nogil_loader doctor cpu {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=50, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "full" in where:
        assert "cannot be written: No space left on device" in done.stderr
        assert done.returncode == 1
