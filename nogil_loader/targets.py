"""Finds what a command line names: ``package.module:name`` or ``path/to/file.py:name``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from nogil_loader.data.protocols import is_map_style
from nogil_loader.errors import LoaderError, describe

T = TypeVar("T")

# With these this package refuses arguments and data, in words that need no traceback.
_SAID = (ImportError, LoaderError, OSError, TypeError, ValueError)

# Frames of these stand between the command line and the user's code.
_OWN = os.path.join(os.path.dirname(__file__), "")


class TargetError(Exception):
    """What was named cannot be had; the message is for whoever typed it.

    Attributes:
        trace: The traceback from where the user's own code begins, empty if it is not to blame.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


@dataclass(frozen=True)
class Target:
    """A place in code.

    Attributes:
        module: Name of a module, or a file of Python source.
        name: Of something in it, with dots for attributes; None for the file itself.
    """

    module: str | Path
    name: str | None = None

    @classmethod
    def parse(cls, text: str, *, script: bool = False) -> Target:
        """Read what a command line says.

        Args:
            text: ``module:name``, ``path.py:name``; with ``script`` also ``path.py``.
            script: Whether a file alone will do.

        Raises:
            ValueError: It is something else; the message says what is expected.
        """
        module, colon, name = text.rpartition(":")
        if text.endswith(".py"):
            module, name = text, ""
        is_named = bool(colon and module) and all(part.isidentifier() for part in name.split("."))
        if module.endswith(".py") and (is_named or (script and not name)):
            return cls(Path(module), name or None)
        if is_named and all(part.isidentifier() for part in module.split(".")):
            return cls(module, name)
        forms = "module:name or path.py:name" + (", or path.py for a whole script" if script else "")
        raise ValueError(f"target {text!r}: expected {forms}")

    def __str__(self) -> str:
        return str(self.module) if self.name is None else f"{self.module}:{self.name}"

    def load(self) -> Any:
        """Import the module and return what is named.

        Raises:
            TargetError: There is no such thing, or the import fails.
        """
        found: Any = _import_file(self.module) if isinstance(self.module, Path) else _import(self.module)
        for name in (self.name or "").split("."):
            try:
                found = getattr(found, name)
            except AttributeError:
                near = difflib.get_close_matches(name, dir(found), 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise TargetError(f"{self.module} has no {name!r}{hint}") from None
        return found


def resolve(target: Target, kinds: tuple[type, ...], expected: str) -> list[Any]:
    """Return the objects that a target names: one, a list of them, or what a function without arguments returns.

    Args:
        target: The place in code.
        kinds: What the objects may be.
        expected: The same in words.

    Raises:
        TargetError: There is no such thing, it is something else, or the user's code fails.
    """
    found = target.load()
    made = ""
    if callable(found) and not isinstance(found, kinds):
        found = call(target, found)
        made = "()"
    objects = list(found) if isinstance(found, list | tuple) else [found]
    for each in objects:
        if not isinstance(each, kinds):
            raise TargetError(
                f"{target}{made} is {type(each).__name__} {describe(each, 100)}; expected {expected}"
            )
    if not objects:
        raise TargetError(f"{target}{made} is empty; expected {expected}")
    return objects


def call(target: Target, function: Callable[[], Any]) -> Any:
    """Return what a function without arguments returns that a target names.

    Raises:
        TargetError: It takes arguments, or the user's code fails.
    """
    try:
        inspect.signature(function).bind()
    except TypeError as missing:
        raise TargetError(f"{target} takes arguments ({missing}); name a function without") from None
    except ValueError:  # a function of C, which need not have a signature
        pass
    return run_users_code(function, f"{target}()")


def is_readable(found: Any) -> bool:
    """Whether something can be a dataset or a loader."""
    if isinstance(found, type | str | bytes):
        return False
    return is_map_style(found) or hasattr(type(found), "__iter__")


def is_torch_loader(found: Any) -> bool:
    """Whether this is a loader of torch, which can exist only where torch has been imported."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(found, module.DataLoader)


def run_users_code(function: Callable[[], T], what: str) -> T:
    """Return what a function returns that leads into the user's code.

    Raises:
        TargetError: It failed. Has the traceback from where the user's code begins; what this package has to say
            against its arguments needs none.
    """
    try:
        return function()
    except TargetError:
        raise
    except SystemExit as end:
        raise TargetError(f"{what} ended with SystemExit({end.code!r})") from end
    except Exception as failure:
        trace = _users_trace(failure)
        raise TargetError(f"{what} failed" if trace else str(failure), trace) from failure


def enter_folder(folder: Path) -> None:
    """Let modules be imported from a folder first, as Python does for a script there."""
    path = str(folder)
    if sys.path[:1] != [path]:
        sys.path.insert(0, path)


def check_file(path: Path) -> None:
    """Refuse a file that is not there.

    Raises:
        TargetError: As said.
    """
    if not path.is_file():
        raise TargetError(f"there is no file {path}")


def _import(name: str) -> ModuleType:
    enter_folder(Path.cwd())
    try:
        return run_users_code(lambda: importlib.import_module(name), f"importing {name}")
    except TargetError as failure:
        cause = failure.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and f"{name}.".startswith(f"{cause.name}."):
            raise TargetError(
                f"there is no module {cause.name!r}, neither installed nor in {Path.cwd()}"
            ) from None
        raise


def _import_file(path: Path) -> ModuleType:
    check_file(path)
    path = path.resolve()
    enter_folder(path.parent)
    # Under the name by which the file's neighbours would import it, unless that is somebody else's.
    name = path.stem if path.stem not in sys.modules else f"nogil_loader_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file that ends in .py has a loader"
    loader = spec.loader
    assert loader is not None, "the same"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    run_users_code(lambda: loader.exec_module(module), f"importing {path}")
    return module


def _users_trace(failure: Exception) -> str:
    told = traceback.TracebackException.from_exception(failure)
    has_users_code = isinstance(failure, SyntaxError)
    each: traceback.TracebackException | None = told
    while each is not None:
        frames = list(itertools.dropwhile(_is_on_the_way, each.stack))
        each.stack = traceback.StackSummary.from_list(frames)
        has_users_code = has_users_code or bool(frames)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    if has_users_code:
        return "".join(told.format())
    return "" if isinstance(failure, _SAID) else "".join(traceback.format_exception(failure))


def _is_on_the_way(frame: traceback.FrameSummary) -> bool:
    """Whether a frame belongs to what leads to the user's code."""
    return frame.filename.startswith((_OWN, "<frozen ")) or frame.filename == importlib.__file__
