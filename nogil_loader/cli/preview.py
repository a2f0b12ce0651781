"""``nogil-loader preview``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from nogil_loader.cli.arguments import Commands, count
from nogil_loader.options import MAX_SEED
from nogil_loader.preview import Preview, run_preview
from nogil_loader.targets import Target


def add(commands: Commands) -> None:
    """Add the command."""
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
        "--seed", type=count(0, MAX_SEED), default=0, metavar="N", help="of the loader (default: 0)"
    )
    preview.add_argument("--epoch", type=count(0), default=0, metavar="N", help="the first one (default: 0)")
    preview.add_argument(
        "--count", type=count(1, 20), default=5, metavar="N", help="epochs for each image (default: 5)"
    )
    preview.set_defaults(prepare=_prepare)


def _prepare(options: argparse.Namespace) -> Callable[[], int]:
    preview = Preview(
        Target.parse(options.target), options.images, options.out, options.seed, options.epoch, options.count
    )
    return lambda: run_preview(preview, sys.stdout)
