"""A process that has a loader under way is forked; the child inherits locks without the threads that free them.

A loader made before the fork makes new iterators in the child, with threads of the child's own. An iterator
made before it is of no use there and says so. The parent does not notice.
"""

from __future__ import annotations

import sys

import pytest

from tests.scripts import RunScript

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")

_PREAMBLE = """
import os, sys, threading, warnings
import numpy as np
from nogil_loader import DataLoader, LoaderError

# Python 3.12 and newer warn of any fork beside threads, which is what is tried here.
warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)

class Numbers:
    def __len__(self):
        return 60
    def __getitem__(self, index):
        return index

class Stream:
    def __iter__(self):
        return iter(range(60))

def forked(child):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            child()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("workers", [0, 1, 4])
@pytest.mark.parametrize("kind", ["Numbers", "Stream"])
def test_b23_a_child_makes_an_iterator_of_its_own_and_the_parent_goes_on(
    kind: str, workers: int, run_script: RunScript
) -> None:
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader({kind}(), batch_size=4, num_workers={workers})
iterator = iter(loader)
received = [next(iterator).tolist() for _ in range(7)]

def child():
    mine = iter(loader)
    assert [next(mine).tolist() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    rest = [batch.tolist() for batch in mine]
    assert len(rest) == 12
    loader.close()

pid = forked(child)
received += [batch.tolist() for batch in iterator]
assert received == [list(range(start, start + 4)) for start in range(0, 60, 4)]
assert ended(pid) == 0
print("parent done")
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_b23_an_inherited_iterator_says_that_it_belongs_to_the_parent(
    workers: int, run_script: RunScript
) -> None:
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader(Numbers(), batch_size=4, num_workers={workers})
iterator = iter(loader)
next(iterator)

def child():
    global iterator
    try:
        next(iterator)
    except LoaderError as error:
        assert "another process" in str(error) or "belongs to process" in str(error), error
    else:
        raise AssertionError("the child read from its parent's iterator")
    iterator.close()
    iterator.close()
    iterator = None

pid = forked(child)
assert sum(1 for _ in iterator) == 14
assert ended(pid) == 0
print("parent done")
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


@pytest.mark.parametrize("workers", [1, 4])
def test_b23_a_fork_between_epochs_with_threads_kept(workers: int, run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader(Numbers(), batch_size=4, num_workers={workers}, persistent_workers=True)
assert len(list(loader)) == 15

def child():
    assert len(list(loader)) == 15
    loader.rebuild()
    assert len(list(loader)) == 15
    loader.close()
    assert threading.active_count() == 1

pid = forked(child)
assert len(list(loader)) == 15
assert ended(pid) == 0
print("parent done")
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


@pytest.mark.parametrize("workers", [1, 4])
def test_b23_a_child_that_exits_the_ordinary_way_ends(workers: int, run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader(Numbers(), batch_size=4, num_workers={workers})
iterator = iter(loader)
next(iterator)
pid = os.fork()
if pid == 0:
    mine = iter(loader)
    next(mine)
    sys.exit(5)  # atexit functions and module teardown, with the parent's iterator still there
assert ended(pid) == 5
assert sum(1 for _ in iterator) == 14
print("parent done")
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


def test_b23_forks_at_any_moment_of_busy_workers(run_script: RunScript) -> None:
    """Locks are held at some of these moments; each child has to get along with whatever it inherits."""
    result = run_script(
        f"""{_PREAMBLE}
loader = DataLoader(Numbers(), batch_size=1, num_workers=4)
children = []

def child():
    assert [int(batch[0]) for batch in loader] == list(range(60))

for _ in range(4):
    for number, batch in enumerate(loader):
        if number % 20 == 7:
            children.append(forked(child))
assert [ended(pid) for pid in children] == [0] * 12
print("parent done")
""",
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


def test_a_fork_inside_of_a_worker_leaves_the_parent_whole(run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
class Forks(Numbers):
    def __getitem__(self, index):
        if index == 30:
            assert ended(forked(lambda: None)) == 0
        return index

assert len(list(DataLoader(Forks(), batch_size=4, num_workers=3))) == 15
print("parent done")
"""
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_pool_of_forked_processes_may_use_loaders(run_script: RunScript) -> None:
    result = run_script(
        f"""{_PREAMBLE}
import multiprocessing

loader = DataLoader(Numbers(), batch_size=4, num_workers=2)

def work(number):
    return sum(int(batch.sum()) for batch in loader) + number

iterator = iter(loader)
next(iterator)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(work, range(4)) == [1770 + number for number in range(4)]
assert sum(1 for _ in iterator) == 14
print("parent done")
""",
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "parent done\n", "")
