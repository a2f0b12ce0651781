"""How to tell that a thread waits for the GIL.

Linux says for each thread which system call it is in, and with which arguments. A thread that waits for the GIL
is in a call about an address within the GIL's own struct, where its condition variable is; no other wait is about
such an address. Which call that is depends on processor and C library, so it is not assumed: a thread is made to
wait for the GIL, and looked at.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from dataclasses import dataclass

from nogil_loader.errors import describe_exception
from nogil_loader.observe.gil.place import STRUCT_BYTES, Unavailable

# A thread needs some 50 µs to wake up and find the GIL taken, and asks for it after the switch interval, 5 ms.
_ATTEMPTS = 10
_LOOKS = 50
_LOOK_MICROSECONDS = 100
_PATIENCE = 5.0
# A line has up to nine numbers of up to 20 characters.
_LINE_BYTES = 200


@dataclass(frozen=True)
class Sign:
    """What a thread does that waits for the GIL.

    Attributes:
        call: The number of the system call that it is in.
        low: The call is about an address from here …
        high: … to before here.
    """

    call: int
    low: int
    high: int


def open_calls(thread: int) -> int:
    """Open the file that tells which system call a thread of this process is in; by the thread's native id.

    Raises:
        OSError: There is no such thread, or no such file on this system.
    """
    return os.open(f"/proc/self/task/{thread}/syscall", os.O_RDONLY)


@functools.cache
def find_sign(gil: int) -> Sign:
    """Find out how waiting for the GIL looks here.

    Args:
        gil: The address of its struct.

    Raises:
        Unavailable: The system does not tell.
    """
    try:
        for _ in range(_ATTEMPTS):
            if (sign := _look_at_one_that_waits(gil)) is not None:
                return sign
    except (OSError, RuntimeError, AttributeError) as failure:
        raise Unavailable(
            f"the system does not tell what threads wait for ({describe_exception(failure)})"
        ) from failure
    raise Unavailable("the system does not tell that a thread waits for the GIL")


def _look_at_one_that_waits(gil: int) -> Sign | None:
    library = ctypes.PyDLL(None)  # calls without giving the GIL away
    line = ctypes.create_string_buffer(_LINE_BYTES)
    gate = threading.Lock()
    with gate:
        thread = threading.Thread(target=_pass, args=(gate,), name="nogil_loader-gil-check", daemon=True)
        thread.start()
        file = open_calls(thread.native_id or 0)
    try:
        # From here on the thread wants nothing but the GIL. Having waited for long, it gets it between two calls.
        for _ in range(_LOOKS):
            library.usleep(_LOOK_MICROSECONDS)
            count = library.pread(file, line, _LINE_BYTES, ctypes.c_long(0))
            sign = _parse(line.raw[: max(0, count)], gil)
            if sign is not None:
                return sign
    finally:
        os.close(file)
        thread.join(_PATIENCE)
    return None


def _pass(gate: threading.Lock) -> None:
    with gate:
        pass


def _parse(line: bytes, gil: int) -> Sign | None:
    fields = line.split()
    try:
        call, address = int(fields[0]), int(fields[1], 16)
    except (IndexError, ValueError):  # it runs
        return None
    low, high = gil, gil + STRUCT_BYTES
    return Sign(call, low, high) if call >= 0 and low <= address < high else None
