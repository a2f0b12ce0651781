"""Writes the report whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from nogil_loader.bench.comparison import Comparison
from nogil_loader.bench.report.page import render_report
from nogil_loader.bench.result import Result


def write_report(result: Result, path: str | os.PathLike[str], comparison: Comparison | None = None) -> None:
    """Write the report; a file of that name is replaced when the new one is complete.

    Args:
        result: What to report on.
        path: The HTML file.
        comparison: Of this result with an earlier one.

    Raises:
        OSError: It cannot be written; the message names the path and the reason.
    """
    target = Path(path)
    page = render_report(result, comparison).encode("utf-8")
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(page)
        os.replace(temporary, target)
    except BaseException as failure:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(failure, OSError) and failure.errno is not None:
            raise OSError(
                failure.errno, f"the report cannot be written: {failure.strerror}", str(target)
            ) from failure
        raise
