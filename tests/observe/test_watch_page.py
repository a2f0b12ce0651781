"""The page on watching names everything that there is to see."""

from __future__ import annotations

import re
from dataclasses import fields

from nogil_loader.engine.statistics import STAGES, Statistics
from nogil_loader.observe.metrics import METRICS
from tests.scripts import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "watch.md").read_text("utf-8")


def test_the_page_tells_of_every_field_of_the_statistics() -> None:
    rows = re.findall(r"^\| (`[a-z].*?`) \| (.+) \|$", PAGE, re.MULTILINE)
    told = {name for names, _ in rows for name in re.findall(r"`(\w+)(?:\(\))?`", names)}
    assert {field.name for field in fields(Statistics)} <= told
    for name in told - {metric.name for metric in METRICS}:
        assert hasattr(Statistics, name) or name in Statistics.__dataclass_fields__, f"there is no {name}"
    assert all(f"`{stage}`" in PAGE for stage in STAGES)


def test_the_page_lists_every_metric_as_it_is_exported() -> None:
    rows = re.findall(r"^\| `(nogil_loader_\w+)` \| (\w+) \| (\S*) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [(name, kind, label.strip("`"), meaning) for name, kind, label, meaning in rows] == [
        (metric.name, metric.kind, metric.label or "–", metric.meaning) for metric in METRICS
    ]
