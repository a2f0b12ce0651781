"""``nogil-loader warmup``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from nogil_loader.cli.arguments import Commands, dtype, shape
from nogil_loader.targets import Target
from nogil_loader.warmup import Warmup, run_warmup


def add(commands: Commands) -> None:
    """Add the command."""
    warmup = commands.add_parser(
        "warmup",
        help="compile before a program runs, as when a container image is built",
        description="Fill the cache of compiled kernels, so that the program does not wait for them. A loader is "
        "asked for its first batch. A script runs as __main__ until a loader has loaded its first batch, and is "
        "ended there by SystemExit. The exit code is 0 if everything is in the cache afterwards.",
    )
    warmup.add_argument(
        "target",
        metavar="TARGET",
        help="module:name or path.py:name of a loader, of a transform, of a list of these, or of a function "
        "without arguments that returns such; or path.py, a script",
    )
    warmup.add_argument(
        "arguments", nargs="*", metavar="ARGUMENT", help="for a script; those with a dash go behind --"
    )
    warmup.add_argument(
        "--shape",
        type=shape,
        action="append",
        default=[],
        metavar="N,N,N",
        help="of the arrays that a transform will be given, can be repeated (default: 256,256,3)",
    )
    warmup.add_argument(
        "--dtype", type=dtype, default="uint8", metavar="DTYPE", help="of these (default: uint8)"
    )
    warmup.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    target = Target.parse(options.target, script=True)
    warmup = Warmup(target, options.shape, options.dtype, options.arguments)
    return lambda: run_warmup(warmup, sys.stdout)
