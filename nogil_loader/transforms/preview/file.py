"""Writes a picture whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from nogil_loader.files import whole_file

if TYPE_CHECKING:
    from PIL.Image import Image


def as_png_path(path: str | os.PathLike[str]) -> Path:
    """Return where a picture is to be written, checked before the work is done.

    Raises:
        TypeError: It is no path.
        ValueError: It does not end in ``.png``.
        OSError: There is no such folder, it cannot be written to, or the path is a folder itself.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise ValueError(f"path={str(path)!r}: expected a name that ends in .png")
    if target.is_dir():
        raise _refusal(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not target.parent.is_dir():
        raise _refusal(errno.ENOENT, "there is no such folder", target.parent)
    if not os.access(target.parent, os.W_OK):
        raise _refusal(errno.EACCES, os.strerror(errno.EACCES), target.parent)
    return target


def save(image: Image, target: Path) -> None:
    """Write a picture as PNG; a file of that name is replaced when the new one is complete.

    Raises:
        OSError: It cannot be written.
    """
    with whole_file(target, "picture") as file:
        image.save(file, "PNG")


def _refusal(number: int, reason: str, path: Path) -> OSError:
    return OSError(number, f"the picture cannot be written: {reason}", str(path))
