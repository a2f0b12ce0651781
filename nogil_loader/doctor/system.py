"""Which system this is, and whether it is a container."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nogil_loader.doctor.files import PROC, read_text
from nogil_loader.doctor.finding import Diagnosis, Finding

# Files and variables that each kind of container puts there for programs to find.
_FILES = {"docker": ".dockerenv", "podman": "run/.containerenv"}
_VARIABLES = {
    "kubernetes": "KUBERNETES_SERVICE_HOST",
    "apptainer": "APPTAINER_CONTAINER",
    "singularity": "SINGULARITY_CONTAINER",
}


@dataclass(frozen=True)
class SystemDiagnosis(Diagnosis):
    """What the system is.

    Attributes:
        system: ``"Linux"``, ``"Darwin"``, ``"Windows"`` or another name.
        release: Of its kernel.
        architecture: Of the processor.
        bits: Of an address.
        containers: Kinds of containers that this process is in, as far as they tell.
        is_wsl: Whether it is Linux within Windows.
    """

    title = "System"
    system: str
    release: str
    architecture: str
    bits: int
    containers: tuple[str, ...]
    is_wsl: bool

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        return [f"  {self.system} {self.release}, {self.architecture}"]

    def findings(self) -> list[Finding]:
        """Return what follows for a loader."""
        found = []
        if self.bits < 64:
            found.append(
                Finding(
                    "warning",
                    f"addresses of {self.bits} bits: at most 4 GB for everything",
                    "use a 64-bit Python",
                )
            )
        if self.system != "Linux":
            found.append(
                Finding(
                    "note",
                    f"{self.system} has no control groups: the only limit of memory seen is the machine's",
                    "say what this process may take: memory='4GiB'",
                )
            )
        if self.is_wsl:
            found.append(
                Finding(
                    "note",
                    "Linux within Windows: files below /mnt/c and the like are read much slower than others",
                    "keep data in the Linux file system, such as ~/data",
                )
            )
        if self.containers:
            found.append(
                Finding(
                    "ok",
                    f"in a container ({', '.join(self.containers)}): what is told here holds inside of it",
                )
            )
        return found or [Finding("ok", "not in a container that tells")]


def examine_system(
    *,
    root: Path = Path("/"),
    proc_root: Path = PROC,
    environ: Mapping[str, str] | None = None,
    name: tuple[str, str, str] | None = None,
    bits: int = sys.maxsize.bit_length() + 1,
) -> SystemDiagnosis:
    """Look at the system.

    Args:
        root: The root of the file system.
        proc_root: Where the process file system is mounted.
        environ: The environment, by default the real one.
        name: The system's name, its release and the processor's architecture; None asks.
        bits: Of an address.
    """
    environ = os.environ if environ is None else environ
    if name is None:
        name = (platform.system(), platform.release(), platform.machine())
    containers = [kind for kind, file in _FILES.items() if os.path.exists(root / file)]
    containers += [kind for kind, variable in _VARIABLES.items() if environ.get(variable)]
    kernel = read_text(proc_root / "sys" / "kernel" / "osrelease").lower()
    return SystemDiagnosis(*name, bits, tuple(containers), "microsoft" in kernel)
