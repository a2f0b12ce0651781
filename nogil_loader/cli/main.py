"""The command line: ``nogil-loader COMMAND``, or ``python -m nogil_loader COMMAND``; one module a command."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from nogil_loader.cli import bench, check, demo, doctor, preview, warmup
from nogil_loader.targets import TargetError

# In the order in which the help shows them.
_COMMANDS = (bench, check, demo, doctor, preview, warmup)
# A shell's exit code for a process that ended by Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130
# How a file system or a device refuses what a command prints.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0 for success, 1 for failure, 2 for wrong arguments."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        run: Callable[[], int] = options.prepare(options)
    except ValueError as error:
        parser.error(str(error))
    if sys.stdout is None:  # a shell's >&-
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    try:
        code = run()
        sys.stdout.flush()
        return code
    except TargetError as error:
        print(f"{error.trace}nogil-loader: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read has enough. What is left to flush at exit must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"nogil-loader: what was to be told cannot be written: {error.strerror}", file=sys.stderr)
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
