"""Files that are written whole or not at all, and refused before there is anything to write.

* What was there stays until the new file is complete, and what is half-written is taken away again.
* A link stays a link: the file that it leads to is replaced. A file keeps the rights that it had.
* What is no file, a device or a pipe, is never replaced but written to.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# Of a file's name; file systems take 255 bytes for all of it.
_KEPT_OF_NAME = 50


def check_writable(path: Path) -> None:
    """Refuse a path at which no file could be written. Nothing is left there.

    Raises:
        OSError: As said; the message names the path.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {folder}")
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is read-only")
    if _is_replaceable(path):
        try:
            with tempfile.TemporaryFile(dir=_end_of_links(path).parent):
                pass
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror}") from error


def write_whole(path: Path, content: str | bytes, what: str = "file") -> None:
    """Write a file; one of that name is replaced when the new one is complete.

    Args:
        path: Where.
        content: All of it.
        what: What to call it in an error.

    Raises:
        OSError: It cannot be written; names the path.
    """
    with whole_file(path, what) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_file(path: Path, what: str = "file") -> Iterator[IO[bytes]]:
    """Open a file to be written in a ``with`` block; one of that name is replaced when the block is left.

    Args:
        path: Where.
        what: What to call it in an error.

    Raises:
        OSError: It cannot be written; names the path.
    """
    try:
        if _is_replaceable(path):
            with _beside(_end_of_links(path)) as file:
                yield file
        else:
            with path.open("wb") as file:
                yield file
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"the {what} cannot be written: {error.strerror}", str(path)) from error


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[IO[Any]]:
    part = target.with_name(f".{target.name[:_KEPT_OF_NAME]}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _is_replaceable(path: Path) -> bool:
    return path.is_file() or not path.exists()


def _end_of_links(path: Path) -> Path:
    return Path(os.path.realpath(path))
