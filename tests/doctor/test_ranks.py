"""Ranks on one machine share its CPUs: the doctor counts what they start together."""

from __future__ import annotations

import pytest

from nogil_loader.doctor import RanksDiagnosis, examine_ranks
from nogil_loader.engine.cpus import available_cpus
from tests.doctor.machine import only, severities


def found(workers: int = 8, counted: int | None = None, machine: int = 8, **environ: str) -> RanksDiagnosis:
    return examine_ranks(environ=environ, workers=workers, counted=counted or workers, machine=machine)


def test_a_process_alone_has_no_neighbours() -> None:
    diagnosis = found()
    assert diagnosis.lines() == ["  on this machine: 1; no launcher has set a variable"]
    assert severities(diagnosis) == {"ok"}


def test_ranks_that_count_the_same_cpus_oversubscribe_them() -> None:
    diagnosis = found(WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", RANK="1")
    assert diagnosis.lines() == ["  on this machine: 4; WORLD_SIZE=4, RANK=1, LOCAL_WORLD_SIZE=4"]
    warning = only(diagnosis, "warning")
    assert warning.found == (
        'each of 4 ranks begins with 8 workers for num_workers="auto": 32 threads on 8 CPUs'
    )
    assert warning.advice.startswith("num_workers=2, or bind each rank")
    assert only(diagnosis, "note").advice.startswith("sampler=DistributedSampler(dataset)")


def test_ranks_that_are_bound_to_cpus_of_their_own_do_not() -> None:
    diagnosis = found(2, machine=8, LOCAL_WORLD_SIZE="4")
    assert "warning" not in severities(diagnosis)
    assert only(diagnosis, "ok").found == "4 ranks x 2 workers: no more than 8 CPUs"


def test_a_quota_is_shared_by_all_ranks_however_many_cpus_there_are() -> None:
    diagnosis = found(4, counted=64, machine=64, LOCAL_WORLD_SIZE="8")
    warning = only(diagnosis, "warning")
    assert warning.found.endswith("32 threads on 4 CPUs")
    assert warning.advice.startswith("num_workers=1,")


def test_more_ranks_than_cpus_still_have_a_worker_each() -> None:
    assert only(found(1, machine=1, LOCAL_WORLD_SIZE="4"), "warning").advice.startswith("num_workers=1,")


def test_ranks_elsewhere_are_told_how_to_say_who_is_here() -> None:
    notes = [each for each in found(WORLD_SIZE="16").findings() if each.severity == "note"]
    assert "NOGIL_LOADER_LOCAL_WORLD_SIZE=4" in notes[0].advice


@pytest.mark.parametrize("size", ["", "none", "-4", "0"])
def test_sizes_that_make_no_sense_are_no_ranks(size: str) -> None:
    assert severities(found(WORLD_SIZE=size, LOCAL_WORLD_SIZE=size)) == {"ok"}


def test_this_process_is_asked_as_a_loader_asks() -> None:
    diagnosis = examine_ranks(environ={})
    assert diagnosis.workers == available_cpus()
    assert diagnosis.cpus >= diagnosis.workers
