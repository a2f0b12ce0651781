"""Which threading layer numba would choose for functions with ``parallel=True``, without starting it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

# Where numba has them.
_MODULES = {"tbb": "tbbpool", "omp": "omppool", "workqueue": "workqueue"}
_LIBRARY = {"linux": "libtbb.so.12", "darwin": "libtbb.12.dylib", "win32": "tbb12.dll"}
# The oldest interface of TBB that numba takes, from its own check.
_TBB_INTERFACE = 12060
# In a process of its own, because a library that has been loaded stays.
_PROGRAM = """
import ctypes, json, sys
files, library, interface = json.loads(sys.argv[1])
loads = {}
for name, file in files.items():
    try:
        if name == "tbb" and ctypes.CDLL(library).TBB_runtime_interface_version() < interface:
            raise OSError
        ctypes.CDLL(file)
    except (OSError, AttributeError):
        loads[name] = False
    else:
        loads[name] = True
print(json.dumps(loads))
"""
# Starting Python takes some 20 ms; no more than this on a machine that is busy.
_SECONDS = 5.0


def loadable_layers() -> dict[str, bool] | None:
    """Return which layers could be loaded here; None if that cannot be found out. numba must be imported."""
    try:
        found = {name: importlib.util.find_spec(f"numba.np.ufunc.{file}") for name, file in _MODULES.items()}
        files = {name: spec.origin for name, spec in found.items() if spec is not None and spec.origin}
        told = json.dumps([files, _LIBRARY.get(sys.platform, "tbb"), _TBB_INTERFACE])
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, told],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        loads: dict[str, bool] = json.loads(done.stdout)
    except (OSError, ValueError, ImportError, subprocess.SubprocessError):
        return None
    return loads


def choose_layer(
    preference: str, priority: Sequence[str], loadable: Mapping[str, bool], platform: str = sys.platform
) -> str | None:
    """Return the layer that numba takes; None if there is none that does.

    Args:
        preference: ``NUMBA_THREADING_LAYER``: a layer, a property that it must have, or ``"default"``.
        priority: ``NUMBA_THREADING_LAYER_PRIORITY``.
        loadable: From names of layers to whether they could be loaded.
        platform: As ``sys.platform``.
    """
    wanted: Mapping[str, Sequence[str]] = {
        "default": priority,
        "safe": ("tbb",),
        "threadsafe": ("tbb", "omp"),
        # GNU's OpenMP, which Linux has, does not survive a fork.
        "forksafe": ("tbb", "workqueue") if platform.startswith("linux") else ("tbb", "omp", "workqueue"),
    }
    preference = preference.lower()
    return next((name for name in wanted.get(preference, (preference,)) if loadable.get(name)), None)
