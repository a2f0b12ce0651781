"""``nogil-loader doctor``."""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from nogil_loader.cli.arguments import Commands, limit
from nogil_loader.doctor import PARTS, Diagnosis, as_json, examine, exit_code, part_as_text, summary
from nogil_loader.policies import MemoryPolicy
from nogil_loader.targets import enter_folder, run_users_code

# Lines longer than this are hard to read, however wide the terminal is.
_WIDEST = 100


def add(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add_parser(
        "doctor",
        help="tell what the loader finds on this machine, and what to do about it",
        description="Tell what there is on this machine, what follows for a loader, and what to do about it. "
        "The exit code is 1 if something keeps a loader from working.",
    )
    doctor.add_argument(
        "parts",
        nargs="*",
        type=_part,
        metavar="PART",
        help=f"what to tell about (default: everything): {', '.join(PARTS)}",
    )
    doctor.add_argument(
        "--memory",
        type=limit,
        default="auto",
        metavar="LIMIT",
        help="the loader's argument memory=: auto, off, bytes such as 4GiB, or a share such as 0.8 "
        "(default: auto)",
    )
    doctor.add_argument(
        "--import",
        type=_modules,
        action="extend",
        default=[],
        dest="imports",
        metavar="MODULE,...",
        help="import these first, to see the threads that their libraries start",
    )
    doctor.add_argument("--json", action="store_true", help="write JSON, sizes in bytes")
    doctor.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    MemoryPolicy.of(options.memory)  # raises for what no loader takes

    def run() -> int:
        enter_folder(Path.cwd())
        for name in options.imports:
            run_users_code(lambda name=name: importlib.import_module(name), f"importing {name}")  # type: ignore[misc]
        parts = tuple(dict.fromkeys(options.parts)) or PARTS
        width = min(shutil.get_terminal_size((_WIDEST, 0)).columns, _WIDEST)

        def tell(diagnosis: Diagnosis) -> None:
            if not options.json:
                print(_printable(part_as_text(diagnosis, width)), end="\n\n", flush=True)

        found = examine(parts, memory=options.memory, imported=tuple(options.imports), tell=tell)
        print(_printable(as_json(found) if options.json else summary(found)))
        return exit_code(found)

    return run


def _printable(text: str) -> str:
    """Return text that the output can take: names of files and values of variables may be any bytes."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _part(text: str) -> str:
    """Read the name of a part."""
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected one of {', '.join(PARTS)}")
    return text


def _modules(text: str) -> list[str]:
    """Read names of modules between commas."""
    names = text.split(",")
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise argparse.ArgumentTypeError(f"{name!r}: expected names of modules, such as torch,cv2")
    return names
