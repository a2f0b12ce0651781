"""The command: which parts, what to import first, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nogil_loader import cli
from nogil_loader.doctor import PARTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, which may become the first place for modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_parts_are_told_in_the_order_asked_for_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "shm", "ranks", "shm", "--json"]) in (0, 1)
    assert list(json.loads(capsys.readouterr().out)) == ["shm", "ranks"]


def test_lines_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    cli.main(["doctor", "threads"])
    findings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  note")]
    assert findings
    assert max(map(len, findings)) <= 60


def test_modules_are_imported_first_also_from_the_working_directory(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("doctors_first", "doctors_second"):
        (folder / f"{name}.py").write_text("")
        monkeypatch.setitem(sys.modules, name, None)  # taken away again at the end
        del sys.modules[name]
    arguments = ["--import", "doctors_first,json", "--import", "doctors_second", "--json"]
    assert cli.main(["doctor", "threads", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["threads"]["imported"] == [
        "doctors_first",
        "json",
        "doctors_second",
    ]
    assert {"doctors_first", "doctors_second"} <= set(sys.modules)


def test_a_module_that_is_not_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "threads", "--import", "no_such_module"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nogil-loader: No module named 'no_such_module'\n")


def test_a_module_that_fails_is_shown_with_its_own_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "doctors_broken.py").write_text("import json\n1 / 0\n")
    assert cli.main(["doctor", "threads", "--import", "doctors_broken"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 'doctors_broken.py", line 2' in captured.err
    assert captured.err.endswith(
        "ZeroDivisionError: division by zero\nnogil-loader: importing doctors_broken failed\n"
    )


@pytest.mark.parametrize("names", ["", "a,,b", "to-rch", "torch,cv 2", "./train.py"])
def test_f01_what_is_no_name_of_a_module_is_refused(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["doctor", "--import", names])
    assert caught.value.code == 2
    assert "expected names of modules, such as torch,cv2" in capsys.readouterr().err


def test_bytes_that_are_no_text_do_not_keep_the_rest_from_being_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_NOTHING", "\udcff")  # as Python reads the byte 255
    assert cli.main(["doctor", "compiler"]) == 0
    assert "NUMBA_NOTHING=\\udcff" in capsys.readouterr().out


def test_help_names_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ", ".join(PARTS) in text
