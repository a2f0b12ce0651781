"""The report of ``nogil-loader bench``: one HTML file with drawings of its own making."""

from __future__ import annotations

from nogil_loader.bench.report.bars import Bar, bar_chart
from nogil_loader.bench.report.file import write_report
from nogil_loader.bench.report.page import render_report

__all__ = ["Bar", "bar_chart", "render_report", "write_report"]
