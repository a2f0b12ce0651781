"""What a command line names as a dataset to check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nogil_loader.errors import describe
from nogil_loader.targets import Target, TargetError, call, is_readable


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
        found, made = call(target, make), "()"
    if not is_readable(found):
        raise TargetError(
            f"{target}{made} is {type(found).__name__} {describe(found, 100)}; expected a dataset (with "
            f"__getitem__ and __len__, or with __iter__), a DataLoader, or a function without arguments that "
            f"returns one"
        )
    return Found(found, make)
