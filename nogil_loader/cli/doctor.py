"""``nogil-loader doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from nogil_loader.cli.arguments import Commands, limit
from nogil_loader.doctor import PARTS, as_json, as_text, examine


def add(commands: Commands) -> None:
    """Add the command."""
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
        type=limit,
        default="auto",
        metavar="LIMIT",
        help="the loader's argument memory=: auto, off, bytes such as 4GiB, or a share such as 0.8 "
        "(default: auto)",
    )
    doctor.add_argument("--json", action="store_true", help="write JSON, sizes in bytes")
    doctor.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    findings = examine(PARTS if options.part is None else (options.part,), memory=options.memory)

    def run() -> int:
        print(as_json(findings) if options.json else as_text(findings))
        return 0

    return run
