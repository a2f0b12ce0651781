"""Where the interpreter keeps its GIL.

CPython has no function that tells who holds the GIL, but it writes it down: in ``struct _gil_runtime_state``,
which begins with the switch interval in microseconds, the address of the thread state that had the GIL last, and
whether it is taken now. The struct is part of ``_PyRuntime``, an exported variable; where in it depends on the
version. So that variable is searched for these three values, and what is found has to prove itself: it names this
thread while this thread has the GIL, another one while that has it, and does not name this thread while it has
given the GIL away.

Nothing is assumed that is not checked, and nothing is read that may not be there: only memory that the system says
belongs to the variable's library, and by way of a file, which gives an error where a pointer would give a crash.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nogil_loader.errors import describe_exception

#: Bytes from the beginning of the struct to its end: four words, and two condition variables with their mutexes,
#: of 48 bytes each at most with glibc and musl on 64 bits.
STRUCT_BYTES: Final = 4 * 8 + 4 * 48

_MEMORY = "/proc/self/mem"
# Several times the size of ``_PyRuntime``, which is 0.2 to 0.5 MB in Python 3.11 to 3.13.
_MOST_BYTES = 1 << 22
# A thread that has nothing to do but to look at three words has done it long before.
_PATIENCE = 5.0
# Between a thread's taking the GIL and its writing down who it is there are nanoseconds.
_LOOKS = 100


class Unavailable(Exception):
    """The GIL cannot be watched; the message is the reason."""


@dataclass(frozen=True)
class _State:
    """What a place says."""

    interval: int
    holder: int
    locked: int


@functools.cache
def find_gil() -> int:
    """Return the address of the ``struct _gil_runtime_state`` that this thread's GIL is.

    Raises:
        Unavailable: It cannot be found.
    """
    if sys.implementation.name != "cpython":
        raise Unavailable(f"the meter reads CPython's own state, this is {sys.implementation.name}")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise Unavailable("this Python runs without a GIL")
    if sys.platform != "linux":
        raise Unavailable(f"the meter works on Linux only, this is {sys.platform}")
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise Unavailable("the meter works on 64-bit systems only")
    try:
        with _Memory() as memory:
            return _search(memory)
    except (OSError, AttributeError, ValueError, RuntimeError) as failure:
        raise Unavailable(
            f"the interpreter's memory cannot be read ({describe_exception(failure)})"
        ) from failure


class _Memory:
    """This process's memory as a file, read with the GIL held, or without it."""

    def __init__(self) -> None:
        self._file = os.open(_MEMORY, os.O_RDONLY)
        self._with_gil = _declared(ctypes.PyDLL(None).pread)
        self._without_gil = _declared(ctypes.CDLL(None).pread)
        self._thread_state = ctypes.pythonapi[
            "PyThreadState_Get"
        ]  # not the one that others may have declared
        self._thread_state.restype = ctypes.c_void_p

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def read(self, address: int, count: int, *, gil: bool = True) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Return up to ``count`` bytes as words; fewer where memory ends."""
        words = np.zeros(count // 8, np.uint64)
        pread = self._with_gil if gil else self._without_gil
        done = pread(self._file, words.ctypes.data, words.nbytes, address)
        return words[: max(0, done) // 8]

    def state(self, address: int, *, gil: bool = True) -> _State | None:
        """Return what a place says."""
        words = self.read(address, 24, gil=gil)
        if len(words) < 3:
            return None
        return _State(int(words[0]), int(words[1]), int(words.view(np.int32)[4]))


def this_thread_state() -> int:
    """Return the address of the calling thread's state in the interpreter."""
    get = ctypes.pythonapi["PyThreadState_Get"]  # a new object: others may have declared theirs otherwise
    get.restype = ctypes.c_void_p
    return int(get())


def _declared(pread: Any) -> Any:
    pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ssize_t)
    pread.restype = ctypes.c_ssize_t
    return pread


def _search(memory: _Memory) -> int:
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    words = memory.read(start, min(_end_of_library(start) - start, _MOST_BYTES))
    interval = round(sys.getswitchinterval() * 1e6)
    found = np.flatnonzero((words[:-2] == interval) & (words[1:-1] == this_thread_state()))
    places = [start + 8 * int(at) for at in found]
    places = [place for place in places if _names_this_thread(memory, place)]
    places = [place for place in places if _knows_when_it_is_free(memory, place)]
    if places:
        places = _named_by_another_thread(memory, places)
    if len(places) != 1:
        raise Unavailable(f"this build of Python keeps its GIL elsewhere ({len(places)} places look like it)")
    return places[0]


def _end_of_library(address: int) -> int:
    """Return where the variables of the library end that the one at ``address`` belongs to.

    Raises:
        ValueError: There is no variable there.
    """
    end = 0
    for start, stop, rights, name in _mappings():
        if start <= address < stop:
            if not rights.startswith("rw"):
                break
            end, library = stop, name
        elif end and start == end and rights.startswith("rw") and name in ("", library):
            end = stop  # variables that are zero at first: no file has them
        elif end:
            break
    if not end:
        raise ValueError(f"no variables at {address:#x}")
    return end


def _mappings() -> Iterator[tuple[int, int, str, str]]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            start, _, stop = fields[0].partition("-")
            yield int(start, 16), int(stop, 16), fields[1], fields[5] if len(fields) > 5 else ""


def _names_this_thread(memory: _Memory, place: int) -> bool:
    state = memory.state(place)
    return state is not None and state.locked == 1 and state.holder == this_thread_state()


def _knows_when_it_is_free(memory: _Memory, place: int) -> bool:
    me = this_thread_state()
    for _ in range(_LOOKS):
        state = memory.state(place, gil=False)
        if state is not None and (state.locked == 0 or (state.locked == 1 and state.holder != me)):
            return True
    return False


def _named_by_another_thread(memory: _Memory, places: list[int]) -> list[int]:
    named: list[int] = []
    thread = threading.Thread(
        target=lambda: named.extend(place for place in places if _names_this_thread(memory, place)),
        name="nogil_loader-gil-check",
        daemon=True,
    )
    thread.start()
    thread.join(_PATIENCE)
    return named
