"""User code in a worker forks, and the child comes back from it."""

from __future__ import annotations

import sys

import pytest

from tests.scripts import RunScript


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("workers", [1, 3])
def test_b23_the_child_of_a_fork_in_user_code_does_not_go_on_as_a_worker(
    run_script: RunScript, workers: int
) -> None:
    """In a thread of one's own it would end with the thread; here it must not load on for nobody."""
    result = run_script(
        f"""
import os, warnings
import nogil_loader as nl
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads

class Forking:
    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 3:
            child = os.fork()
            if child == 0:
                return -1
            os.waitpid(child, 0)
        return index

with nl.DataLoader(Forking(), batch_size=2, num_workers={workers}) as loader:
    print([int(n) for batch in loader for n in batch])
""",
        timeout=30,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == str(list(range(12)))
