"""Which packages are installed, and whether they are new enough."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from nogil_loader.doctor.finding import Diagnosis, Finding

_PACKAGE = "nogil_loader"
# Beside what this package asks for: what often stands behind a wrong or slow result.
_OTHERS = (
    "llvmlite",
    "scipy",
    "torchvision",
    "opencv-python",
    "opencv-python-headless",
    "pillow",
    "threadpoolctl",
)
# "torch>=2.3; extra == 'torch'"; a version may stand in brackets, as old tools write it.
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)\s*(?:\[[^]]*\])?\s*\(?(?P<versions>[^;)]*)\)?\s*(?:;(?P<marker>.*))?", re.ASCII
)
_LEAST = re.compile(r">=\s*(?P<version>[\w.]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        name: As it is installed.
        version: None if it is not installed.
        least: The oldest version that will do; empty if any will, or if nobody asks for one.
        extra: The extra that it belongs to; empty for a package that is always needed; None if nobody asks for it.
    """

    name: str
    version: str | None
    least: str
    extra: str | None

    @property
    def is_too_old(self) -> bool:
        """Whether it is installed, but older than what is asked for."""
        return self.version is not None and _is_older(self.version, self.least)


@dataclass(frozen=True)
class PackagesDiagnosis(Diagnosis):
    """What is installed.

    Attributes:
        version: Of this package; None if it is not installed but run from a folder.
        packages: What it needs, what it can use, and what is good to know of.
    """

    title = "Packages"
    version: str | None
    packages: tuple[Package, ...]

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        lines = [f"  {_PACKAGE:<24} {self.version or 'not installed'}"]
        for package in self.packages:
            if package.version is None and package.extra is None:
                continue
            wanted = f"  at least {package.least}" if package.least else ""
            extra = f"  for {_PACKAGE}[{package.extra}]" if package.extra else ""
            lines.append(f"  {package.name:<24} {package.version or '-':<12}{wanted}{extra}".rstrip())
        return lines

    def findings(self) -> list[Finding]:
        """Return what is missing or too old."""
        if self.version is None:
            advice = "pip install -e . in its folder, or pip install nogil_loader"
            return [Finding("note", "not installed, so that nothing is known of what it needs", advice)]
        found = []
        for package in self.packages:
            if package.version is None and package.extra == "":
                told = f"{package.name} is missing, and a loader needs it"
                found.append(Finding("problem", told, f"pip install '{package.name}>={package.least}'"))
            elif package.is_too_old:
                found.append(
                    Finding(
                        "problem" if package.extra == "" else "warning",
                        f"{package.name} {package.version} is older than {package.least}, the least that will do",
                        f"pip install -U '{package.name}>={package.least}'",
                    )
                )
        return found or [Finding("ok", "nothing that is needed is missing or too old")]


def examine_packages(
    *,
    requires: Callable[[str], list[str] | None] = metadata.requires,
    version_of: Callable[[str], str] = metadata.version,
) -> PackagesDiagnosis:
    """Look at what is installed.

    Args:
        requires: Returns what a package asks for, as ``importlib.metadata.requires``.
        version_of: Returns a package's version, as ``importlib.metadata.version``.
    """

    def version(name: str) -> str | None:
        try:
            return version_of(name)
        except metadata.PackageNotFoundError:
            return None

    own = version(_PACKAGE)
    wanted = [] if own is None else (requires(_PACKAGE) or [])
    found: dict[str, Package] = {}
    for text in wanted:
        match = _REQUIREMENT.match(text)
        if match is None:
            continue
        name, marker = match["name"], match["marker"] or ""
        least, extra = _LEAST.search(match["versions"]), _EXTRA.search(marker)
        found[name] = Package(
            name, version(name), least["version"] if least else "", extra["extra"] if extra else ""
        )
    for name in _OTHERS:
        found.setdefault(name, Package(name, version(name), "", None))
    order = sorted(found.values(), key=lambda package: (package.extra is None, package.extra or ""))
    return PackagesDiagnosis(own, tuple(order))


def _is_older(version: str, least: str) -> bool:
    return bool(least) and () < _release(version) < _release(least)  # () is a version that says nothing


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at the end: 2.0 is as good as 2."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version, re.ASCII)
    numbers = [int(number) for number in match[1].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
