"""Run the benchmarks: ``python -m benchmarks [--quick] [--json FILE] [--page] [NAMES]``."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import benchmarks
from benchmarks.harness import Row
from benchmarks.report import describe_environment, draw_group, render_page, render_rows

_PREFIX = "bench_"
_PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
#: The groups on that page, in their order.
ON_PAGE = (
    *("handoff", "collate", "scaling", "startup", "imports", "memory"),
    *("statistics", "autotune", "gil"),
)
#: Those that take longer, or need more than a table, have pages of their own.
ELSEWHERE = {
    **dict.fromkeys(("augment", "augment_crop", "augment_colour", "augment_start", "ffcv"), "augmentation"),
    "governor": "memory",
}


def find_groups() -> list[str]:
    """Name the groups: every ``bench_NAME.py`` beside this file with a ``run(quick)`` that returns rows."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name.removeprefix(_PREFIX) for name in modules if name.startswith(_PREFIX))


def main() -> int:
    groups = find_groups()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare with other loaders.")
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"any of: {', '.join(groups)}; default all")
    parser.add_argument(
        "--quick", action="store_true", help="show that everything runs; too short to judge by"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    parser.add_argument(
        "--page",
        action="store_true",
        help="measure at full length what stands in docs/benchmarks.md; rewrite it",
    )
    options = parser.parse_args()
    if options.page and (options.names or options.quick):
        parser.error("--page: expected neither NAMES nor --quick with it, since a page is of one whole run")
    if options.page:
        options.names = list(ON_PAGE)
    if unknown := sorted(set(options.names) - set(groups)):
        parser.error(f"no such group: {', '.join(unknown)}; there are: {', '.join(groups)}")

    environment = describe_environment()
    failed: list[str] = []
    results: list[tuple[ModuleType, list[Row]]] = []
    for name in options.names or groups:
        module = importlib.import_module(f"benchmarks.{_PREFIX}{name}")
        start = time.perf_counter()
        try:
            rows: list[Row] = module.run(options.quick)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            # A loader that fails or hangs must not cost the other groups' results.
            print(f"\n{name} failed: {error}", file=sys.stderr)
            failed.append(name)
            continue
        if options.quick:
            for row in rows:
                row["target"] = None  # nothing to judge
        results.append((module, rows))
        print(f"\n{name}: {time.perf_counter() - start:.0f} s\n\n{render_rows(rows)}", flush=True)
    environment["load_at_end"] = round(os.getloadavg()[0], 2)

    if options.json:
        everything = {"environment": environment, "rows": [row for _, rows in results for row in rows]}
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    if options.page and not failed:
        figures = draw_figures(results, _PAGE)
        _PAGE.write_text(render_page(results, environment, figures))
    return 1 if failed else 0


def draw_figures(results: list[tuple[ModuleType, list[Row]]], page: Path) -> dict[str, str]:
    """Write a figure for each group that has one, into a folder beside the page, and return where they are."""
    figures = {}
    folder = page.with_suffix("")
    for module, rows in results:
        title = inspect.cleandoc(module.__doc__ or "").partition("\n")[0].rstrip(".")
        drawing = draw_group(title, rows)
        if drawing is not None:
            folder.mkdir(exist_ok=True)
            file = folder / f"{module.__name__.rpartition('.')[2].removeprefix(_PREFIX)}.svg"
            file.write_text(drawing)
            figures[module.__name__] = f"{folder.name}/{file.name}"
    return figures


if __name__ == "__main__":
    sys.exit(main())
