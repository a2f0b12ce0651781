"""Shared memory: what this loader does not need, and others do."""

from __future__ import annotations

from pathlib import Path

import pytest

from nogil_loader.doctor import ShmDiagnosis, examine_shm
from tests.doctor.machine import only, severities

MB = 1 << 20


def found(folder: Path, total: int, free: int) -> ShmDiagnosis:
    return examine_shm(path=folder, usage=lambda path: (total, total - free, free))


def test_dockers_64_mb_are_told_with_who_needs_more(tmp_path: Path) -> None:
    diagnosis = found(tmp_path, 64 * MB, 64 * MB)
    assert diagnosis.lines() == [f"  {tmp_path}: 67.1 MB, 67.1 MB free"]
    note = only(diagnosis, "note")
    assert "as Docker has it" in note.found
    assert "this loader's threads need none of it" in note.found
    assert "docker run --shm-size=8g" in note.advice


def test_one_that_is_nearly_full_is_told(tmp_path: Path) -> None:
    note = only(found(tmp_path, 8000 * MB, 100 * MB), "note")
    assert note.found == "only 104.9 MB of 8.39 GB are free; what lies in it counts as memory in use"
    assert note.advice == f"see what was left behind: ls -l {tmp_path}"


@pytest.mark.parametrize(("total", "free"), [(65 * MB, 65 * MB), (8000 * MB, 1025 * MB)])
def test_enough_is_enough(tmp_path: Path, total: int, free: int) -> None:
    assert severities(found(tmp_path, total, free)) == {"ok"}


def test_a_system_without_it_lacks_nothing(tmp_path: Path) -> None:
    diagnosis = examine_shm(path=tmp_path / "shm")
    assert diagnosis.lines() == [f"  {tmp_path}/shm does not exist"]
    assert only(diagnosis, "ok").found.startswith("this loader does not need it")


def test_a_size_that_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    def fail(path: Path) -> tuple[int, int, int]:
        raise PermissionError

    diagnosis = examine_shm(path=tmp_path, usage=fail)
    assert diagnosis.lines() == [f"  {tmp_path}: size not known"]
    assert severities(diagnosis) == {"note"}


def test_one_that_may_not_be_written_to_is_told() -> None:
    note = only(ShmDiagnosis("/dev/shm", True, 1 << 30, 1 << 30, False), "note")
    assert "locks of multiprocessing fail; this loader's threads do not need it" in note.found
    assert "mount -o remount,rw /dev/shm" in note.advice
