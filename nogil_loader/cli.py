"""The command line: ``nogil-loader demo``, also as ``python -m nogil_loader demo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from nogil_loader.checks import as_count
from nogil_loader.demo import Demo, PlantedDeath, run_demo
from nogil_loader.options import MAX_SEED

# A shell's exit code for a process that ended by Ctrl-C: 128 + SIGINT.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0 for success, 1 for failure, 2 for wrong arguments."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    try:
        demo = _read_demo(options)
    except ValueError as error:
        parser.error(str(error))
    try:
        return run_demo(demo, sys.stdout)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nogil-loader", description="A multithreaded data loader that never loses a sample."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nogil_loader')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="load photographs, lose a worker on the way, and count what arrived",
        description="Decode photographs in worker threads, kill a worker in the middle of the epoch, and "
        "check at the end that every sample was delivered once. The exit code is 0 only if that holds.",
    )
    demo.add_argument(
        "--samples",
        type=_count(1),
        default=2000,
        metavar="N",
        help="photographs in the epoch (default: 2000)",
    )
    demo.add_argument(
        "--batch-size", type=_count(1), default=32, metavar="N", help="photographs per batch (default: 32)"
    )
    demo.add_argument(
        "--workers",
        type=_workers,
        default="auto",
        metavar="N",
        help="threads; 0 for none (default: auto, one per usable CPU)",
    )
    demo.add_argument(
        "--failure",
        choices=["raise", "rebuild", "skip"],
        default="rebuild",
        help="what the loader does about a dead worker; with skip, the sample kills every worker that reads it "
        "(default: rebuild)",
    )
    death = demo.add_mutually_exclusive_group()
    death.add_argument(
        "--kill-batch",
        type=_count(0),
        metavar="N",
        help="the batch, from 0, in which a worker is killed (default: the middle one)",
    )
    death.add_argument("--no-kill", action="store_true", help="kill nobody")
    demo.add_argument(
        "--seed", type=_count(0, MAX_SEED), default=0, metavar="N", help="of the order (default: 0)"
    )
    return parser


def _read_demo(options: argparse.Namespace) -> Demo:
    demo = Demo(
        samples=options.samples,
        batch_size=options.batch_size,
        workers=options.workers,
        failure=options.failure,
        seed=options.seed,
    )
    if options.no_kill:
        return demo
    batch = demo.batches // 2 if options.kill_batch is None else options.kill_batch
    return demo.with_death(PlantedDeath(batch, every_time=options.failure == "skip"))


def _count(least: int, most: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            return as_count("value", int(text), least=least, most=most)
        except ValueError:
            allowed = f"an integer ≥ {least}" if most is None else f"an integer from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected {allowed}") from None

    return read


def _workers(text: str) -> int | str:
    return text if text == "auto" else _count(0)(text)
