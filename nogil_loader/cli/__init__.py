"""The command line."""

from nogil_loader.cli.main import main

__all__ = ["main"]
