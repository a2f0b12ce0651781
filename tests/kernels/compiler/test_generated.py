"""Generated kernels compile once, are found again by the next process, and never fail because of the cache."""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import tempfile
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.extending import register_jitable

from nogil_loader.kernels.compiler import generated
from nogil_loader.kernels.compiler.cache import Entry
from nogil_loader.kernels.compiler.generated import GeneratedKernel, load_kernel
from tests import scripts
from tests.scripts import RunScript

SOURCE = '''def apply(values, out):
    """Apply the user's function to each value."""
    for at in range(len(values)):
        out[at] = user(values[at])
'''
UNCACHED = "kernel apply is compiled in memory and not cached on disk:"
SECONDS = re.compile(r" in \d+\.\d+ s$")
_numbers = itertools.count()


def signature(types: Any) -> Any:
    return types.void(types.Array(types.float32, 1, "C", readonly=True), types.Array(types.float32, 1, "C"))


def load(user: Any, source: str = SOURCE, **names: Any) -> GeneratedKernel:
    kernel = load_kernel(source, "apply", signature, {"user": user, **names})
    assert kernel is not None
    return kernel


def run(kernel: Callable[..., Any], *values: float) -> list[float]:
    out = np.zeros(len(values), np.float32)
    kernel(np.array(values, np.float32), out)
    return [float(value) for value in out]


def fresh() -> Callable[..., Any]:
    """A function that no other test has: nothing has been compiled for it."""
    number = next(_numbers)
    return define(f"def f(x): return x + {number}")


def define(source: str, **names: Any) -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": "elsewhere", **names}
    exec(source, scope)
    function: Callable[..., Any] = scope["f"]
    return function


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, where files appear, for a process that has loaded nothing."""
    monkeypatch.setenv("NOGIL_LOADER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(generated, "_loaded", {})
    yield tmp_path / "cache" / "kernels"
    for name in [name for name in sys.modules if name.startswith("nogil_loader.kernels.generated_")]:
        del sys.modules[name]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What has been logged, without the seconds."""

    def messages() -> list[str]:
        return [SECONDS.sub("", f"{each.levelname} {each.getMessage()}") for each in caplog.records]

    with caplog.at_level(logging.DEBUG, "nogil_loader.kernels"):
        yield messages


# Compiling


def test_a_kernel_is_compiled_announced_and_remembered(folder: Path, told: Callable[[], list[str]]) -> None:
    user = fresh()
    announced: list[str] = []
    kernels = [
        load_kernel(SOURCE, "apply", signature, {"user": user}, announce=announced.append) for _ in range(3)
    ]
    assert kernels[0] is not None
    assert all(each is kernels[0] for each in kernels)
    assert announced == ["apply"]
    assert told() == ["INFO compiled kernel apply"]
    assert kernels[0].origin == "compiled"
    assert kernels[0].seconds > 0
    assert run(kernels[0], 1, 2) == [user(1), user(2)]
    assert kernels[0].file is not None
    assert kernels[0].file.parent == folder
    assert kernels[0].file.read_text() == SOURCE
    assert kernels[0].code == kernels[0].file.with_suffix(".kernel")
    assert generated.loaded_kernels() == kernels[:1]


def test_a_kernel_takes_read_only_arrays_and_refuses_other_types() -> None:
    kernel = load(fresh())
    values = np.zeros(2, np.float32)
    values.flags.writeable = False
    kernel(values, np.zeros(2, np.float32))
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(np.zeros(2), np.zeros(2))


def test_a_kernel_does_not_divide_like_python() -> None:
    assert run(load(define("def f(x): return np.float32(1) / x", np=np)), 0, 2) == [np.inf, 0.5]


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "njit"])
def test_a_user_s_function_calls_others_by_global_module_closure_and_default(compiled: bool) -> None:
    wrap: Callable[[Any], Any] = numba.njit if compiled else lambda function: function
    double = wrap(define("def f(x): return 2 * x"))
    helpers = types.ModuleType("helpers")
    vars(helpers).update(triple=wrap(define("def f(x): return three * x", three=3)), five=5)

    def outer() -> Any:
        add_one = wrap(define("def f(x): return x + 1"))
        ten = 10

        def user(x: Any, power: int = 2) -> Any:
            return helpers.triple(double(add_one(x))) + helpers.five + ten**power

        # What it finds in this test's module is not what it is to be called with.
        return types.FunctionType(
            user.__code__,
            {"helpers": helpers, "double": double},
            "user",
            user.__defaults__,
            user.__closure__,
        )

    assert run(load(wrap(outer())), 0, 1) == [6 + 5 + 100, 12 + 5 + 100]


def test_given_signatures_of_a_user_s_function_keep_converting() -> None:
    @numba.njit("int64(int64)")
    def user(x: Any) -> Any:
        return x

    assert run(load(user), 2.75) == [2]


def test_a_global_that_was_changed_is_compiled_in(folder: Path) -> None:
    scope: dict[str, Any] = {"gain": 2, "__name__": "notebook"}
    exec("def helper(x): return x * gain\ndef user(x): return helper(x)", scope)
    before = load(scope["user"])
    assert run(before, 3) == [6]
    scope["gain"] = 5
    assert run(load(scope["user"]), 3) == [15]
    exec("def helper(x): return x - gain", scope)
    assert run(load(scope["user"]), 3) == [-2]
    scope["gain"] = 2
    exec("def helper(x): return x * gain", scope)
    assert load(scope["user"]) is before
    assert len(list(folder.glob("*.kernel"))) == 3


def test_a_global_of_a_compiled_function_that_was_changed_is_compiled_in() -> None:
    scope: dict[str, Any] = {"gain": 2, "numba": numba, "__name__": "notebook"}
    exec("@numba.njit\ndef user(x): return x * gain", scope)
    assert scope["user"](3) == 6
    assert run(load(scope["user"]), 3) == [6]
    scope["gain"] = 5
    assert run(load(scope["user"]), 3) == [15]


def test_e06_a_kernel_has_one_signature() -> None:
    kernel: Any = load(fresh())
    run(kernel, 1)
    assert len(kernel.function.signatures) == 1


def test_e04_threads_that_need_a_kernel_first_compile_it_once(told: Callable[[], list[str]]) -> None:
    user = fresh()
    barrier = threading.Barrier(8)

    def need(_: int) -> GeneratedKernel:
        barrier.wait(30)
        return load(user)

    with ThreadPoolExecutor(8) as pool:
        kernels = list(pool.map(need, range(8)))
    assert len({id(each) for each in kernels}) == 1
    assert told() == ["INFO compiled kernel apply"]


# What does not compile


def explained(user: Any, source: str = SOURCE) -> str:
    with pytest.raises(ValueError, match="cannot be compiled") as caught:
        load(user, source)
    assert caught.value.__cause__ is not None
    return str(caught.value).replace(__file__, "FILE")


class Thing:
    pass


THING = Thing()


def unknown_global(x: Any) -> Any:
    return THING + x


def unknown_attribute(x: Any) -> Any:
    y = x + 1
    return y.colour


def unsupported_call(x: Any) -> Any:
    return np.sort(np.zeros((3, 3)), axis=0)[0, 0] + x


def unsupported_operation(x: Any) -> Any:
    return x + "a"


def unsupported_statement(x: Any) -> Any:
    import math

    return math.sin(x)


def unsupported_type(x: Any) -> Any:
    x = x + 1
    return np.float16(x) * np.float16(2)


def different_types(x: Any) -> Any:
    y: Any = 1.0
    if x > 1:
        y = (x, x)
    return y


def missing_name(x: Any) -> Any:
    return nowhere(x)  # type: ignore[name-defined] # noqa: F821


@register_jitable  # numba shows the line of a decorator
def one_too_many(x: Any, y: Any) -> Any:
    return x + y


def a_pair(x: Any) -> Any:
    return x, x


def calls_another(x: Any) -> Any:
    return unknown_attribute(x) + 1


FAILURES = {
    unknown_global: (1, "Untyped global name 'THING': Cannot determine Numba type of"),
    unknown_attribute: (2, "Unknown attribute 'colour' of type float"),
    unsupported_call: (
        1,
        "no implementation of sort(array(float64, 2d, C), axis=0) (got an unexpected keyword",
    ),
    unsupported_operation: (1, "no implementation of add(float32, a)"),
    unsupported_statement: (1, "Use of unsupported opcode (IMPORT_NAME) found"),
    unsupported_type: (2, "NotImplementedError: float16"),
    different_types: (4, "Cannot unify "),
    missing_name: (0, "NameError: name 'nowhere' is not defined"),
    one_too_many: (1, "missing a required argument: 'y'"),
    a_pair: (0, "what it returns cannot be used, no implementation of setitem("),
}


@pytest.mark.parametrize("user", FAILURES, ids=lambda user: user.__name__)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "njit"])
def test_a_user_s_function_that_does_not_compile_is_named_with_line_and_reason(
    user: Any, compiled: bool
) -> None:
    offset, reason = FAILURES[user]
    head, place = explained(numba.njit(user) if compiled else user).splitlines()
    assert head.startswith(f"{user.__name__} cannot be compiled: {reason}")
    line = user.__code__.co_firstlineno + offset
    assert place.startswith(f'  File "FILE", line {line}, in {user.__name__}: ')


def test_a_callee_that_does_not_compile_is_named_beside_the_user_s_function() -> None:
    head, place = explained(calls_another).splitlines()
    assert head.startswith("calls_another cannot be compiled: Unknown attribute 'colour'")
    assert (
        f", line {unknown_attribute.__code__.co_firstlineno + 2}, in unknown_attribute: return y.colour"
        in place
    )


def test_a_user_s_function_that_was_repaired_compiles() -> None:
    scope: dict[str, Any] = {"__name__": "notebook"}
    exec("def user(x): return x.nothing", scope)
    explained(scope["user"])
    exec("def user(x): return x + 1", scope)
    assert run(load(scope["user"]), 1) == [2]


def test_a_fault_of_the_generated_source_is_logged_once_and_leaves_the_work_to_numpy(
    told: Callable[[], list[str]],
) -> None:
    source = SOURCE.replace("len(values)", "values.nothing")
    for _ in range(2):
        assert load_kernel(source, "apply", signature, {"user": fresh}) is None
    (line,) = told()
    assert line.startswith(
        "WARNING kernel apply cannot be compiled, numpy does its work, slower: Unknown attribute"
    )


# The files


def loaded_again(user: Any) -> GeneratedKernel:
    """The kernel, for a process that starts anew."""
    generated._loaded.clear()
    return load(user)


DAMAGE: dict[str, Callable[[Path, Entry], object]] = {
    "truncated": lambda path, entry: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path, entry: path.write_bytes(b""),
    "garbage": lambda path, entry: path.write_bytes(bytes(range(256)) * 50),
    "one bit": lambda path, entry: path.write_bytes(
        path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])
    ),
    "no pickle": lambda path, entry: entry.write(b"garbage"),
    "another pickle": lambda path, entry: entry.write(b"\x80\x04K\x01."),
    "a folder": lambda path, entry: path.rename(path.with_suffix(".moved")).with_suffix(".kernel").mkdir(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_machine_code_is_compiled_again_and_replaced(kind: str, folder: Path) -> None:
    user = fresh()
    load(user)
    (path,) = folder.glob("*.kernel")
    DAMAGE[kind](path, Entry(folder, *path.stem.rsplit("_", 1)))
    assert run(loaded_again(user), 1) == [user(1)]
    if kind == "a folder":
        return
    assert loaded_again(user).origin == "disk"
    assert not list(folder.glob("*.tmp"))


def test_a_damaged_source_is_replaced_and_a_good_one_is_left_alone(folder: Path) -> None:
    user = fresh()
    load(user)
    (source,) = folder.glob("*.py")
    source.write_text(SOURCE[:20])
    assert loaded_again(user).origin == "disk"
    assert source.read_text() == SOURCE
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert loaded_again(user).origin == "disk"
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_what_has_no_fingerprint_is_compiled_in_memory_with_one_line(
    folder: Path, told: Callable[[], list[str]]
) -> None:
    user = define("def f(x): return other(x)", other=numba.vectorize(lambda x: x * 3))
    kernel = load(user)
    assert run(kernel, 2) == [6]
    assert (kernel.origin, kernel.file, kernel.code) == ("compiled", None, None)
    assert kernel.reason == "it depends on other in f (numba.np.ufunc.dufunc.DUFunc)"
    load(user)
    assert not folder.exists()
    assert told() == [
        f"INFO {UNCACHED} it depends on other in f (numba.np.ufunc.dufunc.DUFunc)",
        "INFO compiled kernel apply",
    ]


def test_a_large_table_is_compiled_in_memory(folder: Path, told: Callable[[], list[str]]) -> None:
    user = define("def f(x): return table[int(x)]", table=np.arange(200_000.0))
    assert run(load(user), 7) == [7]
    assert not list(folder.glob("*.kernel"))
    assert "it uses addresses of this process (a large global array, or a C function)" in told()[0]


# Other processes

KERNEL = f"""
import logging, sys
import numpy as np
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level=logging.INFO, stream=sys.stdout)

SOURCE = '''{SOURCE}'''
GAIN = 3

def helper(x):
    return x * GAIN

def user(x):
    return helper(x) + 1

def signature(types):
    return types.void(types.Array(types.float32, 1, "C", readonly=True), types.Array(types.float32, 1, "C"))

def load():
    # Its numbers are compiled in, so they tell whose code runs.
    from nogil_loader.kernels.compiler.generated import load_kernel
    kernel = load_kernel(SOURCE, "apply", signature, {{"user": user}})
    out = np.zeros(2, np.float32)
    kernel(np.arange(2, dtype=np.float32), out)
    assert out.tolist() == [1, 1 + GAIN]
    return kernel
"""
LOAD = KERNEL + "print(load().origin)\n"
COMPILED = ["INFO nogil_loader.kernels compiled kernel apply", "compiled"]


def lines_of(result: scripts.ScriptResult) -> list[str]:
    """What a script has logged and printed, without the seconds."""
    assert (result.returncode, result.stderr) == (0, "")
    return [SECONDS.sub("", line) for line in result.stdout.splitlines()]


def test_e05_the_next_process_finds_what_others_have_compiled(run_script: RunScript, folder: Path) -> None:
    other = "GAIN = 5\nprint(load().origin)\n"
    moved = KERNEL.replace("GAIN = 3", "GAIN = 1 + 2").replace("def helper", "\n\ndef helper")
    assert lines_of(run_script(LOAD)) == COMPILED
    assert lines_of(run_script(moved + other, environment={"NUMBA_CACHE_DIR": "/nowhere"})) == COMPILED
    assert lines_of(run_script(LOAD + other)) == ["disk", "disk"]
    assert len(list(folder.iterdir())) == 4


def test_processes_that_start_cold_together_all_get_their_kernel(tmp_path: Path, folder: Path) -> None:
    def start(number: int) -> list[str]:
        (tmp_path / str(number)).mkdir()
        return lines_of(scripts.run(tmp_path / str(number), LOAD, timeout=50))

    with ThreadPoolExecutor(4) as pool:
        for lines in pool.map(start, range(4)):
            assert lines in (COMPILED, ["disk"])
    (code,) = folder.glob("*.kernel")
    (source,) = folder.glob("*.py")
    assert len(list(folder.iterdir())) == 2
    assert Entry(folder, *code.stem.rsplit("_", 1)).read()
    assert source.read_text() == SOURCE


def test_a_folder_that_cannot_be_made_costs_one_line(run_script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / "file" / "cache")
    lines = lines_of(run_script(LOAD, environment={"NOGIL_LOADER_CACHE_DIR": place}))
    assert lines == [f"INFO nogil_loader.kernels {UNCACHED} {place}/kernels: Not a directory", *COMPILED]


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_costs_one_line_and_leaves_nothing_half_written(
    run_script: RunScript, folder: Path
) -> None:
    # There is room for the source and not for the machine code.
    full = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
    lines = lines_of(run_script(full + LOAD, environment={"PYTHONDONTWRITEBYTECODE": "1"}))
    assert lines == [f"INFO nogil_loader.kernels {UNCACHED} {folder}: File too large", *COMPILED]
    assert [path.suffix for path in folder.iterdir()] == [".py"]


READ_ONLY = f"""{KERNEL}
import os, pathlib
from nogil_loader.kernels.compiler import generated
load()
generated._loaded.clear()
folder = pathlib.Path(os.environ["NOGIL_LOADER_CACHE_DIR"]) / "kernels"
for path in folder.iterdir():
    path.chmod(0o444)
    os.utime(path, (0, 0))
folder.chmod(0o555)
if os.getuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    (folder / "new").touch()
except PermissionError:
    print("read only", load().origin)
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs users")
def test_a_read_only_folder_is_read(run_script: RunScript) -> None:
    # pytest's own folder is closed to other users.
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        lines = lines_of(run_script(READ_ONLY, environment={"NOGIL_LOADER_CACHE_DIR": place}))
        os.chmod(f"{place}/kernels", 0o755)
    assert lines == [COMPILED[0], "read only disk"]


FORK = f"""{KERNEL}
import os, threading, warnings
from nogil_loader.kernels.compiler.generated import load_kernel
# From Python 3.12 on, forking beside threads warns; that it works nonetheless is what is tested.
warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
compiling = threading.Event()

def compile_another():
    load_kernel(SOURCE, "apply", signature, {{"user": helper}}, announce=lambda name: compiling.set())

thread = threading.Thread(target=compile_another)
thread.start()
assert compiling.wait(30)
child = os.fork()
if child == 0:
    load()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_b23_a_child_forked_while_a_thread_compiles_can_compile(run_script: RunScript) -> None:
    assert lines_of(run_script(FORK)) == [COMPILED[0], COMPILED[0]]


def test_the_package_works_from_a_zip(run_script: RunScript, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in (scripts.REPOSITORY / "nogil_loader").rglob("*"):
            if path.suffix == ".py" or path.is_dir():
                archive.write(path, path.relative_to(scripts.REPOSITORY))
    script = LOAD + "import nogil_loader\nassert '.zip' in nogil_loader.__file__\n"
    script += "from nogil_loader.kernels import pad_rows\npad_rows.compile()\n"
    zipped = {"PYTHONPATH": str(tmp_path / "package.zip")}
    assert lines_of(run_script(script, environment=zipped)) == COMPILED
    assert lines_of(run_script(script, environment=zipped)) == ["disk"]


PLAIN = f"""{LOAD}
import traceback
SOURCE += "    raise ValueError(len(out))"
try:
    load()
except ValueError:
    print(traceback.format_exc().splitlines()[-2].strip())
"""


@pytest.mark.parametrize(
    ("first", "environment"),
    [("sys.modules['numba'] = None", {}), ("", {"NUMBA_DISABLE_JIT": "1"})],
    ids=["missing", "disabled"],
)
def test_e10_without_the_compiler_the_source_runs_as_plain_python(
    run_script: RunScript, folder: Path, first: str, environment: dict[str, str]
) -> None:
    lines = lines_of(run_script(f"import sys\n{first}\n{PLAIN}", environment=environment))
    assert lines[-2:] == ["python", "raise ValueError(len(out))"]
    assert not folder.exists()
