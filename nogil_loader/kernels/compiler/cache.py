"""Files of compiled kernels in a folder that belongs to the user.

- The folder is ``NOGIL_LOADER_CACHE_DIR`` if that is set, else within ``NUMBA_CACHE_DIR``, else where the
  platform keeps caches. It is made when the first kernel is written. What lies in it is executed: let nobody else
  write to it.
- A kernel has up to two files, ``NAME_HASH.py``, its readable source, and ``NAME_HASH.kernel``, its machine code.
  The hash stands for everything the code depends on, so a file is never out of date, and machines with different
  processors can share a folder.
- Files appear whole or not at all, and are replaced only if their content is wrong. A checksum tells a file that
  was damaged later, so nothing but what was written is ever loaded.
- The folder stays small: whoever writes a kernel removes those that were not used for 90 days, and the
  longest unused ones beyond 500 (some 100 kB each).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"nogil_loader kernel 1\n"
_DAY = 86_400.0
_UNUSED_SECONDS = 90 * _DAY
_MOST_KERNELS = 500
# Writing a file takes seconds at worst; what is older was left by a process that died.
_ABANDONED_SECONDS = 3_600.0
# Nothing else in the folder is ever touched.
_OURS = re.compile(r"(?P<stem>\w+_[0-9a-f]{32})\.(?:py|kernel|\w+\.tmp)")


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, which need not exist yet; None if no place for it is known."""
    if told := os.environ.get("NOGIL_LOADER_CACHE_DIR"):
        return Path(told).expanduser().absolute() / "kernels"
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(told).absolute() / "nogil_loader"
    try:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("nogil_loader", appauthor=False))
    except Exception:  # noqa: BLE001 - not installed, or a user without a home
        return None
    # A user unknown to the system gets "~" instead of a home.
    return folder / "kernels" if folder.is_absolute() else None


@dataclass(frozen=True)
class Entry:
    """The files of one kernel.

    Args:
        folder: See `cache_folder`.
        name: The kernel's name, an identifier.
        key: 32 hexadecimal digits that stand for all that the kernel depends on.
    """

    folder: Path
    name: str
    key: str

    @property
    def source(self) -> Path:
        """The file of the readable source."""
        return self.folder / f"{self.name}_{self.key}.py"

    @property
    def result(self) -> Path:
        """The file of the machine code."""
        return self.folder / f"{self.name}_{self.key}.kernel"

    def read(self) -> bytes | None:
        """Return what was stored, None if there is nothing or it is damaged."""
        try:
            content = self.result.read_bytes()
        except OSError:
            return None
        head, payload = content[: len(self._head(b""))], content[len(self._head(b"")) :]
        if head != self._head(payload):
            return None
        with contextlib.suppress(OSError):  # a folder that is read only
            if time.time() - self.result.stat().st_mtime > _DAY:
                os.utime(self.result)
        return payload

    def write(self, payload: bytes) -> None:
        """Store machine code, and remove what nobody has used for long.

        Raises:
            OSError: The folder cannot be made or written to, or the disk is full.
        """
        _write(self.result, self._head(payload) + payload)
        _prune(self.folder, keep=self.result.stem)

    def write_source(self, text: str) -> None:
        """Store the source, unless it is there.

        Raises:
            OSError: As for `write`.
        """
        content = text.encode()
        try:
            if self.source.read_bytes() == content:
                return
        except OSError:
            pass
        _write(self.source, content)

    def _head(self, payload: bytes) -> bytes:
        check = hashlib.blake2b(payload, digest_size=32, key=self.key.encode()).hexdigest()
        return _MAGIC + check.encode() + b"\n"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.stem}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _prune(folder: Path, keep: str) -> None:
    now = time.time()
    used: dict[str, float] = {}
    files: dict[str, list[str]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for each in found:
            match = _OURS.fullmatch(each.name)
            if match is None:
                continue
            with contextlib.suppress(OSError):  # another process removes or replaces it just now
                written = each.stat().st_mtime
                if not each.name.endswith(".tmp"):
                    stem = match["stem"]
                    used[stem] = max(used.get(stem, 0.0), written)
                    files.setdefault(stem, []).append(each.path)
                elif now - written > _ABANDONED_SECONDS:
                    os.unlink(each.path)
    newest = sorted(used, key=used.__getitem__, reverse=True)
    for rank, stem in enumerate(newest):
        if stem != keep and (rank >= _MOST_KERNELS or now - used[stem] > _UNUSED_SECONDS):
            for path in files[stem]:
                with contextlib.suppress(OSError):
                    os.unlink(path)
