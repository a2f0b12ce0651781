"""Packages: what is missing, what is too old, and how to get it."""

from __future__ import annotations

from importlib import metadata

import pytest

from nogil_loader.doctor import PackagesDiagnosis, examine_packages
from tests.doctor.machine import only, severities

REQUIRED = [
    "numpy>=2.0",
    "numba>=0.61",
    "psutil (>=5.9)",
    "torch>=2.3; extra == 'torch'",
    'rich>=13; extra == "progress"',
]
INSTALLED = {"nogil_loader": "0.1.0", "numpy": "2.4.6", "numba": "0.61", "psutil": "7.2.2"}


def found(**versions: str | None) -> PackagesDiagnosis:
    installed = {**INSTALLED, **versions}

    def version_of(name: str) -> str:
        version = installed.get(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    return examine_packages(requires=lambda name: REQUIRED, version_of=version_of)


def test_what_is_needed_is_there_and_extras_may_be_missing() -> None:
    diagnosis = found(torch="2.13.0+cpu")
    assert severities(diagnosis) == {"ok"}
    assert diagnosis.lines() == [
        "  nogil_loader             0.1.0",
        "  numpy                    2.4.6         at least 2.0",
        "  numba                    0.61          at least 0.61",
        "  psutil                   7.2.2         at least 5.9",
        "  rich                     -             at least 13  for nogil_loader[progress]",
        "  torch                    2.13.0+cpu    at least 2.3  for nogil_loader[torch]",
    ]


def test_what_nobody_asks_for_is_told_only_if_it_is_there() -> None:
    assert "  scipy                    1.17.1" in found(scipy="1.17.1").lines()
    assert "scipy" not in "\n".join(found().lines())


def test_a_package_that_is_needed_and_missing_is_a_problem() -> None:
    problem = only(found(numba=None), "problem")
    assert (problem.found, problem.advice) == (
        "numba is missing, and a loader needs it",
        "pip install 'numba>=0.61'",
    )


@pytest.mark.parametrize(
    ("name", "version", "severity", "advice"),
    [
        ("numpy", "1.26.4", "problem", "pip install -U 'numpy>=2.0'"),
        ("torch", "2.2.9", "warning", "pip install -U 'torch>=2.3'"),
        ("numba", "0.9.3", "problem", "pip install -U 'numba>=0.61'"),
    ],
)
def test_a_package_that_is_too_old_is_told_with_the_command(
    name: str, version: str, severity: str, advice: str
) -> None:
    finding = only(found(**{name: version}), severity)
    assert finding.found.startswith(f"{name} {version} is older than ")
    assert finding.advice == advice


@pytest.mark.parametrize("version", ["2.0.0", "2", "2.0rc1", "10.1", "v2.0", "unknown"])
def test_versions_are_compared_by_their_numbers(version: str) -> None:
    assert severities(found(numpy=version)) == {"ok"}


def test_from_a_folder_without_installation_nothing_is_known() -> None:
    diagnosis = found(nogil_loader=None)
    assert diagnosis.lines()[0] == "  nogil_loader             not installed"
    assert only(diagnosis, "note").advice.startswith("pip install")


def test_this_installation_is_read() -> None:
    diagnosis = examine_packages()
    names = {package.name: package for package in diagnosis.packages}
    assert names["numpy"].version == metadata.version("numpy")
    assert names["numba"].least
