"""Limits on files, threads and stacks, and what to do about each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nogil_loader.doctor import LimitsDiagnosis, examine_limits
from tests.doctor.machine import Machine, only, severities

MB = 1 << 20
PLENTY = {
    "RLIMIT_NOFILE": (65536, 65536),
    "RLIMIT_NPROC": (-1, -1),
    "RLIMIT_STACK": (8 * MB, -1),
    "RLIMIT_AS": (-1, -1),
}


def found(
    machine: Machine,
    limits: Mapping[str, tuple[int, int]] = {},
    *,
    stack_size: int = 0,
    workers: int = 4,
) -> LimitsDiagnosis:
    return examine_limits(
        proc_root=machine.proc_root,
        cgroup_root=machine.cgroup_root,
        getrlimit={**PLENTY, **limits}.get,
        stack_size=stack_size,
        workers=workers,
    )


def test_enough_of_everything_is_said_to_be_enough(machine: Machine) -> None:
    for file in range(5):
        machine.proc(f"self/fd/{file}", "")
    machine.proc("sys/kernel/threads-max", "190000\n")
    machine.proc("loadavg", "0.20 0.35 0.87 2/100 21644\n")
    diagnosis = found(machine)
    assert diagnosis.lines() == [
        "  open files: 65536, 4 in use",
        "  threads: 190000 by the machine, 100 in use",
        "  stack of a thread: 8.4 MB",
    ]
    assert only(diagnosis, "ok").found == "they leave enough for 4 workers"
    assert severities(diagnosis) == {"ok"}


@pytest.mark.parametrize(
    ("soft", "hard", "advice"),
    [
        (256, -1, "ulimit -n 65536"),
        (1000, 4096, "ulimit -n 4096"),
        (512, 512, "docker run --ulimit nofile=65536"),
    ],
)
def test_few_open_files_are_told_with_how_many_may_be_had(
    machine: Machine, soft: int, hard: int, advice: str
) -> None:
    note = only(found(machine, {"RLIMIT_NOFILE": (soft, hard)}), "note")
    assert note.found.startswith(f"no more than {soft} files may be open")
    assert note.advice == advice


def test_files_that_are_nearly_used_up_are_warned_of(machine: Machine) -> None:
    for file in range(40):
        machine.proc(f"self/fd/{file}", "")
    warning = only(found(machine, {"RLIMIT_NOFILE": (64, -1)}), "warning")
    assert warning.found == "39 of 64 files are open already"


@pytest.mark.parametrize(
    ("used", "severity", "words"),
    [
        (96, "problem", 'leaves 4 threads, and num_workers="auto" needs 5: starting them fails'),
        (95, "warning", "leaves 5 threads, for those of all libraries together"),
    ],
)
def test_a_group_that_allows_too_few_threads_is_told(
    machine: Machine, used: int, severity: str, words: str
) -> None:
    machine.member_of("0::/pod/job")
    machine.group("pod/pids.max", "100\n")
    machine.group("pod/pids.current", f"{used}\n")
    machine.group("pod/job/pids.max", "max\n")
    diagnosis = found(machine)
    finding = only(diagnosis, severity)
    assert finding.found.startswith(f"cgroup v2 /pod {words}")
    assert "docker run --pids-limit=-1" in finding.advice
    assert ("num_workers=3" in finding.advice) is (severity == "problem")
    assert f"  threads: 100 by cgroup v2 /pod, {used} in use" in diagnosis.lines()


def test_version_1_groups_and_ulimits_limit_threads_too(machine: Machine) -> None:
    machine.member_of("8:pids:/job")
    machine.group("pids/job/pids.max", "5000")
    diagnosis = found(machine, {"RLIMIT_NPROC": (3, 3)})
    assert diagnosis.lines()[1:3] == ["  threads: 5000 by cgroup v1 /job", "  threads: 3 by ulimit -u"]
    assert only(diagnosis, "problem").found.startswith("ulimit -u leaves 3 threads")


def test_a_small_stack_is_warned_of(machine: Machine) -> None:
    warning = only(found(machine, stack_size=128 << 10), "warning")
    assert warning.found.startswith("a thread's stack has 0.1 MB")
    assert "threading.stack_size(8 << 20)" in warning.advice


def test_stacks_that_take_much_of_the_addresses_are_warned_of(machine: Machine) -> None:
    limits = {"RLIMIT_STACK": (64 * MB, -1), "RLIMIT_AS": (1000 * MB, -1)}
    warning = only(found(machine, limits), "warning")
    assert warning.found == "stacks of 4 workers take 268.4 MB of 1.05 GB addresses"
    assert severities(found(machine, limits, workers=1)) == {"ok"}


def test_without_limits_nothing_is_known_and_nothing_wrong(machine: Machine) -> None:
    diagnosis = examine_limits(
        proc_root=machine.proc_root,
        cgroup_root=machine.cgroup_root,
        getrlimit=lambda name: None,
        stack_size=0,
        workers=2,
    )
    assert diagnosis.lines() == [
        "  open files: not known",
        "  threads: no limit known",
        "  stack of a thread: as the system has it",
    ]
    assert severities(diagnosis) == {"ok"}


def test_an_unlimited_number_of_files_is_none(machine: Machine) -> None:
    diagnosis = found(machine, {"RLIMIT_NOFILE": (-1, -1), "RLIMIT_STACK": (-1, -1)})
    assert diagnosis.lines()[0] == "  open files: no limit"
    assert diagnosis.stack is None


@pytest.mark.parametrize("text", ["", "nonsense", "-1", "1e5", "9" * 40])
def test_a_number_of_threads_that_makes_no_sense_sets_no_limit(machine: Machine, text: str) -> None:
    machine.member_of("0::/")
    machine.group("pids.max", text)
    machine.proc("sys/kernel/threads-max", text)
    assert found(machine).threads == ()


def test_this_process_has_limits() -> None:
    diagnosis = examine_limits()
    assert diagnosis.workers >= 1
    assert len(diagnosis.lines()) >= 3
