"""The cache is filled beforehand: a process that comes later compiles nothing. What cannot be is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nogil_loader import cli
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.targets import TargetError, run_users_code
from tests.scripts import REPOSITORY

FLOW = """
    import sys
    import numpy as np
    from nogil_loader import ArrayDataset, DataLoader
    from nogil_loader.kernels.compiler.generated import loaded_kernels
    from nogil_loader.kernels.compiler.loaded import load_own_kernels
    from nogil_loader.transforms.image.flip import HorizontalFlip
    from nogil_loader.transforms.compose import Compose

    images = np.zeros((8, 4, 5, 3), np.uint8)
    flip = HorizontalFlip()

    class Greys:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return np.zeros((7, 9), np.uint8)

    def make():
        return [
            DataLoader(ArrayDataset(images), batch_size=4, num_workers=1, transform=flip),
            DataLoader(Greys(), batch_size=2, num_workers=1, transform=Compose([flip])),
        ]

    if __name__ == "__main__":
        print("arguments", sys.argv[1:])
        try:
            for loader in make():
                for batch in loader:
                    print("batch", batch.shape)
        finally:
            print("cleaned up")
        for kernel in [*load_own_kernels(), *loaded_kernels()]:
            print(kernel.origin, kernel.code.stem)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and an empty cache."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "flow.py").write_text(textwrap.dedent(FLOW))
    return folder


def run(folder: Path, *arguments: str, cache: str = "cache") -> tuple[int, str, str]:
    """Run Python in a folder."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONIOENCODING": "utf-8",
            "NOGIL_LOADER_CACHE_DIR": str(folder / cache),
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
    )
    return done.returncode, done.stdout, done.stderr


def origins(output: str, origin: str) -> list[str]:
    return re.findall(rf"^ *{origin} .*?(\w+)$", output, re.MULTILINE)


def test_e_a_program_compiles_nothing_after_it_was_warmed_up(folder: Path) -> None:
    code, output, error = run(folder, "-m", "nogil_loader", "warmup", "flow.py:make")
    assert (code, error) == (0, ""), output + error
    made = origins(output, "compiled")
    assert [name.rpartition("_")[0] for name in made if name.startswith("augment")] == ["augment", "augment"]
    assert origins(output, "found") == []
    lines = output.splitlines()
    assert all(re.fullmatch(r" +compiled +\d+\.\d\d s  \w+", line) for line in lines[:-1])
    assert lines[-1].startswith(f"{len(made)} kernels, {len(made)} of them compiled, in ")
    assert lines[-1].endswith(f" s; cache: {folder / 'cache' / 'kernels'}")

    code, output, error = run(folder, "flow.py")
    assert (code, error) == (0, ""), output + error
    assert [name[:-24] for name in origins(output, "disk")] == made
    assert origins(output, "compiled") == []

    # A script is the same program, until its first batch; a transform for itself has the same kernels, and is
    # found under the name of a module as well.
    code, output, error = run(folder, "-m", "nogil_loader", "warmup", "flow.py", "x", "--", "--epochs", "3")
    assert (code, error) == (0, ""), output + error
    assert output.startswith("arguments ['x', '--epochs', '3']\ncleaned up\n")
    assert origins(output, "found") == made[:-1]
    assert origins(output, "compiled") == []


def test_a_cache_that_cannot_be_written_fails_the_build(folder: Path) -> None:
    (folder / "file").touch()
    (folder / "plain.py").write_text("from nogil_loader import DataLoader\nloader = DataLoader(range(8))\n")
    code, output, error = run(folder, "-m", "nogil_loader", "warmup", "plain:loader", cache="file")
    assert (code, error) == (1, "")
    place = re.escape(str(folder / "file" / "kernels"))
    assert re.search(rf"^not in the cache: pad_rows \({place}: \w.*\)$", output, re.MULTILINE), output


# Within this process


@pytest.fixture
def warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Write ``program.py``, and warm up what it defines or the script itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "program", raising=False)
    monkeypatch.chdir(tmp_path)

    def warm_up(program: str, *arguments: str, name: str = "") -> int:
        Path("program.py").write_text(textwrap.dedent(program), encoding="utf-8")
        return cli.main(["warmup", f"program.py{name}", *arguments])

    return warm_up


BROKEN = """
    from nogil_loader import DataLoader

    class Data(list):
        def __getitem__(self, index):
            raise KeyError('lost')

    loader = DataLoader(Data([1]), num_workers=1)
"""
RUN_IN_THREAD = "import threading\nit = threading.Thread(target=load)\nit.start()\nit.join()\n"
LOADER = "from nogil_loader import DataLoader\nloader = DataLoader(range(8), num_workers=2)\n"


@pytest.mark.parametrize(
    "program",
    [
        "for batch in loader:\n    print('batch')\n",
        "next(iter(loader))\nprint('batch')\n",
        f"def load():\n    next(iter(loader))\n    print('batch')\n{RUN_IN_THREAD}",
        "try:\n    next(iter(loader))\n    print('batch')\nexcept BaseException:\n    pass\n",
        "try:\n    next(iter(loader))\n    print('batch')\nfinally:\n    raise ValueError('not all was loaded')\n",
    ],
    ids=["loop", "next", "thread", "caught", "complaint"],
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # SystemExit, which ends it
def test_a_script_is_ended_at_its_first_batch(
    program: str, warm_up: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, step = sys.argv, LoaderIterator.__next__
    # The exit code is not asked: it counts all kernels of this process, those that other tests have made as well.
    warm_up(LOADER + program)
    output = capsys.readouterr()
    assert re.search(r"^\d+ kernels, ", output.out, re.MULTILINE)
    assert "batch" not in output.out
    assert output.err == ""
    assert sys.argv is arguments
    assert LoaderIterator.__next__ is step


def test_a_script_without_a_loader_is_told_what_to_do(
    warm_up: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert warm_up(LOADER + "for batch in DataLoader([]):\n    pass\nprint('done')") == 1
    output = capsys.readouterr()
    assert output.out == "done\n"
    assert output.err.startswith("nogil-loader: program.py ended without a batch of a DataLoader.")
    assert output.err.endswith("can be named: program.py:name\n")


@pytest.mark.parametrize(
    ("program", "name", "message"),
    [
        ("raise SystemExit(3)", "", "program.py ended with SystemExit(3)"),
        ("import sys; sys.exit('no GPU')", ":loader", "program.py ended with SystemExit('no GPU')"),
        (
            "loader = 3",
            ":loader",
            "program.py:loader is int 3; expected a DataLoader, a transform, or a list",
        ),
        ("loader = [3]", ":loader", "program.py:loader is int 3; expected"),
        ("loader = []", ":loader", "program.py:loader is empty; expected a DataLoader"),
        ("def make(root): ...", ":make", "takes arguments (missing a required argument: 'root')"),
        ("def make(): ...", ":make", "program.py:make() is NoneType None; expected"),
        ("class Data: train = None", ":Data.trian", "has no 'trian'; did you mean 'train'?"),
        (LOADER + "none = DataLoader([])", ":none", "program.py:none has no batch, so nothing was compiled"),
    ],
)
def test_f01_a_target_that_is_none_is_refused_by_name(
    program: str,
    name: str,
    message: str,
    warm_up: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warm_up(program, name=name) == 1
    output = capsys.readouterr()
    assert message in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("program", "name", "own_lines"),
    [
        ("import no_such_module", "", ["import no_such_module", "No module named 'no_such_module'"]),
        ("import no_such_module", ":x", ["import no_such_module", "No module named 'no_such_module'"]),
        ("def make():\n    return 1 / 0", ":make", ["return 1 / 0", "ZeroDivisionError"]),
        ("print('x'", ":make", ["print('x'", "SyntaxError"]),
        (
            BROKEN,
            ":loader",
            ["raise KeyError('lost')", "KeyError: 'lost'", "DeadWorkerError"],
        ),
    ],
    ids=["script", "import", "function", "syntax", "dataset"],
)
def test_an_error_of_the_users_is_shown_with_their_lines_only(
    program: str,
    name: str,
    own_lines: list[str],
    warm_up: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warm_up(program, name=name) == 1
    error = capsys.readouterr().err
    for line in own_lines:
        assert line in error
    assert set(re.findall(r'File "(.*?)"', error)) in ({"program.py"}, {str(Path("program.py").resolve())})
    assert re.search(r"\nnogil-loader: .*program\.py.* failed\n$", error)


def test_an_error_that_nobody_expected_is_shown_with_all_lines() -> None:
    with pytest.raises(TargetError, match="it failed") as caught:
        run_users_code(partial(dict[str, int]().__getitem__, "key"), "it")
    assert "in run_users_code" in caught.value.trace
    assert caught.value.trace.endswith("KeyError: 'key'\n")


def test_a_transform_that_does_not_fit_the_shape_needs_no_traceback(
    warm_up: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    program = "from nogil_loader.transforms.image.flip import HorizontalFlip\nflip = HorizontalFlip()"
    assert warm_up(program, "--shape", "7", name=":flip") == 1
    assert capsys.readouterr().err == (
        "nogil-loader: HorizontalFlip(): expected an image (H, W) or (H, W, C), not an array of shape (7,)\n"
    )


def test_a_loader_knows_its_arrays_itself(
    warm_up: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert warm_up(LOADER, "--shape", "7,7", name=":loader") == 1
    assert "--shape is for transforms" in capsys.readouterr().err


def test_there_is_nothing_to_warm_up_without_a_compiler(
    warm_up: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert warm_up(LOADER, name=":loader") == 1
    assert "nothing can be compiled: numba is missing, or NUMBA_DISABLE_JIT is set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:x", "there is no module 'no_such_module', neither installed nor in "),
        ("nogil_loader.nothing:x", "there is no module 'nogil_loader.nothing'"),
        ("no/file.py:x", "there is no file no/file.py"),
        ("no/file.py", "there is no file no/file.py"),
    ],
)
def test_f01_a_module_or_file_that_is_not_there_is_named(
    target: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli.main(["warmup", target]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "target 'train': expected module:name or path.py:name, or path.py for a whole script"),
        (["train:"], "target 'train:'"),
        ([":name"], "target ':name'"),
        (["train.py:a-b"], "target 'train.py:a-b'"),
        (["train.py:a", "b"], "arguments 'b': train.py:a is not a script"),
        (["train.py:a", "--shape", "3,0"], "argument --shape: '0': expected an integer ≥ 1"),
        (["train.py:a", "--dtype", "spam"], "argument --dtype: 'spam': expected a dtype such as uint8"),
    ],
)
def test_f01_wrong_arguments_are_refused_with_name_and_value(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["warmup", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
