"""``nogil-loader demo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from nogil_loader.cli.arguments import Commands, count, workers
from nogil_loader.demo import ACTS, Demo, PlantedDeath, run_demo
from nogil_loader.options import MAX_SEED


def add(commands: Commands) -> None:
    """Add the command."""
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
        type=count(1),
        default=2000,
        metavar="N",
        help="photographs in the epoch (default: 2000)",
    )
    demo.add_argument(
        "--batch-size",
        type=count(1),
        default=32,
        metavar="N",
        help="photographs per batch of the first act (default: 32)",
    )
    demo.add_argument(
        "--workers",
        type=workers,
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
        type=count(0),
        metavar="N",
        help="the batch, from 0, in which a worker is killed (default: the middle one)",
    )
    death.add_argument("--no-kill", action="store_true", help="kill nobody")
    demo.add_argument(
        "--seed", type=count(0, MAX_SEED), default=0, metavar="N", help="of the order (default: 0)"
    )
    demo.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    demo = _read_demo(options)
    return lambda: run_demo(demo, sys.stdout)


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
