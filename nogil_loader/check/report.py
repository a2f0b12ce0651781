"""The page to read before the first epoch: what is wrong with a dataset, and what it is like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.finding import Finding, wrap
from nogil_loader.check.summary import Summary

_FORMAT = 1


@dataclass(frozen=True)
class Report:
    """What a check has found.

    Attributes:
        name: Of the dataset's class.
        kind: ``"map"`` or ``"iterable"``.
        length: What ``len()`` says; None if nothing.
        findings: What is wrong, the gravest first.
        summary: What the dataset is like.
    """

    name: str
    kind: str
    length: int | None
    findings: tuple[Finding, ...]
    summary: Summary

    @property
    def ok(self) -> bool:
        """Whether nothing was found that would lose or corrupt data."""
        return not any(finding.level == "error" for finding in self.findings)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int = 100) -> str:
        """Return it for people to read, in lines of at most ``width`` characters where words allow that."""
        blocks = [self._heading(width)]
        blocks += ["\n".join(finding.lines(width)) for finding in self.findings]
        facts = [line for each in self.summary.lines() for line in wrap(each, width, "", "    ")]
        return "\n\n".join([*blocks, "\n".join(facts)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "format": _FORMAT,
            "ok": self.ok,
            "dataset": {"name": self.name, "kind": self.kind, "length": self.length},
            "findings": [finding.facts() for finding in self.findings],
            "summary": self.summary.facts(),
        }

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def _heading(self, width: int) -> str:
        length = "" if self.length is None else f", {self.length:,} samples"
        read = "" if self.length == self.summary.read else f", {self.summary.read:,} of them read"
        found = [finding.level for finding in self.findings]
        errors, warnings = found.count("error"), found.count("warning")
        told = "nothing wrong was found"
        if found:
            counts = [
                f"{count} {name}{'s' if count > 1 else ''}"
                for count, name in ((errors, "error"), (warnings, "warning"))
                if count
            ]
            told = ", ".join(counts)
        lines = wrap(f"{self.name}{length}{read}: {told}", width, "", "    ")
        if self.kind == "iterable":
            lines.append(
                "An iterable: one thread reads it, whatever num_workers is; workers transform and collate."
            )
        return "\n".join(lines)
