"""The command line: ``nogil-loader demo``, ``doctor``, ``preview``, ``warmup``; or ``python -m nogil_loader``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.demo import ACTS, Demo, PlantedDeath, run_demo
from nogil_loader.doctor import PARTS, as_json, as_text, examine
from nogil_loader.options import MAX_SEED
from nogil_loader.preview import Preview, run_preview
from nogil_loader.targets import Target, TargetError
from nogil_loader.warmup import Warmup, run_warmup

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
    _add_demo(commands)
    _add_doctor(commands)
    _add_preview(commands)
    _add_warmup(commands)
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


def _add_preview(commands: _Commands) -> None:
    preview = commands.add_parser(
        "preview",
        help="draw what a transform makes of images",
        description="Draw a contact sheet: images beside what a transform makes of them in one epoch after "
        "another, with what was drawn for each. Needs Pillow: pip install 'nogil_loader[preview]'.",
    )
    preview.add_argument(
        "target", metavar="TARGET", help="module:name or path.py:name of a transform, or of what returns one"
    )
    preview.add_argument(
        "images",
        nargs="*",
        type=Path,
        metavar="IMAGE",
        help="files that Pillow reads, .npy files, and folders, of which some are shown (default: a painted one)",
    )
    preview.add_argument(
        "--out",
        type=Path,
        default=Path("preview.png"),
        metavar="FILE",
        help="where to write the sheet (default: %(default)s)",
    )
    preview.add_argument(
        "--seed", type=_count(0, MAX_SEED), default=0, metavar="N", help="of the loader (default: 0)"
    )
    preview.add_argument("--epoch", type=_count(0), default=0, metavar="N", help="the first one (default: 0)")
    preview.add_argument(
        "--count", type=_count(1, 20), default=5, metavar="N", help="epochs for each image (default: 5)"
    )
    preview.set_defaults(prepare=_prepare_preview)


def _add_warmup(commands: _Commands) -> None:
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
        type=_shape,
        action="append",
        default=[],
        metavar="N,N,N",
        help="of the arrays that a transform will be given, can be repeated (default: 256,256,3)",
    )
    warmup.add_argument(
        "--dtype", type=_dtype, default="uint8", metavar="DTYPE", help="of these (default: uint8)"
    )
    warmup.set_defaults(prepare=_prepare_warmup)


def _prepare_demo(options: argparse.Namespace) -> Callable[[], int]:
    demo = _read_demo(options)
    return lambda: run_demo(demo, sys.stdout)


def _prepare_doctor(options: argparse.Namespace) -> Callable[[], int]:
    findings = examine(PARTS if options.part is None else (options.part,), memory=options.memory)

    def run() -> int:
        print(as_json(findings) if options.json else as_text(findings))
        return 0

    return run


def _prepare_preview(options: argparse.Namespace) -> Callable[[], int]:
    preview = Preview(
        Target.parse(options.target), options.images, options.out, options.seed, options.epoch, options.count
    )
    return lambda: run_preview(preview, sys.stdout)


def _prepare_warmup(options: argparse.Namespace) -> Callable[[], int]:
    target = Target.parse(options.target, script=True)
    warmup = Warmup(target, options.shape, options.dtype, options.arguments)
    return lambda: run_warmup(warmup, sys.stdout)


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


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(_count(1), text.split(",")))


def _dtype(text: str) -> Any:
    try:
        return np.dtype(text)
    except TypeError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a dtype such as uint8 or float32") from None


def _limit(text: str) -> int | float | str:
    """Return a number for what a program would write as one; everything else is for `MemoryPolicy` to judge."""
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text
