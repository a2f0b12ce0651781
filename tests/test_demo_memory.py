"""The demo's second act: too little memory kills without the governor, and loses nothing with it (G1, G5)."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader import cli
from nogil_loader.data.photographs import Photographs
from nogil_loader.demo import Demo, group, memory_act
from nogil_loader.demo.group import MemoryGroup, why_no_group
from nogil_loader.demo.memory_act import Account, play_memory_act
from nogil_loader.demo.training import Training
from nogil_loader.plan import Permutation

DEMO = Demo(samples=4, batch_size=2, workers=2, failure="raise", seed=5, acts=("memory",))
NO_GROUP = "for a test"


def large_images(count: int, seed: int) -> Photographs:
    """Few images, but large ones: 8 of them are a batch of the act's size, and nothing has to be decoded."""
    rng = np.random.default_rng(seed)
    images = [rng.integers(256, size=(1024, 1024, 3), dtype=np.uint8) for _ in range(count)]
    return Photographs(images, [0] * count, ["noise"], "noise")


# The whole act


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["", NO_GROUP], ids=["group", "no group"])
def test_an_epoch_for_which_memory_is_too_small_loses_nothing(
    reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not reason and why_no_group():
        pytest.skip(why_no_group())
    monkeypatch.setattr(memory_act, "why_no_group", lambda: reason)
    monkeypatch.setattr(Photographs, "load", staticmethod(large_images))
    code = cli.main(["demo", "--act", "memory", "--samples", "4", "--workers", "2"])
    output = capsys.readouterr().out
    assert code == 0, output
    end = "beyond its limit" if reason else "killed by the kernel"
    without = re.search(rf'limit \d+ MB, memory="off":  {end} after (\d+) samples\n', output)
    assert without is not None, output
    assert int(without[1]) < 96
    audit = re.search(r"planned 96, delivered 96, in (\d+) batches of (\d+) to (\d+) samples; ", output)
    assert audit is not None, output
    batches, smallest, largest = map(int, audit.groups())
    assert batches > 96 // 8
    assert smallest < largest <= 8
    assert "  the training takes 302 MB\n" in output
    assert "  the training gives 302 MB back\n" in output
    assert output.endswith("every sample is accounted for, in the planned order and within the limit\n")


def test_the_first_act_alone_starts_no_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Photographs, "load", staticmethod(large_images))
    assert cli.main(["demo", "--act", "worker", "--samples", "4", "--batch-size", "2"]) == 0
    assert "float32" not in capsys.readouterr().out


def test_a_process_that_ends_for_another_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_act, "why_no_group", lambda: NO_GROUP)
    monkeypatch.setattr(Training, "command", lambda self: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        play_memory_act(DEMO, large_images(4, seed=0), io.StringIO())


# The count


def account() -> Account:
    """What a run says in which all went well."""
    training = Training(samples=10, batch_size=4, workers=1, seed=5, memory="auto", extra=0, is_watched=True)
    order = Permutation(10, 5, epoch=0).indices(0, 10).tolist()
    memory = {"waits": 1, "splits": 1, "cuts": 0, "revoked": 0}
    return Account(training, limit=100, indices=order, parts=[2, 2, 4, 2], peak=90, memory=memory)


def test_a_run_in_which_all_went_well_has_no_faults() -> None:
    assert account().faults() == []


def in_another_order() -> list[int]:
    first, second, *others = account().indices
    return [second, first, *others]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"indices": account().indices[:-1]}, "1 samples are missing, 0 came twice"),
        ({"indices": account().indices * 2}, "0 samples are missing, 10 came twice"),
        ({"indices": in_another_order()}, "the samples came in another order"),
        ({"peak": 101}, "more was in use than the limit allows"),
        ({"is_killed": True}, "the process was killed"),
        ({"error": "too large"}, "the loader raised an error"),
        ({"memory": {}}, "nothing had to give way, so nothing was shown"),
        (
            {"memory": {"waits": 0, "splits": 0, "cuts": 0, "revoked": 0}},
            "nothing had to give way, so nothing was shown",
        ),
    ],
)
def test_whatever_went_wrong_is_a_fault(changes: dict[str, Any], fault: str) -> None:
    assert replace(account(), **changes).faults() == [fault]


# Control groups


def test_other_systems_have_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert why_no_group() == "only Linux has control groups"


def test_where_no_memory_controller_is_mounted_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_MOUNT", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert why_no_group() == f"no memory controller can be used below {tmp_path}"
    (tmp_path / "cgroup.subtree_control").write_text("cpu pids\n")
    assert why_no_group() == f"no memory controller can be used below {tmp_path}"


def test_a_group_that_cannot_be_made_is_told_with_the_systems_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_MOUNT", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    assert why_no_group() == ""
    with MemoryGroup():  # its name is taken now
        assert "File exists" in why_no_group()
    assert why_no_group() == ""


def test_in_version_2_there_is_no_swap_beside_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_MOUNT", tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    with MemoryGroup() as made:
        (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
        files = {
            "memory.max": "max\n",
            "memory.swap.max": "max\n",
            "memory.events": "low 0\noom 3\noom_kill 2\n",
            "memory.peak": "90\n",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        made.limit(100)
        assert (folder / "memory.max").read_text() == "100"
        assert (folder / "memory.swap.max").read_text() == "0"
        assert (made.peak(), made.kills()) == (90, 2)
        (folder / "memory.peak").unlink()
        assert made.peak() is None
        for path in folder.iterdir():
            path.unlink()
