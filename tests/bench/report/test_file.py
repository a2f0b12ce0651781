from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from nogil_loader.bench.report import render_report, write_report
from tests.bench.report.fabricated import single


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    target.write_text("an earlier one")
    write_report(single(), target)
    assert target.read_text(encoding="utf-8") == render_report(single())
    assert os.listdir(tmp_path) == ["out.html"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    target = tmp_path / "no" / "out.html"
    expected = rf"the report cannot be written: .*{re.escape(str(target))}"
    with pytest.raises(FileNotFoundError, match=expected):
        write_report(single(), target)
    assert os.listdir(tmp_path) == []


def test_a_path_that_is_a_folder_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "out.html").mkdir()
    with pytest.raises(OSError, match="the report cannot be written") as caught:
        write_report(single(), tmp_path / "out.html")
    assert caught.value.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EACCES)
    assert os.listdir(tmp_path) == ["out.html"]


def test_a_disk_that_takes_no_more_leaves_the_earlier_report(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are a thing of POSIX")
    target = tmp_path / "out.html"
    target.write_text("an earlier one")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="the report cannot be written: ") as caught:
            write_report(single(), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert target.read_text() == "an earlier one"
    assert os.listdir(tmp_path) == ["out.html"]


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".html")
    write_report(single(), target)
    assert target.exists()
