"""Exceptions and other threads' doings at every place where Python lets them in.

Ctrl-C and ``PyThreadState_SetAsyncExc`` strike between two bytecodes, but not between any two: the interpreter
looks for them after calls into C, at the beginning of a function and at the end of a loop's round. A trace
function can raise at exactly these places, one after the other, so that nothing is left to luck.
"""

from __future__ import annotations

import contextvars
import dis
import functools
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import nogil_loader
from nogil_loader.engine import inline, pool, reader, recipe, worker
from nogil_loader.memory.peak import PeakMeter
from nogil_loader.memory.reading import MemoryReading
from nogil_loader.memory.source import ReadingSource

_PACKAGE = str(Path(nogil_loader.__file__).parent)


class Interruption:
    """Strikes in the package's own code at the place with this number, counted over all traced threads.

    Args:
        number: The place, from 1.
        strike: Called there. What it raises is raised there.

    Attributes:
        place: Where it struck, None if it did not.
    """

    def __init__(self, number: int, strike: Callable[[], object]) -> None:
        self.place: str | None = None
        self._remaining = number
        self._strike = strike
        self._lock = threading.Lock()
        self._callers: set[FrameType] = set()

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The trace function of a thread."""
        if frame.f_back is not None:
            # A call of a Python function is no place: its end is not looked at.
            self._callers.add(frame.f_back)
        if self.place is not None or not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode":
            return self._step
        if frame in self._callers:
            self._callers.discard(frame)
            return self._step
        if frame.f_lasti not in _places(frame.f_code):
            return self._step
        with self._lock:
            self._remaining -= 1
            if self._remaining != 0 or self.place is not None:
                return self._step
            self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_qualname}"
        self._callers.clear()
        self._strike()
        return self._step


@contextmanager
def interrupted(number: int, strike: Callable[[], object]) -> Iterator[Interruption]:
    """Strike in this thread."""
    interruption = Interruption(number, strike)
    before = sys.gettrace()
    sys.settrace(interruption.enter)
    try:
        yield interruption
    finally:
        sys.settrace(before)
        interruption._callers.clear()


@functools.cache
def _places(code: CodeType) -> frozenset[int]:
    places: set[int] = set()
    for instruction, following in itertools.pairwise(dis.get_instructions(code)):
        name = instruction.opname
        if name == "RESUME" or (name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")):
            places.add(following.offset)
        elif name.startswith("JUMP_BACKWARD") and "NO_INTERRUPT" not in name:
            places.add(instruction.argval)
    return frozenset(places)


def ctrl_c() -> None:
    """What Python's own handler of SIGINT does."""
    raise KeyboardInterrupt


def asynchronous_exit() -> None:
    """What ``PyThreadState_SetAsyncExc`` with SystemExit comes to."""
    raise SystemExit


def at_every_place(attempt: Callable[[int], tuple[Interruption, Any]], *expected: Any) -> None:
    """Try place after place until there are no more; what comes of it is always one of ``expected``.

    Args:
        attempt: Called with the number of the place.
        expected: Outcomes that are right.

    Raises:
        AssertionError: Other outcomes, each with the place that led to it.
    """
    with pytest.MonkeyPatch.context() as patch:
        _read_memory_at_once(patch)
        for module in (inline, worker):  # before any ticket is due to be looked at, with its many places
            patch.setattr(module, "perf_counter", lambda: -1.0)
        try_every_place(attempt, expected)


def _read_memory_at_once(patch: pytest.MonkeyPatch) -> None:
    """Leave out the many places in which memory is read; there is a test of its own for them.

    There is a limit, so that the governor is asked about every batch and hears of every sample.
    """
    reading = MemoryReading.of(1 << 36, 1 << 30, "test")
    patch.setattr(ReadingSource, "read", lambda self: reading)
    patch.setattr(PeakMeter, "start", lambda self: False)
    for module in (recipe, pool, reader):
        patch.setattr(module, "read_memory", lambda: reading)


def try_every_place(attempt: Callable[[int], tuple[Interruption, Any]], expected: Sequence[Any]) -> None:
    """Do what `at_every_place` does, the places in which memory is read included."""
    wrong: list[str] = []
    gc.collect()
    gc.disable()  # places in finalisers of what was left over are not meant
    try:
        for number in itertools.count(1):
            # In a context of its own, so that what one interrupt leaves behind does not disturb the next.
            interruption, outcome = contextvars.copy_context().run(attempt, number)
            if interruption.place is None:
                break
            if outcome not in expected:
                wrong.append(f"place {number}, {interruption.place}: {outcome}")
                if len(wrong) > 10:
                    break
    finally:
        gc.enable()
    assert wrong == [], "\n".join(["", *wrong])
    assert number > 10, "there are places"
