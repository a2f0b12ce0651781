"""Files of kernels: where they are kept, that only what was written is read, and that the folder stays small."""

from __future__ import annotations

import os
import time
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.kernels.compiler.cache import Entry, cache_folder

DAY = 86_400


def key(number: int) -> str:
    return f"{number:032x}"


def write(folder: Path, number: int, days_ago: float) -> Entry:
    """A kernel with both its files, used some days ago."""
    entry = Entry(folder, "apply", key(number))
    entry.write_source(f"# {number}\n")
    entry.write(b"code")
    for path in (entry.source, entry.result):
        then = time.time() - days_ago * DAY
        os.utime(path, (then, then))
    return entry


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NOGIL_LOADER_CACHE_DIR": "/a", "NUMBA_CACHE_DIR": "/b"}, "/a/kernels"),
        ({"NOGIL_LOADER_CACHE_DIR": "~/a", "HOME": "/home/me"}, "/home/me/a/kernels"),
        ({"NUMBA_CACHE_DIR": "/b"}, "/b/nogil_loader"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/nogil_loader/kernels"),
    ],
    ids=["own", "home", "numba's", "the platform's"],
)
@pytest.mark.skipif(os.name == "nt", reason="paths are written as on POSIX")
def test_the_environment_says_where_kernels_are_kept(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOGIL_LOADER_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if "XDG_CACHE_HOME" in environment and platformdirs.PlatformDirs is not platformdirs.unix.Unix:
        pytest.skip("XDG_CACHE_HOME is for other platforms")
    assert cache_folder() == Path(expected)


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOGIL_LOADER_CACHE_DIR", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    # What platformdirs returns for a user whom the system does not know.
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *args, **options: "~/.cache/nogil_loader")
    assert cache_folder() is None


@given(payload=st.binary(max_size=200), at=st.integers(0, 500), bit=st.integers(0, 7))
def test_what_was_written_is_read_and_no_changed_bit_of_it(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, at: int, bit: int
) -> None:
    entry = Entry(tmp_path_factory.getbasetemp(), "changed", key(1))
    entry.write(payload)
    assert entry.read() == payload
    content = bytearray(entry.result.read_bytes())
    content[at % len(content)] ^= 1 << bit
    entry.result.write_bytes(content)
    assert entry.read() is None


def test_a_file_under_the_name_of_another_kernel_is_not_read(tmp_path: Path) -> None:
    one, other = (Entry(tmp_path, "apply", key(number)) for number in (1, 2))
    assert one.read() is None
    one.write(b"code")
    one.result.rename(other.result)
    assert other.read() is None


def test_kernels_unused_for_long_are_removed_when_one_is_written(tmp_path: Path) -> None:
    old, recent = write(tmp_path, 1, days_ago=91), write(tmp_path, 2, days_ago=89)
    lost = tmp_path / f"apply_{key(3)}.{'0' * 32}.tmp"
    lost.touch()
    os.utime(lost, (0, 0))
    busy = tmp_path / f"apply_{key(4)}.{'0' * 32}.tmp"
    busy.touch()
    foreign = tmp_path / "notes.py"
    foreign.touch()
    os.utime(foreign, (0, 0))
    new = write(tmp_path, 5, days_ago=0)
    assert set(tmp_path.iterdir()) == {
        *(recent.source, recent.result, new.source, new.result),
        *(busy, foreign),
    }
    assert old.read() is None


def test_reading_a_kernel_counts_as_use(tmp_path: Path) -> None:
    entry = write(tmp_path, 1, days_ago=89)
    entry.read()
    assert time.time() - entry.result.stat().st_mtime < DAY


def test_of_very_many_kernels_those_used_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nogil_loader.kernels.compiler.cache._MOST_KERNELS", 3)
    entries = [write(tmp_path, number, days_ago=20 - number) for number in range(6)]
    assert [entry.read() is not None for entry in entries] == [False] * 3 + [True] * 3
    assert len(list(tmp_path.iterdir())) == 6
