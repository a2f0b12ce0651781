"""What the results look like: where they were taken, and as a Markdown table."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.harness import Row
from nogil_loader.bench.report import Bar, bar_chart

_TIMES = "\N{MULTIPLICATION SIGN}"
_NOTHING = "\N{EN DASH}"
_PACKAGES = (
    "nogil_loader",
    "numpy",
    "numba",
    "torch",
    "torchvision",
    "torchdata",
    "spdl",
    "grain",
    "albumentations",
    "opencv-python-headless",
    "pillow",
    "simplejpeg",
)


def describe_environment() -> dict[str, Any]:
    """Return what a reader has to know about the machine to judge a number that was taken on it."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    names = os.sysconf_names
    if "SC_PHYS_PAGES" not in names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def verdict(row: Row) -> str:
    """Say whether a row keeps its promise."""
    if row["ratio"] is None:
        return row.get("note", "not measured")
    if row["target"] is None:
        return ""
    return "reached" if row["ratio"] >= row["target"] else "**missed**"


def render_rows(rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    lines = [
        "| what | ours | compared with | ratio | promised | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines.extend(f"| {' | '.join(_cells(row))} |" for row in rows)
    return "\n".join(lines)


def _cells(row: Row) -> Sequence[str]:
    against = row.get("against", "baseline")
    ours = (
        _NOTHING
        if row["value"] is None
        else f"{_number(row['value'])} {row['unit']}{_span(row.get('spread'))}"
    )
    theirs = (
        against
        if row["baseline"] is None
        else f"{against}: {_number(row['baseline'])}{_span(row.get('baseline_spread'))}"
    )
    name = row["name"]
    if "note" in row and row["ratio"] is not None:
        name += f" ({row['note']})"
    ratio = _NOTHING if row["ratio"] is None else f"{_number(row['ratio'])}{_TIMES}"
    target = "" if row["target"] is None else f"≥ {_number(row['target'])}{_TIMES}"
    return name, ours, theirs, ratio, target, verdict(row)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _span(spread: Sequence[float] | None) -> str:
    return "" if spread is None else f" ({_number(spread[0])}{_NOTHING}{_number(spread[1])})"


def _describe_place(environment: dict[str, Any], versions: str) -> str:
    return (
        f"Taken {environment['date']} on {environment['cpu']}, {environment['cores']} cores, "
        f"{environment['memory_gib']} GiB, {environment['system']}, load {environment['load']} at the start and "
        f"{environment['load_at_end']} at the end. {environment['python']}, {versions}."
    )


def draw_group(title: str, rows: Sequence[Row]) -> str | None:
    """Return an SVG of how many times better than its peers a group is, None if it has no peers."""
    bars = [
        Bar(row["against"], row["ratio"], group=row["name"])
        for row in rows
        if row["ratio"] is not None and row.get("against", "limit") != "limit"
    ]
    if not bars:
        return None
    return bar_chart(
        bars, label=f"{title}: how many times as good as others", reference_name="as good as the other"
    )


def render_page(
    results: Sequence[tuple[ModuleType, list[Row]]], environment: dict[str, Any], figures: Mapping[str, str]
) -> str:
    """Return the page of the documentation; each group explains itself with its module's docstring.

    Args:
        results: The groups.
        environment: Where they were measured.
        figures: Where the figures of groups are, as seen from the page, by the names of modules.
    """
    versions = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in environment["packages"].items()
    )
    parts = [
        "# Benchmarks",
        "<!-- Generated by ./dev bench; edit the docstrings under benchmarks/ instead. -->",
        inspect.cleandoc(_PREFACE),
        _describe_place(environment, versions),
    ]
    for module, rows in results:
        title, _, text = inspect.cleandoc(module.__doc__ or "").partition("\n")
        figure = figures.get(module.__name__)
        parts += [f"## {title.rstrip('.')}", text.strip(), f"![{title}]({figure})" if figure else ""]
        parts += [render_rows(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


_PREFACE = """
    Run them yourself with `./dev bench`: it installs the peers into an environment of their own, measures and
    rewrites this page. `./dev bench NAMES` prints only the groups named. Transforms have
    [a page of their own](benchmarks-augmentation.md), and so has [loading under a limit](benchmarks-memory.md).

    The sides of a comparison take turns, each in a fresh process, and the ratio is the median of the rounds'
    own ratios: read the ratios, the absolute numbers belong to the machine. In brackets stand the lowest and
    the highest round. A ratio above 1 means that nogil_loader is better. A limit is a promise of its own, and
    the ratio says how much of it is left. Where nothing is promised the row is there for orientation.
"""
