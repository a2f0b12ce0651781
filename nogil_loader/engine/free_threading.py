"""Whether an import has taken away what a Python without a GIL was installed for.

A free-threaded build of CPython runs without a GIL until a module is imported that does not say it can do without:
then the GIL comes back for the rest of the process, with one ``RuntimeWarning`` that is easily lost among others.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from typing import Any, Final

from nogil_loader.notices import warn

#: What to do about it.
REENABLED_ADVICE: Final = (
    "This Python can run without a GIL, but importing a module has brought the GIL back, so worker threads take "
    "turns. To find the module, start Python with -W error::RuntimeWarning: the import that raises is the one. "
    "Update that package to a release for free-threaded Python, or start Python with -X gil=0, at your own risk: "
    "the module has not been declared safe for that."
)

_warned = False


def gil_was_reenabled(
    *,
    is_free_threaded: bool | None = None,
    is_gil_enabled: Callable[[], bool] | None = None,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Whether this is a free-threaded build in which an import has enabled the GIL, though nobody asked for it.

    Args:
        is_free_threaded: Whether the build can run without a GIL; None asks the interpreter, as for the others.
        is_gil_enabled: Tells whether the GIL is enabled now.
        options: What was given to the interpreter by ``-X``.
        environment: Environment variables.
    """
    if is_free_threaded is None:
        is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if is_gil_enabled is None:
        is_gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    if options is None:
        options = sys._xoptions
    if environment is None:
        environment = {} if sys.flags.ignore_environment else os.environ
    asked_for = options.get("gil", environment.get("PYTHON_GIL")) == "1"
    return is_free_threaded and is_gil_enabled() and not asked_for


def warn_of_reenabled_gil() -> None:
    """Warn the caller, once in a process, if an import has enabled the GIL."""
    global _warned
    if not _warned and gil_was_reenabled():
        _warned = True
        warn(REENABLED_ADVICE)
