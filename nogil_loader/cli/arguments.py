"""Reads what stands on a command line: each function makes a value of a word, or says what was expected."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from nogil_loader.checks import as_count

#: Where a command is added.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def count(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads an integer in a range."""

    def read(text: str) -> int:
        try:
            return as_count("value", int(text), least=least, most=most)
        except ValueError:
            allowed = f"an integer ≥ {least}" if most is None else f"an integer from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected {allowed}") from None

    return read


def number(expected: str, accept: Callable[[float], bool]) -> Callable[[str], float]:
    """Return what reads a number that is accepted; ``expected`` says which are."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not accept(value):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
        return value

    return read


def workers(text: str) -> int | str:
    """Read a number of workers, or ``auto``."""
    return text if text == "auto" else count(0)(text)


def shape(text: str) -> tuple[int, ...]:
    """Read numbers between commas."""
    return tuple(map(count(1), text.split(",")))


def dtype(text: str) -> Any:
    """Read the name of a dtype."""
    try:
        return np.dtype(text)
    except TypeError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a dtype such as uint8 or float32") from None


def limit(text: str) -> int | float | str:
    """Return a number for what a program would write as one; everything else is for `MemoryPolicy` to judge."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
