"""Whole sweeps, as short as can be."""

from __future__ import annotations

from typing import Any

import pytest

from nogil_loader.bench import Bench, Result, Step, peers, run_bench, sweep
from nogil_loader.bench.result import OURS
from nogil_loader.targets import TargetError
from tests.bench.datasets import place_of


@pytest.fixture(scope="module")
def swept() -> tuple[Result, list[Step]]:
    steps: list[Step] = []
    bench = Bench(place_of("loader"), workers=(0, 2), batch_sizes=(20,), seconds=0.02, repeats=2)
    return run_bench(bench, steps.append), steps


def test_every_setting_is_measured_as_often_as_was_said(swept: tuple[Result, list[Step]]) -> None:
    result, _ = swept
    measured = [(each.num_workers, each.batch_size, len(each.rates)) for each in result.settings]
    assert measured == [(0, 20, 2), (2, 20, 2)]
    assert result.failed == result.peers == ()
    assert all(each.loader == OURS and each.memory and each.memory.timeline for each in result.settings)


def test_the_result_says_what_was_measured_and_what_to_write(swept: tuple[Result, list[Step]]) -> None:
    result, _ = swept
    assert result.dataset == "Rows, 100 samples"
    assert (result.length, result.batch_size) == (100, 20)
    assert result.options.workers == (0, 2)
    assert result.machine.packages.keys() >= {"nogil_loader", "numpy", "numba"}
    assert result.recommended is not None
    chosen = result.settings[result.recommended]
    assert result.code.startswith(
        f"nogil_loader.DataLoader(..., batch_size={chosen.batch_size}, num_workers="
    )
    assert any("the figures include the beginning of epochs" in note for note in result.notes)
    assert Result.from_dict(result.to_dict()) == result


def test_steps_tell_how_far_it_is(swept: tuple[Result, list[Step]]) -> None:
    _, steps = swept
    assert [step.done for step in steps] == list(range(6))
    assert {step.total for step in steps} == {5}
    first, last = steps[0], steps[-1]
    assert first.case is not None
    assert (first.case.num_workers, first.last) == (2, None)
    assert last.case is None
    assert last.last is not None


def test_a_setting_that_fails_is_not_tried_again_and_the_others_go_on() -> None:
    steps: list[Step] = []
    bench = Bench(place_of("Broken"), workers=(0,), batch_sizes=(10, 20), seconds=0.02, repeats=2)
    result = run_bench(bench, steps.append)
    assert [each.failure.sample for each in result.failed if each.failure] == ["70", "70"]
    assert result.recommended is None
    assert result.sentence == "No setting could be measured: ValueError: no such picture in fetch"
    assert (steps[-1].done, steps[-1].total) == (3, 3)


def test_a_target_that_fails_ends_the_sweep_at_once() -> None:
    with pytest.raises(TargetError, match="failed") as caught:
        run_bench(Bench(place_of("raises"), workers=(0,)))
    assert "the disk is not mounted" in caught.value.trace


def test_peers_that_are_not_there_are_named_with_the_command_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = peers.Peer("no_such_module_anywhere", "gone-package", 0, peers.PEERS["torch"].open)
    for module in (peers, sweep):
        monkeypatch.setattr(module, "PEERS", {"gone": gone})
    for compare in (["gone"], ["all"]):
        with pytest.raises(TargetError, match=r"not installed: gone; .* pip install gone-package"):
            run_bench(Bench(place_of("rows"), compare=compare))


def test_a_peer_without_any_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    there = peers.Peer("json", "json", 1, peers.PEERS["torch"].open)
    for module in (peers, sweep):
        monkeypatch.setattr(module, "PEERS", {"there": there})
    with pytest.raises(TargetError, match="there loads with workers only"):
        run_bench(Bench(place_of("rows"), workers=(0,), compare=["there"]))


def test_an_iterable_is_not_compared_with_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    there = peers.Peer("json", "json", 0, peers.PEERS["torch"].open)
    for module in (peers, sweep):
        monkeypatch.setattr(module, "PEERS", {"there": there})
    with pytest.raises(TargetError, match="nothing to compare: the dataset is an iterable"):
        run_bench(Bench(place_of("Stream"), workers=(0,), seconds=0.02, compare=["there"]))


def test_without_a_control_group_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "why_not", lambda: "making a control group takes root")
    with pytest.raises(TargetError, match=r"600\.0 MB can be made: making a control group takes root\. What"):
        run_bench(Bench(place_of("rows"), memory_limit=600_000_000))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": ()}, "workers: expected at least one number"),
        ({"workers": (1, 1)}, "workers=1,1: expected each number once"),
        ({"workers": (-1,)}, "workers=-1: expected an integer from 0 to 4096"),
        ({"prefetch": (0,)}, "prefetch=0: expected an integer ≥ 1"),
        ({"batch_sizes": (0,)}, "batch_sizes=0: expected"),
        ({"seconds": 0}, "seconds=0: expected seconds above 0"),
        ({"repeats": 101}, "repeats=101: expected an integer from 1 to 100"),
        ({"compare": ("ffcv",)}, "compare='ffcv': expected torch, torchdata, spdl, grain, or all"),
        ({"target": "nowhere"}, "target 'nowhere': expected module:name"),
    ],
)
def test_f01_what_cannot_be_measured_is_refused_with_name_and_value(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        Bench(**{"target": place_of("rows"), **changes})
    assert message in str(caught.value)


def test_a_string_of_names_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="compare='torch': expected a list of names"):
        Bench(place_of("rows"), compare="torch")
