"""Writes the report whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from nogil_loader.bench.comparison import Comparison
from nogil_loader.bench.report.page import render_report
from nogil_loader.bench.result import Result
from nogil_loader.files import write_whole


def write_report(result: Result, path: str | os.PathLike[str], comparison: Comparison | None = None) -> None:
    """Write the report; a file of that name is replaced when the new one is complete.

    Args:
        result: What to report on.
        path: The HTML file.
        comparison: Of this result with an earlier one.

    Raises:
        OSError: It cannot be written; the message names the path and the reason.
    """
    write_whole(Path(path), render_report(result, comparison), "report")
