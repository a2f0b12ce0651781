"""Where in its code a call could be interrupted by another thread: found by tracing, and used to stop it there.

An interpreter may turn to another thread between any two instructions. Which ones it takes is a matter of luck,
and a race may wait for it for weeks. Here a thread is *stopped* at a chosen instruction while another one does a
whole call, and then goes on. Most races need no more than one such interruption (Musuvathi and Qadeer, "Iterative
context bounding for systematic testing of multithreaded programs", 2007), so trying each place once finds them
without luck.

Only those instructions are places that another thread could notice: what reads or writes something shared, and
calls.
"""

from __future__ import annotations

import dis
import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CodeType, FrameType

from nogil_loader.check.instructions import instructions
from nogil_loader.check.outcome import shown_place

_NOTICED: tuple[str, ...] = (
    "LOAD_ATTR",
    "LOAD_METHOD",
    "LOAD_GLOBAL",
    "LOAD_DEREF",
    "LOAD_NAME",
    "STORE_ATTR",
    "STORE_GLOBAL",
)
_NOTICED += (
    "STORE_DEREF",
    "STORE_SUBSCR",
    "DELETE_",
    "BINARY_SUBSCR",
    "CALL",
    "FOR_ITER",
    "SEND",
    "YIELD_VALUE",
)
_NOTICED += (
    "RETURN_",
    "CONTAINS_OP",
    "UNPACK_SEQUENCE",
    "BEFORE_WITH",
    "LIST_EXTEND",
    "BINARY_SLICE",
    "STORE_SLICE",
)

# Calls are not looked at beyond so many instructions.
_MOST_INSTRUCTIONS = 200_000
# How often one place is tried that is passed many times in a call: at the first time and at a middle one.
_TIMES = 2
_INSTRUCTIONS_OF_A_LINE = 7


@dataclass(frozen=True)
class Place:
    """An instruction, at one of the times when a call passes it.

    Attributes:
        code: The code that it belongs to.
        offset: Its offset there.
        time: At which time, from 1.
        depth: How many calls deep it is below the dataset's method.
    """

    code: CodeType
    offset: int
    time: int = 1
    depth: int = 0

    @property
    def name(self) -> str:
        """Where it is, for people: file, line and function."""
        line = next((line for begin, end, line in self.code.co_lines() if begin <= self.offset < end), None)
        return shown_place(self.code.co_filename, line or self.code.co_firstlineno, self.code.co_name)


class Profile:
    """Notes the places that a call passes."""

    def __init__(self) -> None:
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._depths: dict[tuple[CodeType, int], int] = {}
        self._instructions = 0

    @property
    def lines(self) -> float:
        """How many lines of Python the call ran, roughly."""
        return self._instructions / _INSTRUCTIONS_OF_A_LINE

    def places(self) -> list[Place]:
        """Return what was passed, in order."""
        found = []
        for (code, offset), count in self._counts.items():
            times = sorted({1, count // 2 + 1})[:_TIMES]
            found += [Place(code, offset, time, self._depths[code, offset]) for time in times]
        return found

    def watch(self) -> AbstractContextManager[None]:
        """Note what the calling thread passes in the block."""
        return instructions(self._look)

    def _look(self, frame: FrameType, offset: int) -> None:
        self._instructions += 1
        if self._instructions > _MOST_INSTRUCTIONS or offset not in _offsets_of(frame.f_code):
            return
        key = (frame.f_code, offset)
        if key not in self._counts:
            self._depths[key] = _depth_of(frame)
        self._counts[key] = self._counts.get(key, 0) + 1


class Stop:
    """Stops a call at a place until it is let go on.

    Args:
        place: Where.
        on_arrival: Called when the call has got there, in its thread.
        seconds: For how long it waits there at most.

    Attributes:
        arrived: Whether it has got there.
        between: Names of what the stopped code has read and is about to write.
    """

    def __init__(self, place: Place, on_arrival: Callable[[], object], seconds: float) -> None:
        self._place = place
        self._on_arrival = on_arrival
        self._seconds = seconds
        self._left = place.time
        self._go = threading.Event()
        self._passed: dict[int, set[int]] = {}
        self.arrived = False
        self.between: frozenset[str] = frozenset()

    def let_go(self) -> None:
        """Let the call go on, now or when it gets there."""
        self._go.set()

    def watch(self) -> AbstractContextManager[None]:
        """Stop the calling thread when it gets there in the block."""
        return instructions(self._look, only=self._place.code)

    def _look(self, frame: FrameType, offset: int) -> None:
        if self.arrived:
            return
        passed = self._passed.setdefault(id(frame), set())
        passed.add(offset)
        if offset != self._place.offset:
            return
        self._left -= 1
        if self._left == 0:
            self.arrived = True
            self.between = frozenset(
                name
                for begin, end, name in _spans_of(frame.f_code)
                if begin in passed and begin < offset <= end
            )
            self._on_arrival()
            self._go.wait(self._seconds)


def choose(places: list[Place], most: int, home: str) -> list[Place]:
    """Return at most so many places: those of the dataset's own file first, then those nearest to it.

    What does not fit is thinned out evenly.
    """
    ranked = sorted(places, key=lambda place: (place.code.co_filename != home, place.time > 1, place.depth))
    if len(ranked) <= most:
        return ranked
    own = sum(place.code.co_filename == home for place in ranked)
    kept = min(own, max(most // 2, most - (len(ranked) - own)))
    return [*_thin(ranked[:own], kept), *_thin(ranked[own:], most - kept)]


def _thin(places: list[Place], most: int) -> list[Place]:
    if len(places) <= most:
        return places
    return [places[at * len(places) // most] for at in range(most)]


def _depth_of(frame: FrameType) -> int:
    depth = 0
    above = frame.f_back
    while above is not None and above.f_globals.get("__name__") != __package__ + ".reading":
        depth, above = depth + 1, above.f_back
    return depth


@functools.lru_cache(maxsize=4096)
def _offsets_of(code: CodeType) -> frozenset[int]:
    return frozenset(each.offset for each in dis.get_instructions(code) if each.opname.startswith(_NOTICED))


@functools.lru_cache(maxsize=4096)
def _spans_of(code: CodeType) -> tuple[tuple[int, int, str], ...]:
    """Return where something is read that is written later on: offsets of both, and its name; ``[]`` for items."""
    read: dict[str, int] = {}
    spans = []
    for each in dis.get_instructions(code):
        name = each.argval if each.opname in ("LOAD_ATTR", "STORE_ATTR", "LOAD_METHOD") else "[]"
        if name in ("get", "setdefault"):
            name = "[]"
        if each.opname in ("LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR"):
            read[name] = each.offset
        elif each.opname in ("STORE_ATTR", "STORE_SUBSCR") and name in read:
            spans.append((read[name], each.offset, str(name)))
    return tuple(spans)
