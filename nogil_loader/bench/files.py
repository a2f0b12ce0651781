"""Files that are written whole or not at all, and refused before there is anything to write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """Refuse a path at which no file could be written. Nothing is left there.

    Raises:
        OSError: As said.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}") from error
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is read-only")


def write_whole(path: Path, text: str) -> None:
    """Write a file; one of that name is replaced when the new one is complete.

    Raises:
        OSError: It cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())  # mkstemp lets nobody else read it
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
