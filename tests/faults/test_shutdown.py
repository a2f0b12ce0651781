"""The program ends while loaders are under way: it hangs on their threads, or prints errors of its teardown.

Whatever is left half-read or blocked, the process ends by itself, with its own exit code and nothing on stderr
that is not its own.
"""

from __future__ import annotations

import pytest

from tests.scripts import RunScript, ScriptResult

_PREAMBLE = """
import sys, threading
from nogil_loader import DataLoader, DeadWorkerError

class Numbers:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        return index

class Stream:
    def __iter__(self):
        return iter(range(1000))

class Blocks(Numbers):
    entered = threading.Event()
    def __getitem__(self, index):
        if index == 5:
            self.entered.set()
            threading.Event().wait(600)
        return index
"""


def clean(result: ScriptResult, code: int = 0, stdout: str = "") -> None:
    assert (result.returncode, result.stdout, result.stderr) == (code, stdout, "")


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_b16_b17_an_iterator_kept_in_a_global_is_no_obstacle(
    workers: int, kind: str, persistent: bool, run_script: RunScript
) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
loader = DataLoader({kind}(), num_workers={workers}, persistent_workers={persistent})
iterator = iter(loader)
next(iterator)
""",
        )
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_b16_an_error_in_the_training_loop_ends_the_program_with_that_error_alone(
    workers: int, run_script: RunScript
) -> None:
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader(Numbers(), num_workers={workers})
for batch in loader:
    raise RuntimeError("of the training loop")
""",
    )
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.stderr.endswith("\nRuntimeError: of the training loop\n")
    assert result.stderr.count("Traceback") == 1


@pytest.mark.parametrize("exit", ["sys.exit(3)", "raise SystemExit(3)"])
def test_b16_an_exit_in_the_training_loop_keeps_its_code(exit: str, run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
for batch in DataLoader(Numbers(), num_workers=4):
    {exit}
""",
        ),
        3,
    )


def test_b16_a_worker_blocked_in_user_code_does_not_keep_the_program_alive(run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
loader = DataLoader(Blocks(), num_workers=4)
iterator = iter(loader)
next(iterator)
assert Blocks.entered.wait(20)
""",
        )
    )


def test_b16_a_reader_blocked_in_user_code_does_not_keep_the_program_alive(run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
blocks = Blocks()
class BlockedStream:
    def __iter__(self):
        return map(blocks.__getitem__, range(1000))
iterator = iter(DataLoader(BlockedStream(), num_workers=2))
next(iterator)
assert Blocks.entered.wait(20)
""",
        )
    )


def test_b17_iterators_in_circles_classes_and_threads_are_torn_down_silently(run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
class Trainer:
    current = None
    def __init__(self):
        self.loader = DataLoader(self, num_workers=3)
        self.iterator = iter(self.loader)
        self.me = self
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return index
    def __del__(self):
        self.loader.close()

Trainer.current = Trainer()
next(Trainer.current.iterator)
other = Trainer()
next(other.iterator)
other.iterator.backwards = other
""",
        )
    )


def test_b17_closing_in_an_atexit_function_works_before_and_after(run_script: RunScript) -> None:
    clean(
        run_script(
            """
import atexit
atexit.register(lambda: (iterator.close(), loader.close(), print("late")))
from nogil_loader import DataLoader
atexit.register(lambda: (next(iterator), iterator.close(), loader.close(), print("early")))

class Numbers:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return index

loader = DataLoader(Numbers(), num_workers=2)
iterator = iter(loader)
next(iterator)
""",
        ),
        stdout="early\nlate\n",
    )


def test_the_main_thread_may_end_before_a_thread_that_consumes(run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
def consume():
    print(sum(1 for _ in DataLoader(Numbers(), batch_size=10, num_workers=2)))
threading.Thread(target=consume).start()
""",
        ),
        stdout="100\n",
    )


def test_a_dead_loader_in_a_global_is_torn_down_silently(run_script: RunScript) -> None:
    clean(
        run_script(
            f"""{_PREAMBLE}
class Bad(Numbers):
    def __getitem__(self, index):
        sys.exit(9)
loader = DataLoader(Bad(), num_workers=3)
iterator = iter(loader)
try:
    next(iterator)
except DeadWorkerError as error:
    kept = error
""",
        )
    )


@pytest.mark.parametrize("fault", ["os._exit(4)", "os.abort()"])
def test_what_ends_the_process_at_once_ends_it(fault: str, run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
import faulthandler, os
faulthandler.disable()
class Bad(Numbers):
    def __getitem__(self, index):
        {fault}
list(DataLoader(Bad(), num_workers=2))
""",
    )
    assert result.returncode == (4 if "4" in fault else -6)


def test_f05_pytest_ends_after_tests_that_leave_half_read_iterators(run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
import pytest
from pathlib import Path

Path("test_leaves.py").write_text('''
import threading
from nogil_loader import DataLoader
from script import Numbers, Blocks

kept = []

def test_half_read():
    kept.append(iter(DataLoader(Numbers(), num_workers=4)))
    next(kept[-1])

def test_blocked():
    kept.append(iter(DataLoader(Blocks(), num_workers=2)))
    next(kept[-1])
    assert Blocks.entered.wait(20)
''')
if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir=.", "test_leaves.py"]))
""",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout
    assert "Fatal" not in result.stderr
