"""Which system it is, and which containers tell of themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nogil_loader.doctor import SystemDiagnosis, examine_system
from tests.doctor.machine import Machine, only, severities

LINUX = ("Linux", "6.1.0", "x86_64")


def found(
    machine: Machine,
    name: tuple[str, str, str] = LINUX,
    bits: int = 64,
    environ: Mapping[str, str] = {},
) -> SystemDiagnosis:
    return examine_system(
        root=machine.root, proc_root=machine.proc_root, environ=environ, name=name, bits=bits
    )


def test_a_plain_linux_has_nothing_to_tell(machine: Machine) -> None:
    diagnosis = found(machine)
    assert diagnosis.lines() == ["  Linux 6.1.0, x86_64"]
    assert severities(diagnosis) == {"ok"}
    assert diagnosis.containers == ()


@pytest.mark.parametrize(
    ("file", "environ", "containers"),
    [
        (".dockerenv", {}, ("docker",)),
        ("run/.containerenv", {}, ("podman",)),
        (".dockerenv", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ("docker", "kubernetes")),
        (None, {"APPTAINER_CONTAINER": "/images/train.sif"}, ("apptainer",)),
        (None, {"KUBERNETES_SERVICE_HOST": ""}, ()),
    ],
)
def test_containers_are_told_by_what_they_leave_for_programs(
    machine: Machine, file: str | None, environ: dict[str, str], containers: tuple[str, ...]
) -> None:
    if file is not None:
        machine.write(machine.root / file, "")
    diagnosis = found(machine, environ=environ)
    assert diagnosis.containers == containers
    assert ", ".join(containers) in only(diagnosis, "ok").found
    assert severities(diagnosis) == {"ok"}


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_systems_without_control_groups_are_told_what_is_not_seen(machine: Machine, system: str) -> None:
    note = only(found(machine, (system, "1", "arm64")), "note")
    assert note.found.startswith(f"{system} has no control groups")
    assert note.advice == "say what this process may take: memory='4GiB'"


def test_linux_within_windows_is_told_where_data_should_be(machine: Machine) -> None:
    machine.proc("sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n")
    note = only(found(machine), "note")
    assert "/mnt/c" in note.found
    assert "~/data" in note.advice


def test_short_addresses_are_warned_of(machine: Machine) -> None:
    assert only(found(machine, bits=32), "warning").advice == "use a 64-bit Python"


def test_this_system_has_a_name() -> None:
    diagnosis = examine_system()
    assert diagnosis.system
    assert diagnosis.bits in (32, 64)
