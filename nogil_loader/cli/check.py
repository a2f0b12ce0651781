"""``nogil-loader check``."""

from __future__ import annotations

import argparse
import faulthandler
import math
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nogil_loader.cli.arguments import Commands, count, number
from nogil_loader.files import check_writable, write_whole
from nogil_loader.options import MAX_SEED
from nogil_loader.targets import Target, TargetError, run_users_code

# Lines longer than this are hard to read, however wide the terminal is.
_WIDEST = 100
# What --json is without a file.
_STDOUT = Path("-")


def add(commands: Commands) -> None:
    """Add the command."""
    check = commands.add_parser(
        "check",
        help="tell whether a dataset is safe to read in threads, and what its samples are like",
        description="Read a dataset alone and in many threads at once, and compare. Tell what is not thread-safe, "
        "which samples raise or hang, what does not fit into a batch, and what samples are like. The exit code "
        "is 0 if nothing was found that would lose or corrupt data, 1 if something was.",
    )
    check.add_argument(
        "target",
        metavar="TARGET",
        help="module:name or path.py:name of a dataset, of a loader (whose dataset is checked), or of a function "
        "without arguments that returns one",
    )
    check.add_argument(
        "--samples",
        type=count(1),
        default=200,
        metavar="N",
        help="how many are read, spread over the dataset; always the first and the last (default: 200)",
    )
    check.add_argument(
        "--threads",
        type=count(2, 256),
        metavar="N",
        help="how many read at once (default: twice the CPUs, at least 8)",
    )
    check.add_argument(
        "--rounds",
        type=count(0),
        default=2,
        metavar="N",
        help="how often all threads go through all patterns (default: 2)",
    )
    check.add_argument(
        "--timeout",
        type=number("seconds above 0", lambda value: 0 < value < math.inf),
        default=30.0,
        metavar="S",
        help="seconds after which a call counts as hanging (default: 30)",
    )
    check.add_argument(
        "--seed",
        type=count(0, MAX_SEED),
        default=0,
        metavar="N",
        help="of orders, and of nogil_loader.sample_rng() (default: 0)",
    )
    check.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="write JSON, sizes in bytes: to a file beside the report, or without FILE in its place",
    )
    check.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    target = Target.parse(options.target)
    file: Path | None = None if options.json in (None, _STDOUT) else options.json
    if file is not None:
        try:
            check_writable(file)
        except OSError as failure:
            raise ValueError(f"argument --json: {failure}") from failure
    return lambda: _run(target, options, file)


def _run(target: Target, options: argparse.Namespace, file: Path | None) -> int:
    from nogil_loader.check import check_dataset
    from nogil_loader.check.target import find

    found = find(target)
    if not faulthandler.is_enabled():
        faulthandler.enable()  # code of C that is not thread-safe may end the process; this says where
    check = partial(
        check_dataset,
        found.what,
        samples=options.samples,
        threads=options.threads,
        rounds=options.rounds,
        timeout=options.timeout,
        seed=options.seed,
        make=found.make,
        progress=_tell,
    )
    report = run_users_code(check, str(target))
    if file is not None:
        try:
            write_whole(file, report.to_json() + "\n")
        except OSError as failure:
            raise TargetError(f"{file} cannot be written: {failure.strerror or failure}") from failure
    width = min(shutil.get_terminal_size((_WIDEST, 0)).columns, _WIDEST)
    text = report.to_json() if options.json == _STDOUT else report.to_text(width)
    encoding = sys.stdout.encoding or "utf-8"
    # Names of files, and what exceptions say, may be any characters.
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0 if report.ok else 1


def _tell(what: str) -> None:
    """Say on stderr what is being done, so that a crash is not without a word."""
    print(f"nogil-loader check: {what} …", file=sys.stderr, flush=True)
