"""Fabricated systems for the doctor to look at, and what it says of them."""

from __future__ import annotations

from pathlib import Path

from nogil_loader.doctor import Diagnosis, Finding


class Machine:
    """A ``/proc``, a ``/sys`` and control groups, empty until told otherwise."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc_root = root / "proc"
        self.sys_root = root / "sys"
        self.cgroup_root = root / "cgroup"
        self.cgroup_root.mkdir()

    def write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def proc(self, name: str, text: str) -> None:
        self.write(self.proc_root / name, text)

    def cpu(self, name: str, text: str) -> None:
        self.write(self.sys_root / "devices" / "system" / "cpu" / name, text)

    def group(self, name: str, text: str) -> None:
        self.write(self.cgroup_root / name, text)

    def member_of(self, *lines: str) -> None:
        self.proc("self/cgroup", "".join(f"{line}\n" for line in lines))


def told(diagnosis: Diagnosis, severity: str) -> list[Finding]:
    """The findings of one severity."""
    return [finding for finding in diagnosis.findings() if finding.severity == severity]


def only(diagnosis: Diagnosis, severity: str) -> Finding:
    """The one finding of a severity."""
    (finding,) = told(diagnosis, severity)
    return finding


def severities(diagnosis: Diagnosis) -> set[str]:
    """How bad it is."""
    return {finding.severity for finding in diagnosis.findings()}
