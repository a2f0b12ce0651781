"""What a command line names as a dataset to check."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nogil_loader.data.protocols import is_map_style
from nogil_loader.errors import describe
from nogil_loader.targets import Target, TargetError, run_users_code


@dataclass(frozen=True)
class Found:
    """What a target is.

    Attributes:
        what: A dataset or a loader.
        make: Makes another one; None if the target is one itself.
    """

    what: Any
    make: Callable[[], Any] | None = None


def find(target: Target) -> Found:
    """Return what a target names.

    Raises:
        TargetError: There is no such thing, it is no dataset, or the user's code fails.
    """
    found, made = target.load(), ""
    make: Callable[[], Any] | None = None
    if callable(found) and not is_readable(found):
        make = found
        try:
            inspect.signature(make).bind()
        except TypeError as missing:
            raise TargetError(f"{target} takes arguments ({missing}); name a function without") from None
        except ValueError:  # a function of C, which need not have a signature
            pass
        found, made = run_users_code(make, f"{target}()"), "()"
    if not is_readable(found):
        raise TargetError(
            f"{target}{made} is {type(found).__name__} {describe(found, 100)}; expected a dataset (with "
            f"__getitem__ and __len__, or with __iter__), a DataLoader, or a function without arguments that "
            f"returns one"
        )
    return Found(found, make)


def is_readable(found: Any) -> bool:
    """Whether something can be a dataset or a loader."""
    if isinstance(found, type | str | bytes):
        return False
    return is_map_style(found) or hasattr(type(found), "__iter__")


def is_torch_loader(found: Any) -> bool:
    """Whether this is a loader of torch, which can exist only where torch has been imported."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(found, module.DataLoader)
