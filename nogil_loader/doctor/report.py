"""An examination in words, as JSON, and as an exit code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from nogil_loader.doctor.finding import Diagnosis, Severity, count

_WIDTH = 100


def as_text(diagnoses: Mapping[str, Diagnosis], width: int = _WIDTH) -> str:
    """Return diagnoses for people to read, in lines of about ``width`` characters."""
    return "\n\n".join([*(part_as_text(each, width) for each in diagnoses.values()), summary(diagnoses)])


def part_as_text(diagnosis: Diagnosis, width: int = _WIDTH) -> str:
    """Return one diagnosis for people to read."""
    findings = [line for finding in diagnosis.findings() for line in finding.lines(width)]
    return "\n".join([diagnosis.title, *diagnosis.lines(), *findings])


def as_json(diagnoses: Mapping[str, Diagnosis]) -> str:
    """Return diagnoses as JSON: one key for each part, with its facts and ``"findings"``; sizes in bytes."""
    told = {
        part: {**diagnosis.facts(), "findings": [dataclasses.asdict(each) for each in diagnosis.findings()]}
        for part, diagnosis in diagnoses.items()
    }
    return json.dumps(told, indent=2)


def summary(diagnoses: Mapping[str, Diagnosis]) -> str:
    """Return how much of what was found, and where."""
    told = []
    kinds: tuple[Severity, ...] = ("problem", "warning", "note")
    for severity in kinds:
        where = [
            part
            for part, each in diagnoses.items()
            for found in each.findings()
            if found.severity == severity
        ]
        if where:
            told.append(f"{count(len(where), severity)} ({', '.join(dict.fromkeys(where))})")
    return "; ".join(told) or "all is as it should be"


def exit_code(diagnoses: Mapping[str, Diagnosis]) -> int:
    """Return 1 if something keeps a loader from working, else 0."""
    severities = {found.severity for each in diagnoses.values() for found in each.findings()}
    return int("problem" in severities)
