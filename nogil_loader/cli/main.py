"""The command line: ``nogil-loader COMMAND``, or ``python -m nogil_loader COMMAND``; one module a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from nogil_loader.cli import bench, check, demo, doctor, preview, warmup
from nogil_loader.targets import TargetError

# In the order in which the help shows them.
_COMMANDS = (bench, check, demo, doctor, preview, warmup)
# A shell's exit code for a process that ended by Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0 for success, 1 for failure, 2 for wrong arguments."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        run: Callable[[], int] = options.prepare(options)
    except ValueError as error:
        parser.error(str(error))
    try:
        return run()
    except TargetError as error:
        print(f"{error.trace}nogil-loader: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nogil-loader", description="A multithreaded data loader that never loses a sample."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nogil_loader')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser
