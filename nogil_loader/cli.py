"""The command line: ``nogil-loader demo`` and ``doctor``, also as ``python -m nogil_loader demo``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TypeAlias

from nogil_loader.checks import as_count
from nogil_loader.demo import ACTS, Demo, PlantedDeath, run_demo
from nogil_loader.doctor import PARTS, as_json, as_text, examine
from nogil_loader.options import MAX_SEED

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

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
    except KeyboardInterrupt:
        return _INTERRUPTED


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nogil-loader", description="A multithreaded data loader that never loses a sample."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('nogil_loader')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_doctor(commands)
    return parser


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="load photographs, lose a worker and then memory on the way, and count what arrived",
        description="Decode photographs in worker threads, kill a worker in the middle of the epoch, and "
        "check at the end that every sample was delivered once. Then load the epoch again in a process with too "
        "little memory for it. The exit code is 0 only if nothing was lost.",
    )
    demo.add_argument(
        "--act",
        choices=ACTS,
        help="show only this one: a worker dies, or memory gets short (default: both)",
    )
    demo.add_argument(
        "--samples",
        type=_count(1),
        default=2000,
        metavar="N",
        help="photographs in the epoch (default: 2000)",
    )
    demo.add_argument(
        "--batch-size",
        type=_count(1),
        default=32,
        metavar="N",
        help="photographs per batch of the first act (default: 32)",
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
    demo.set_defaults(prepare=_prepare_demo)


def _add_doctor(commands: _Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="tell what the loader finds on this machine",
        description="Tell which limits of memory there are, which one binds, and what a loader would take.",
    )
    doctor.add_argument(
        "part", nargs="?", choices=PARTS, help="what to tell about (default: everything): %(choices)s"
    )
    doctor.add_argument(
        "--memory",
        type=_limit,
        default="auto",
        metavar="LIMIT",
        help="the loader's argument memory=: auto, off, bytes such as 4GiB, or a share such as 0.8 "
        "(default: auto)",
    )
    doctor.add_argument("--json", action="store_true", help="write JSON, sizes in bytes")
    doctor.set_defaults(prepare=_prepare_doctor)


def _prepare_demo(options: argparse.Namespace) -> Callable[[], int]:
    demo = _read_demo(options)
    return lambda: run_demo(demo, sys.stdout)


def _prepare_doctor(options: argparse.Namespace) -> Callable[[], int]:
    findings = examine(PARTS if options.part is None else (options.part,), memory=options.memory)

    def run() -> int:
        print(as_json(findings) if options.json else as_text(findings))
        return 0

    return run


def _read_demo(options: argparse.Namespace) -> Demo:
    demo = Demo(
        samples=options.samples,
        batch_size=options.batch_size,
        workers=options.workers,
        failure=options.failure,
        seed=options.seed,
        acts=ACTS if options.act is None else (options.act,),
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


def _limit(text: str) -> int | float | str:
    """Return a number for what a program would write as one; everything else is for `MemoryPolicy` to judge."""
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text
