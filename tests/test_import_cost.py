"""``import nogil_loader`` costs little more than ``import numpy`` and does nothing.

The cost is checked by what is imported, because a time measured on a shared machine says nothing.
"""

from __future__ import annotations

import json
import sys

import pytest

from tests.scripts import RunScript

# Parts of the standard library whose import takes as long as the whole package may. numpy brings some of its
# own; only what comes on top of it counts.
_HEAVY_STANDARD_MODULES = {
    "asyncio",
    "multiprocessing",
    "unittest",
    "http",
    "email",
    "ssl",
    "sqlite3",
    "tkinter",
}


@pytest.fixture
def imported(run_script: RunScript) -> list[str]:
    """What ``import nogil_loader`` adds to the modules that numpy has imported, in a fresh interpreter."""
    result = run_script(
        """
        import json, sys
        import numpy
        before = set(sys.modules)
        import nogil_loader
        print(json.dumps(sorted(set(sys.modules) - before)))
        """
    )
    assert result.returncode == 0, result.stderr
    modules: list[str] = json.loads(result.stdout)
    return modules


def test_importing_the_package_imports_no_third_party_package_but_numpy(imported: list[str]) -> None:
    top = {name.split(".")[0] for name in imported}
    assert "nogil_loader" in top
    assert top - set(sys.stdlib_module_names) <= {"nogil_loader", "numpy"}


def test_importing_the_package_imports_no_heavy_part_of_the_standard_library(imported: list[str]) -> None:
    assert {name.split(".")[0] for name in imported} & _HEAVY_STANDARD_MODULES == set()


def test_importing_the_package_starts_no_thread_and_prints_nothing(run_script: RunScript) -> None:
    result = run_script(
        """
        import logging, random, sys, threading
        import numpy
        state, switch = random.getstate(), sys.getswitchinterval()
        import nogil_loader
        assert threading.active_count() == 1, threading.enumerate()
        assert random.getstate() == state
        assert sys.getswitchinterval() == switch
        assert not logging.getLogger().handlers
        """
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
