"""The doctor says how many workers ``num_workers="auto"`` begins with, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from nogil_loader.doctor import CpuDiagnosis, examine_cpu
from nogil_loader.engine.cpus import available_cpus
from tests.doctor.machine import Machine, only, severities, told


def found(machine: Machine, allowed: Collection[int] = range(8), **arguments: Any) -> CpuDiagnosis:
    arguments = {"environ": {}, "loads": lambda: (0.5, 0.5, 0.5), **arguments}
    return examine_cpu(
        allowed=allowed,
        proc_root=machine.proc_root,
        cgroup_root=machine.cgroup_root,
        sys_root=machine.sys_root,
        **arguments,
    )


def siblings(machine: Machine, *cores: str) -> None:
    """Let CPUs be hardware threads of cores, given as lists of CPUs."""
    for core in cores:
        for cpu in range(int(core.split("-")[0]), int(core.split("-")[-1]) + 1):
            machine.cpu(f"cpu{cpu}/topology/thread_siblings_list", f"{core}\n")


def test_all_cpus_of_a_quiet_machine_are_used(machine: Machine) -> None:
    machine.cpu("online", "0-7\n")
    diagnosis = found(machine)
    assert severities(diagnosis) == {"ok"}
    assert only(diagnosis, "ok").found == (
        'num_workers="auto" begins with 8 workers, because of the affinity'
    )
    assert diagnosis.lines() == [
        "  8 in this machine, 8 by affinity",
        "  no quota of a control group",
        "  load average over one minute: 0.50",
    ]


def test_each_level_with_a_quota_is_told_and_the_tightest_is_the_reason(machine: Machine) -> None:
    machine.cpu("online", "0-7")
    machine.member_of("4:cpu,cpuacct:/docker/ab", "0::/docker/ab")
    machine.group("unified/docker/ab/cpu.max", "250000 100000\n")
    machine.group("unified/docker/cpu.max", "400000 100000\n")
    machine.group("cpu/docker/ab/cpu.cfs_quota_us", "-1\n")
    machine.group("cpu/docker/ab/cpu.cfs_period_us", "100000\n")
    machine.group("cpu/docker/cpu.cfs_quota_us", "600000\n")
    machine.group("cpu/docker/cpu.cfs_period_us", "100000\n")
    diagnosis = found(machine)
    assert diagnosis.lines()[1:-1] == [
        "  6.00 by the quota of cgroup v1 /docker",
        "  2.50 by the quota of cgroup v2 /docker/ab",
        "  4.00 by the quota of cgroup v2 /docker",
    ]
    assert diagnosis.workers == 3
    assert only(diagnosis, "ok").found == (
        'num_workers="auto" begins with 3 workers, because of the quota of cgroup v2 /docker/ab, rounded up'
    )
    note = only(diagnosis, "note")
    assert "8 CPUs are visible, but cgroup v2 /docker/ab stops all threads" in note.found
    assert "docker run --cpus=4" in note.advice


def test_less_than_one_cpu_is_warned_of(machine: Machine) -> None:
    machine.member_of("0::/")
    machine.group("cpu.max", "50000 100000")
    diagnosis = found(machine)
    assert "gives 0.50 of one CPU to all threads together" in only(diagnosis, "warning").found
    assert "beside it" in only(diagnosis, "note").found  # one worker


def test_one_worker_is_told_what_it_is_good_for(machine: Machine) -> None:
    machine.cpu("online", "0")
    note = only(found(machine, [0]), "note")
    assert note.found.startswith('num_workers="auto" begins with 1 worker, because of the affinity: ')
    assert "num_workers=4" in note.advice


@pytest.mark.parametrize(
    ("allowed", "environ", "severity", "advice"),
    [
        (range(4), {}, "note", "taskset"),
        (range(1), {}, "warning", "OMP_PROC_BIND"),
        (range(2), {"SLURM_STEP_ID": "0"}, "note", "srun --cpus-per-task=8"),
    ],
)
def test_an_affinity_below_the_machine_is_told_with_who_may_have_set_it(
    machine: Machine, allowed: range, environ: dict[str, str], severity: str, advice: str
) -> None:
    machine.cpu("online", "0-7")
    (finding,) = [
        each for each in found(machine, allowed, environ=environ).findings() if "may run on" in each.found
    ]
    assert finding.severity == severity
    assert finding.found == f"this process may run on {len(allowed)} of 8 CPUs"
    assert advice in finding.advice


def test_what_python_was_told_to_count_is_the_reason_where_it_differs(machine: Machine) -> None:
    diagnosis = found(machine, range(8), counted=3)
    assert diagnosis.workers == 3
    assert "because of PYTHON_CPU_COUNT" in only(diagnosis, "ok").found


def test_hardware_threads_are_told_from_cores(machine: Machine) -> None:
    machine.cpu("online", "0-7")
    siblings(machine, "0-1", "2-3", "4-5", "6-7")
    assert found(machine, [0, 2, 4, 6]).cores == 4
    assert "hardware threads" not in str(found(machine, [0, 2, 4, 6]).findings())
    diagnosis = found(machine)
    assert diagnosis.cores == 4
    assert only(diagnosis, "note").found == (
        "8 CPUs are the hardware threads of 4 cores: beyond num_workers=4 computing gains less"
    )


@pytest.mark.parametrize("text", ["", "nonsense", "3-1", "1", "0-99999999"])
def test_a_topology_that_makes_no_sense_is_not_known(machine: Machine, text: str) -> None:
    machine.cpu("cpu0/topology/thread_siblings_list", text)
    assert found(machine, [0]).cores is None


@pytest.mark.parametrize(("load", "is_told"), [(8.0, False), (8.1, True)])
def test_a_load_above_the_machines_cpus_is_warned_of(machine: Machine, load: float, is_told: bool) -> None:
    machine.cpu("online", "0-7")
    warnings = told(found(machine, loads=lambda: (load, 0.0, 0.0)), "warning")
    assert [each.advice for each in warnings] == ["see who: top -o %CPU"] * is_told


def test_what_cannot_be_read_is_not_known(machine: Machine) -> None:
    def fail() -> tuple[float, float, float]:
        raise OSError("load is not obtainable")

    diagnosis = found(machine, range(2), loads=fail)
    assert (diagnosis.load, diagnosis.cores, diagnosis.quotas) == (None, None, ())
    assert diagnosis.lines()[-1] == "  load average over one minute: not known"
    assert severities(diagnosis) == {"ok"}


def test_a_number_of_cpus_that_is_not_known_is_said_to_be(machine: Machine) -> None:
    diagnosis = CpuDiagnosis(None, 2, 2, (), 2, None, 99.0, "")
    assert diagnosis.lines()[0] == "  an unknown number in this machine, 2 by affinity"
    assert severities(diagnosis) == {"ok"}


def test_this_machine_is_told_what_a_loader_begins_with() -> None:
    assert examine_cpu().workers == available_cpus()
