"""Files that are written whole or not at all, and what is never replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from nogil_loader.files import check_writable, whole_file, write_whole

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_a_file_is_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    check_writable(tmp_path / "a.txt")
    assert names(tmp_path) == set()
    write_whole(tmp_path / "a.txt", "ä")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "ä"
    assert names(tmp_path) == {"a.txt"}


def test_what_was_there_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"half of")
        assert path.read_text() == "old"
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert names(tmp_path) == {"a.txt"}


def test_a_file_keeps_its_rights_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    check_writable(link)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_that_leads_nowhere_gets_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a.txt")
    write_whole(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    check_writable(pipe)
    write_whole(pipe, "new")
    reader.join(20)
    assert got == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full here")
def test_a_device_is_never_replaced_and_what_it_refuses_names_it() -> None:
    device = Path("/dev/full")
    check_writable(device)
    with pytest.raises(OSError, match="the report cannot be written: No space left") as caught:
        write_whole(device, "x" * 100_000, "report")
    assert caught.value.filename == "/dev/full"
    assert stat.S_ISCHR(device.stat().st_mode)


def test_what_cannot_be_written_is_refused_by_the_name_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=f"{tmp_path} is a folder"):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere/a\.txt: there is no folder"):
        check_writable(tmp_path / "nowhere" / "a.txt")
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "nowhere" / "a.txt", "x")
    assert caught.value.filename == str(tmp_path / "nowhere" / "a.txt")
    assert names(tmp_path) == set()


@pytest.mark.skipif(AS_ROOT, reason="nothing is read-only for root")
def test_a_file_that_is_read_only_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    path.chmod(0o400)
    with pytest.raises(PermissionError, match="read-only"):
        check_writable(path)
