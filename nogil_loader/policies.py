"""What a loader does when something goes wrong: frozen values, checked when they are made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nogil_loader.checks import as_count, as_flag, as_seconds
from nogil_loader.errors import describe


@dataclass(frozen=True)
class FailurePolicy:
    """How often a failing batch is tried again, and how many samples may be left out.

    Args:
        rebuild: How many times one batch is loaded again on a rebuilt worker before giving up on it. 0 raises
            at the first failure.
        skip: How many failing samples of an epoch may be left out once ``rebuild`` is used up: a count (int)
            or a share of the epoch's samples (float below 1, rounded up). Every sample left out is recorded.

    Raises:
        TypeError: A field is not a number, or is a bool.
        ValueError: A field is out of range.
    """

    rebuild: int = 0
    skip: int | float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rebuild", as_count("FailurePolicy.rebuild", self.rebuild, least=0))
        if isinstance(self.skip, float | np.floating):
            share = float(self.skip)
            if not 0.0 <= share < 1.0:
                raise ValueError(
                    f"FailurePolicy.skip={share!r}: a float is a share of the samples, from 0.0 up to but "
                    f"not including 1.0; a count is an int"
                )
            object.__setattr__(self, "skip", share)
        else:
            object.__setattr__(self, "skip", as_count("FailurePolicy.skip", self.skip, least=0))

    def skip_allowance(self, planned: int) -> int:
        """How many samples out of ``planned`` may be left out; by a share, never all of them."""
        if isinstance(self.skip, int):
            return self.skip
        # Of the decimal that was written: in binary, 7 % of 100 is a little more than 7 and would round up.
        return min(math.ceil(Fraction(repr(self.skip)) * planned), max(planned - 1, 0))

    @classmethod
    def of(cls, value: FailurePolicy | str) -> FailurePolicy:
        """Resolve the shorthand ``"raise"``, ``"rebuild"`` or ``"skip"``; a policy is returned as it is.

        Raises:
            ValueError: The string is none of the shorthands.
            TypeError: ``value`` is neither a string nor a policy.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(
                f"on_failure={describe(value, 200)}: expected 'raise', 'rebuild', 'skip' or a FailurePolicy, "
                f"not {type(value).__name__}"
            )
        try:
            return _SHORTHANDS[value]
        except KeyError:
            raise ValueError(
                f"on_failure={describe(value, 200)}: expected 'raise', 'rebuild', 'skip' or a FailurePolicy"
            ) from None


_SHORTHANDS = {
    "raise": FailurePolicy(),
    "rebuild": FailurePolicy(rebuild=3),
    "skip": FailurePolicy(rebuild=1, skip=0.001),
}


_UNITS = {"B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)
_LIMITS = "'auto', bytes (an int, or a string such as '4GiB' or '500MB') or a share (a float from 0 to 1)"
# An int below this is a share or a number of GiB that lost its unit.
_LEAST_LIMIT = 1 << 20

#: What the loader can give up under memory pressure.
STEPS = ("prefetch", "workers", "batch")


@dataclass(frozen=True)
class MemoryPolicy:
    """How much memory the loader may use, and what it gives up when that is not enough.

    Args:
        limit: ``"auto"`` for what the container or the machine has; bytes, as an int or as a string with a
            unit (``"4GiB"``, ``"500MB"``); or a share of what ``"auto"`` finds, as a float.
        soft: Share of the limit up to which new batches are begun. What is kept free above is never more than
            4 GiB, however large the limit; a smaller ``limit`` is the way to leave more to others.
        hard: Share of the limit above which batches that are loaded already are given up, to be loaded again.
        order: What is given up first, second and last: batches loaded ahead (``"prefetch"``), loading in
            parallel (``"workers"``), the number of samples in a batch (``"batch"``).
        min_batch_size: Batches are not cut into parts with fewer samples than this.
        min_workers: So many workers keep loading under pressure, unless a batch has to be loaded alone because
            it fits in no other way.
        fixed_batch_size: Never deliver a smaller batch: wait for memory, and raise if it does not come. None
            means True in a process that is one of several ranks (``WORLD_SIZE`` and its like in the environment),
            because ranks have to make the same number of steps.
        scratch: Memory that loading one sample takes beside its place in the batch, as a multiple of its
            size. None to have it measured.
        interval: Longest time between two readings, in seconds.
        stall: Seconds for which the consumer may wait for memory that does not become free, before
            `MemoryBudgetError`.
        tune_malloc: Have the C library (glibc) give large blocks back to the system as soon as they are free. It
            holds for the whole process, and is only done where a limit below the machine's memory was found.
        probe: Called without arguments for a `MemoryReading`; None for what the operating system says.

    Raises:
        TypeError: A field has a wrong type.
        ValueError: A field is out of range, or a string cannot be read.
    """

    limit: int | float | str = "auto"
    soft: float = 0.85
    hard: float = 0.93
    order: tuple[str, ...] = STEPS
    min_batch_size: int = 1
    min_workers: int = 1
    fixed_batch_size: bool | None = None
    scratch: float | None = None
    interval: float = 0.05
    stall: float = 30.0
    tune_malloc: bool = True
    probe: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "limit": _as_limit("MemoryPolicy.limit", self.limit),
            "soft": _as_share("MemoryPolicy.soft", self.soft),
            "hard": _as_share("MemoryPolicy.hard", self.hard),
            "order": _as_order("MemoryPolicy.order", self.order),
            "min_batch_size": as_count("MemoryPolicy.min_batch_size", self.min_batch_size, least=1),
            "min_workers": as_count("MemoryPolicy.min_workers", self.min_workers, least=1),
            "interval": _as_positive("MemoryPolicy.interval", self.interval),
            "stall": _as_positive("MemoryPolicy.stall", self.stall),
            "tune_malloc": as_flag("MemoryPolicy.tune_malloc", self.tune_malloc),
        }
        if self.fixed_batch_size is not None:
            checked["fixed_batch_size"] = as_flag("MemoryPolicy.fixed_batch_size", self.fixed_batch_size)
        if self.scratch is not None:
            # A number ≥ 0 is what as_seconds checks for, but its messages speak of seconds.
            checked["scratch"] = _as_real("MemoryPolicy.scratch", self.scratch, "a multiple ≥ 0, or None")
            if not 0.0 <= checked["scratch"] < math.inf:
                raise ValueError(f"MemoryPolicy.scratch={self.scratch!r}: expected a multiple ≥ 0, or None")
        if self.probe is not None and not callable(self.probe):
            raise TypeError(
                f"MemoryPolicy.probe={describe(self.probe, 100)}: expected a callable without arguments, or None"
            )
        if checked["soft"] >= checked["hard"]:
            raise ValueError(
                f"MemoryPolicy.soft={self.soft!r}: expected less than hard={self.hard!r}, which is where what "
                f"was begun below soft is given up"
            )
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    @classmethod
    def of(cls, value: MemoryPolicy | str | float) -> MemoryPolicy | None:
        """Resolve a shorthand: ``"auto"``, a limit as the field ``limit`` has it, or ``"off"`` (None).

        Raises:
            ValueError: A string that cannot be read, or a limit that is out of range.
            TypeError: ``value`` is none of these.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value == "off":
            return None
        return cls(limit=_as_limit("memory", value, "'off', a MemoryPolicy, "))


def _as_limit(name: str, value: Any, also: str = "") -> int | float | str:
    shown, allowed = f"{name}={describe(value, 100)}", f"expected {also}{_LIMITS}"
    if isinstance(value, str):
        if value == "auto":
            return "auto"
        match = _BYTES.fullmatch(value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ValueError(f"{shown}: {allowed}; units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB")
        size = int(Fraction(match[1]) * unit)
    elif isinstance(value, float | np.floating):
        if not 0.0 < value <= 1.0:
            raise ValueError(f"{shown}: {allowed}; a float is a share, above 0 and at most 1")
        return float(value)
    else:
        try:
            size = as_count(name, value, least=1)
        except TypeError:
            raise TypeError(f"{shown}: {allowed}, not {type(value).__name__}") from None
        except ValueError:
            raise ValueError(f"{shown}: {allowed}") from None
    if size < _LEAST_LIMIT:
        raise ValueError(f"{shown}: {allowed}; {size} bytes are too few, the least is 1 MiB")
    return size


def _as_real(name: str, value: Any, allowed: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}={describe(value, 100)}: expected {allowed}, not {type(value).__name__}")
    return float(value)


def _as_share(name: str, value: Any) -> float:
    share = _as_real(name, value, "a share of the limit")
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{name}={value!r}: expected a share of the limit, above 0 and at most 1")
    return share


def _as_positive(name: str, value: Any) -> float:
    seconds = as_seconds(name, value)
    if seconds == 0.0:
        raise ValueError(f"{name}={value!r}: expected more than 0 seconds")
    return seconds


def _as_order(name: str, value: Any) -> tuple[str, ...]:
    allowed = "expected 'prefetch', 'workers' and 'batch', each once, in any order"
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise TypeError(f"{name}={describe(value, 100)}: {allowed}, not {type(value).__name__}")
    if len(value) != len(STEPS) or any(step not in value for step in STEPS):
        raise ValueError(f"{name}={describe(value, 100)}: {allowed}")
    return tuple(value)
