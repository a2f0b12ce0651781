"""``nogil-loader bench``."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

from nogil_loader.cli.arguments import Commands, count, number
from nogil_loader.options import MAX_SEED
from nogil_loader.policies import MemoryPolicy


def add(commands: Commands) -> None:
    """Add the command."""
    bench = commands.add_parser(
        "bench",
        help="measure how fast a dataset loads, and with how many workers",
        description="Measure a dataset or a loader with several numbers of workers, each in processes of its own, "
        "by turns. Tell what holds it back and which setting to use. The exit code is 0 if all settings could be "
        "measured and what was demanded is met.",
    )
    bench.add_argument(
        "target",
        metavar="TARGET",
        help="module:name or path.py:name of a dataset, of a loader (whose other arguments are kept), or of a "
        "function without arguments that returns one; or a folder of images, or a .npy or .npz file",
    )
    swept = bench.add_argument_group("what is swept; numbers between commas")
    swept.add_argument(
        "--workers", type=_numbers, metavar="N,N", help="default: 0, 1, 2, 4 ... up to twice the usable cores"
    )
    swept.add_argument(
        "--prefetch",
        type=_numbers,
        default=(2,),
        metavar="N,N",
        help="batches loaded ahead for each worker (default: 2)",
    )
    swept.add_argument(
        "--batch-size",
        type=_numbers,
        default=(),
        metavar="N,N",
        help="samples per batch (default: the loader's own; 32 for a dataset)",
    )
    how = bench.add_argument_group("how it is measured")
    how.add_argument(
        "--seconds",
        type=number("a number above 0", lambda value: 0 < value < math.inf),
        default=2.0,
        metavar="S",
        help="of each measurement (default: 2)",
    )
    how.add_argument(
        "--repeats", type=count(1), default=3, metavar="N", help="measurements of each setting (default: 3)"
    )
    how.add_argument(
        "--memory-limit",
        type=_nbytes,
        metavar="SIZE",
        help="run in a control group with so much memory, such as 600M or 2GiB",
    )
    how.add_argument(
        "--timeout",
        type=number("a number above 0", lambda value: 0 < value < math.inf),
        default=300.0,
        metavar="S",
        help="end a measurement, with its start, that takes longer (default: 300)",
    )
    how.add_argument(
        "--seed", type=count(0, MAX_SEED), default=0, metavar="N", help="of the order (default: 0)"
    )
    results = bench.add_argument_group("results")
    results.add_argument(
        "--compare",
        type=_names,
        default=(),
        metavar="PEER,PEER",
        help="load the same with torch, torchdata, spdl, grain; or all of these that are installed",
    )
    results.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    results.add_argument("--report", type=Path, metavar="FILE", help="write the result as a page of HTML")
    results.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with JSON that was written earlier"
    )
    results.add_argument(
        "--fail-below",
        type=number("a number above 0", lambda value: 0 < value < math.inf),
        metavar="RATE",
        help="fail if the best setting loads fewer samples/s",
    )
    results.add_argument(
        "--fail-regression",
        type=number("per cent, from 0 to less than 100", lambda value: 0 <= value < 100),
        metavar="PERCENT",
        help="fail if it is slower than --against, by more than so many per cent and beyond doubt",
    )
    bench.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    from nogil_loader.bench.command import Command, run_command
    from nogil_loader.bench.order import Bench

    command = Command(
        Bench(
            target=options.target,
            workers=options.workers,
            prefetch=options.prefetch,
            batch_sizes=options.batch_size,
            seconds=options.seconds,
            repeats=options.repeats,
            compare=options.compare,
            memory_limit=options.memory_limit,
            timeout=options.timeout,
            seed=options.seed,
        ),
        json=options.json,
        report=options.report,
        fail_below=options.fail_below,
        against=options.against,
        fail_regression=options.fail_regression,
    )
    return lambda: run_command(command, sys.stdout, sys.stderr)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(count(0), text.split(",")))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _nbytes(text: str) -> int:
    # Of a limit one writes 600M as well as 600MB.
    unit = "" if text[-1:].upper() == "B" else "B"
    with contextlib.suppress(ValueError):
        limit = MemoryPolicy(text + unit).limit
        if isinstance(limit, int):
            return limit
    raise argparse.ArgumentTypeError(f"{text!r}: expected a size of at least 1 MiB, such as 600M or 2GiB")
