"""The project's own benchmarks run: a quick pass over some groups, whose times nobody judges."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.__main__ import ELSEWHERE, ON_PAGE, draw_figures, find_groups
from benchmarks.harness import Row
from benchmarks.report import describe_environment, render_page, verdict

# Quick ones of each kind: against peers, against limits, against themselves.
QUICK = ("collate", "handoff", "statistics")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    pytest.importorskip("torch")
    results = tmp_path_factory.mktemp("benchmarks") / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(results), *QUICK]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Row] = json.loads(results.read_text())["rows"]
    return found


@pytest.mark.slow
@pytest.mark.torch
def test_quick_groups_measure_something(rows: list[Row]) -> None:
    assert {row["group"] for row in rows} == set(QUICK)
    measured = [row for row in rows if row["ratio"] is not None]
    assert len(measured) > len(QUICK)
    assert all(row["value"] is not None and row["value"] > 0 for row in measured)
    assert all(row["target"] is None for row in rows)  # a quick pass promises nothing


def row(ratio: float | None, against: str = "peer", note: str = "") -> Row:
    return Row(
        group="g",
        name="n",
        unit="s",
        value=1.0,
        baseline=2.0,
        ratio=ratio,
        target=1.5,
        against=against,
        note=note,
    )


def test_a_verdict_says_what_was_reached_and_what_was_missed() -> None:
    assert verdict(row(1.5)) == "reached"
    assert verdict(row(1.4)) == "**missed**"
    assert verdict(row(None, note="not installed")) == "not installed"


@pytest.mark.parametrize("name", find_groups())
def test_every_group_explains_itself_and_can_be_run(name: str) -> None:
    module = importlib.import_module(f"benchmarks.bench_{name}")
    assert (module.__doc__ or "").partition("\n")[0].endswith(".")
    assert list(inspect.signature(module.run).parameters) == ["quick"]


def test_the_page_shows_a_figure_for_what_has_peers_and_none_for_limits(tmp_path: Path) -> None:
    handoff = importlib.import_module("benchmarks.bench_handoff")
    memory = importlib.import_module("benchmarks.bench_memory")
    results = [
        (handoff, [row(12.0, against="torch"), row(0.9, against="another"), row(None, against="absent")]),
        (memory, [row(2.0, against="limit")]),
    ]
    figures = draw_figures(results, tmp_path / "page.md")
    assert figures == {"benchmarks.bench_handoff": "page/handoff.svg"}
    drawing = ET.fromstring((tmp_path / "page" / "handoff.svg").read_text())
    text = " ".join(drawing.itertext())
    assert "torch" in text
    assert "absent" not in text
    environment = {**describe_environment(), "load_at_end": 0.0}
    page = render_page(results, environment, figures)
    assert "(page/handoff.svg)" in page
    assert page.count(".svg") == 1


def test_every_group_is_on_one_page() -> None:
    assert sorted([*ON_PAGE, *ELSEWHERE]) == find_groups()
    for page in ELSEWHERE.values():
        assert (Path(__file__).parent.parent / "docs" / f"benchmarks-{page}.md").exists()
