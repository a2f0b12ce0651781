"""What the page about the doctor shows is what the doctor says."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from nogil_loader.doctor import PARTS, as_text, examine_cpu, examine_shm, examine_threads
from nogil_loader.doctor.shm import ShmDiagnosis
from tests.doctor.machine import Machine
from tests.scripts import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "doctor.md").read_text(encoding="utf-8")


def shown(command: str) -> str:
    """What the page shows as the output of a command."""
    (output,) = re.findall(rf"```console\n\$ {re.escape(command)}\n(.*?)```", PAGE, re.DOTALL)
    return str(output)


def test_the_first_example(machine: Machine) -> None:
    machine.cpu("online", "0-63")
    machine.member_of("0::/")
    machine.group("cpu.max", "400000 100000")
    cpu = examine_cpu(
        allowed=range(64),
        proc_root=machine.proc_root,
        cgroup_root=machine.cgroup_root,
        sys_root=machine.sys_root,
        environ={},
        loads=lambda: (3.1, 0.0, 0.0),
    )
    found = examine_shm(path=machine.root, usage=lambda path: (64 << 20, 0, 64 << 20))
    shm = ShmDiagnosis("/dev/shm", found.exists, found.total, found.free, found.is_writable)
    assert as_text({"cpu": cpu, "shm": shm}) + "\n" == shown("nogil-loader doctor cpu shm")


def test_e09_the_example_of_threads(machine: Machine) -> None:
    machine.proc("self/status", "Threads: 3\n")
    pools = [
        {"internal_api": "openblas", "filepath": "/np/libscipy_openblas64_-32a4b2a6.so", "num_threads": 2},
        {"internal_api": "openmp", "filepath": "/torch/libgomp.so.1", "num_threads": 2},
    ]
    modules = {
        "cv2": SimpleNamespace(getNumThreads=lambda: 2),
        "torch": SimpleNamespace(get_num_threads=lambda: 2),
    }
    found = examine_threads(
        workers=2,
        counted=2,
        modules=modules,
        environ={},
        proc_root=machine.proc_root,
        info=lambda: pools,
        imported=("torch", "cv2"),
    )
    assert as_text({"threads": found}) + "\n" == shown("nogil-loader doctor threads --import torch,cv2")


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_described(part: str) -> None:
    assert f"| `{part}` |" in PAGE
