"""Checks a dataset before the first epoch: ``nogil-loader check``."""

from nogil_loader.check.check import check_dataset
from nogil_loader.check.finding import Finding
from nogil_loader.check.report import Report

__all__ = ["Finding", "Report", "check_dataset"]
