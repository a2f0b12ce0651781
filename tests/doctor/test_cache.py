"""The folder of compiled kernels: where it is, and what keeps it from being used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nogil_loader.doctor.cache import Cache
from nogil_loader.doctor.finding import Finding
from nogil_loader.kernels.compiler.cache import Entry

GB = 1 << 30


def found(
    folder: Path | None, environ: Mapping[str, str] = {}, *, free: int = GB, writable: bool = True
) -> Cache:
    return Cache.of(folder, environ, may_write=lambda path: writable, usage=lambda path: (2 * GB, GB, free))


def told(cache: Cache) -> list[tuple[str, str]]:
    return [(each.severity, each.advice) for each in cache.findings()]


def only(cache: Cache, severity: str) -> Finding:
    (finding,) = [each for each in cache.findings() if each.severity == severity]
    return finding


def test_kernels_are_counted_and_weighed(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    entry = Entry(folder, "rows", "0" * 32)
    entry.write(b"machine code")
    entry.write_source("pass\n")
    cache = found(folder, {"NUMBA_CACHE_DIR": "/elsewhere", "NOGIL_LOADER_CACHE_DIR": str(tmp_path)})
    nbytes = entry.result.stat().st_size + 5
    assert (cache.kernels, cache.files, cache.nbytes) == (1, 2, nbytes)
    assert cache.lines() == [
        f"  compiled kernels: {folder} (NOGIL_LOADER_CACHE_DIR)",
        "    1 kernel, 2 files, 0.0 MB; free on the disk: 1.07 GB",
    ]
    assert told(cache) == [("ok", "")]


def test_one_that_is_not_made_yet_is_made_by_the_first_kernel_and_not_by_looking(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    cache = Cache.of(folder, {})
    assert (cache.exists, cache.is_writable) == (False, True)
    assert list(tmp_path.iterdir()) == []
    assert "not made yet" in cache.lines()[1]
    assert told(cache) == [("note", "nogil-loader warmup TARGET, as when a container image is built")]


def test_one_that_cannot_be_written_to_is_warned_of(tmp_path: Path) -> None:
    warning = only(found(tmp_path, writable=False), "warning")
    assert warning.found.startswith(f"{tmp_path} cannot be written to, so each process compiles anew")
    assert warning.advice == "NOGIL_LOADER_CACHE_DIR=/some/other/folder"


def test_a_file_in_its_place_or_on_the_way_keeps_it_from_being_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not Cache.of(tmp_path / "file", {}).is_writable
    assert not Cache.of(tmp_path / "file" / "kernels", {}).is_writable


def test_without_any_place_the_variable_is_named() -> None:
    cache = found(None)
    assert cache.lines() == ["  compiled kernels: no folder for them is known"]
    assert told(cache) == [("warning", "NOGIL_LOADER_CACHE_DIR=/some/folder")]


def test_a_folder_that_everybody_may_write_to_is_warned_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    warning = only(found(tmp_path), "warning")
    assert warning.found.endswith("what lies in it is executed")
    assert warning.advice.startswith(f"chmod o-w {tmp_path}")
    tmp_path.chmod(0o775)
    assert not found(tmp_path).is_open


def test_a_disk_that_is_nearly_full_is_warned_of(tmp_path: Path) -> None:
    warning = only(found(tmp_path, free=50 << 20), "warning")
    assert warning.found.startswith("52.4 MB are left on the disk of ")


def test_a_disk_that_tells_nothing_is_not_known(tmp_path: Path) -> None:
    def fail(path: Path) -> Any:
        raise OSError("stale file handle")

    cache = Cache.of(tmp_path, {}, usage=fail)
    assert cache.free is None
    assert cache.lines()[1].endswith("free on the disk: not known")
    assert only(cache, "note").found.startswith("no kernel has been compiled yet")


@pytest.mark.parametrize("variable", ["", "NUMBA_CACHE_DIR"])
def test_who_chose_the_folder_is_told(tmp_path: Path, variable: str) -> None:
    environ = {variable: str(tmp_path)} if variable else {}
    assert found(tmp_path, environ).chosen_by == variable
