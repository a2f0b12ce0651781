"""Each dataset with a planted fault is found out, and those without any are not blamed for anything."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader.check import Report, check_dataset, speed
from tests.check import hostile

# Calls of these datasets take microseconds; the limit is spent by those that hang.
TIMEOUT = 1.0


@pytest.fixture(autouse=True)
def no_long_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast these datasets are is of no interest."""
    monkeypatch.setattr(speed, "SECONDS", 0.002)


def check(make: Callable[[Path], Any], folder: Path) -> Report:
    """Check a new dataset, and hold the check to leaving everything else as it was."""
    dataset = make(folder)
    before = _global_state()
    try:
        report = check_dataset(dataset, samples=40, threads=6, rounds=1, timeout=TIMEOUT)
    finally:
        close = getattr(dataset, "close", None)
        if close is not None:
            close()
    assert _global_state() == before
    for thread in threading.enumerate():
        if thread.name.startswith("check-"):
            thread.join(10)
            assert not thread.is_alive()
    return report


def _global_state() -> tuple[Any, ...]:
    return sys.getswitchinterval(), random.getstate(), str(np.random.get_state(legacy=False))


def name(make: Callable[[Path], Any]) -> str:
    return make.__name__.strip("_<>")


@pytest.mark.parametrize("make", hostile.FAULTS, ids=name)
def test_a_planted_fault_is_found(make: Callable[[Path], Any], tmp_path: Path) -> None:
    report = check(make, tmp_path)
    kinds = {finding.kind: finding.level for finding in report.findings}
    found = hostile.FAULTS[make] & kinds.keys()
    assert found, str(report)
    assert report.ok == (kinds.keys() <= hostile.HARMLESS or make is hostile.LyingStream), str(report)


@pytest.mark.torch
@pytest.mark.parametrize("make", hostile.TORCH_FAULTS, ids=name)
def test_a_planted_fault_of_torch_is_found(make: Callable[[Path], Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = torch.get_rng_state()
    report = check(make, tmp_path)
    assert hostile.TORCH_FAULTS[make] <= {finding.kind for finding in report.findings}, str(report)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("make", hostile.GOOD, ids=name)
def test_nothing_is_found_where_nothing_is_wrong(make: Callable[[Path], Any], tmp_path: Path) -> None:
    if make is hostile.Encoded:
        pytest.importorskip("PIL")
    report = check(make, tmp_path)
    assert report.findings == (), str(report)
    assert report.ok
