"""Scratch memory is found by how far resident memory rose, and nothing fails where that cannot be measured."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from nogil_loader.memory.peak import PeakMeter
from tests.scripts import RunScript

MB = 1_000_000
STATUS = "Name:\tpython\nVmPeak:\t  900000 kB\nVmHWM:\t    3000 kB\nVmRSS:\t    1000 kB\nThreads:\t4\n"

needs_peak = pytest.mark.skipif(
    sys.platform != "linux" or not PeakMeter().start(),
    reason="this system lets nobody reset a process's peak",
)


@needs_peak
def test_memory_that_came_and_went_is_found(run_script: RunScript) -> None:
    result = run_script(
        """
        import numpy as np
        from nogil_loader.memory.peak import PeakMeter

        def scratch(nbytes):
            np.empty(nbytes, np.uint8)[:] = 1

        scratch(200_000_000)  # before the start, so not measured
        meter = PeakMeter()
        for nbytes in (40_000_000, 120_000_000, 20_000_000):
            assert meter.start()
            scratch(nbytes)
            assert abs(meter.growth() - nbytes) < 0.02 * nbytes + 1_000_000, (meter.growth(), nbytes)
        kept = np.ones(10_000_000, np.uint8)
        assert meter.start()
        del kept
        assert meter.growth() < 1_000_000
        """
    )
    assert result.returncode == 0, result.stderr


@needs_peak
def test_growth_may_be_asked_for_again_and_only_rises() -> None:
    meter = PeakMeter()
    assert meter.start()
    first = meter.growth()
    kept = np.ones(20 * MB, np.uint8)
    second = meter.growth()
    assert kept.all()
    assert first is not None
    assert second is not None
    assert first + 19 * MB < second


def root(folder: Path, status: str | bytes | None = STATUS, clear_refs: str | None = "") -> Path:
    """A process file system with only what is read and written."""
    own = folder / "self"
    own.mkdir()
    if status is not None:
        (own / "status").write_bytes(status if isinstance(status, bytes) else status.encode())
    if clear_refs is not None:
        (own / "clear_refs").write_text(clear_refs)
    return folder


def test_growth_is_the_peak_above_what_was_resident_at_the_start(tmp_path: Path) -> None:
    meter = PeakMeter(root(tmp_path))
    assert meter.growth() is None  # nothing was started
    assert meter.start()
    assert (tmp_path / "self/clear_refs").read_text() == "5"
    assert meter.growth() == 2000 * 1024
    (tmp_path / "self/status").write_text(STATUS.replace("3000", " 700"))  # counters that disagree
    assert meter.growth() == 0


def test_without_the_switch_nothing_is_measured_and_no_file_is_made(tmp_path: Path) -> None:
    meter = PeakMeter(root(tmp_path, clear_refs=None))
    assert not meter.start()
    assert meter.growth() is None
    assert not (tmp_path / "self/clear_refs").exists()


def test_a_switch_that_refuses(tmp_path: Path) -> None:
    (root(tmp_path, clear_refs=None) / "self/clear_refs").mkdir()
    meter = PeakMeter(tmp_path)
    assert not meter.start()
    assert meter.growth() is None


@pytest.mark.parametrize(
    "status",
    [
        None,
        "",
        "Name:\tpython\n",
        "VmRSS:\n",
        "VmRSS:\tmany kB\n",
        "VmRSS: -5 kB\n",
        b"\xff\x00VmRSS",
        "VmRSSx: 1 kB",
    ],
)
def test_a_status_without_the_resident_memory(tmp_path: Path, status: str | bytes | None) -> None:
    meter = PeakMeter(root(tmp_path, status))
    assert not meter.start()
    assert meter.growth() is None


@pytest.mark.parametrize("status", [None, "VmRSS:\t1000 kB\n", STATUS.replace("3000", "x")])
def test_a_peak_that_cannot_be_read_later(tmp_path: Path, status: str | None) -> None:
    meter = PeakMeter(root(tmp_path))
    assert meter.start()
    path = tmp_path / "self/status"
    path.unlink() if status is None else path.write_text(status)
    assert meter.growth() is None


def test_a_start_that_fails_forgets_the_one_before(tmp_path: Path) -> None:
    meter = PeakMeter(root(tmp_path))
    assert meter.start()
    (tmp_path / "self/clear_refs").unlink()
    assert not meter.start()
    assert meter.growth() is None


@pytest.mark.parametrize("missing", ["nowhere", "a\0b"])
def test_a_root_that_is_none(tmp_path: Path, missing: str) -> None:
    meter = PeakMeter(tmp_path / missing)
    assert not meter.start()
    assert meter.growth() is None
