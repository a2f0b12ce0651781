"""The thread that runs the kernel which watches the GIL.

It needs the GIL to begin and to end, never in between. It is asked to end, and waited for in bounded time, when a
meter is closed, and before the interpreter shuts down; a child of a fork has no such thread and waits for none.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import platform
import struct
import threading
import time
from collections.abc import Callable

from nogil_loader.errors import describe_exception
from nogil_loader.kernels.compiler.toolchain import is_disabled, load_numba
from nogil_loader.kernels.gilboard import RUNS, STOP, GilBoard
from nogil_loader.observe.gil.place import Unavailable
from nogil_loader.observe.gil.waits import Sign

# A healthy thread begins, and ends, in milliseconds; the rest is for machines that are busy with something else.
_PATIENCE = 5.0
_MOMENT = 0.0002
# Of sched_setattr, which older C libraries have no function for.
_SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_SLICE_NS = 100_000  # the shortest that Linux allows
_PR_SET_TIMERSLACK = 29

# From start to end of their threads, whoever else has forgotten them.
_running: set[Sampler] = set()


def load_watch() -> Callable[..., None]:
    """Return the compiled kernel.

    Raises:
        Unavailable: There is nothing to compile it.
    """
    numba = load_numba()
    if numba is None:
        raise Unavailable("numba cannot be imported, and only compiled code can run without the GIL")
    if is_disabled(numba):
        raise Unavailable("NUMBA_DISABLE_JIT is set, and only compiled code can run without the GIL")
    from nogil_loader.kernels.gilwatch import compile_watch

    try:
        return compile_watch()
    except Exception as failure:
        raise Unavailable(f"its kernel cannot be compiled here ({describe_exception(failure)})") from failure


class Sampler:
    """Watches the GIL from `start` to `close`.

    Args:
        watch: The kernel.
        board: What it reads and counts on.
        gil: Where the GIL is.
        sign: How waiting for it looks; None if that is not known.
        period: Seconds between samples.
        done: Called when the kernel has ended, by its thread.
    """

    def __init__(
        self,
        watch: Callable[..., None],
        board: GilBoard,
        gil: int,
        sign: Sign | None,
        period: float,
        done: Callable[[], None],
    ) -> None:
        self._board = board
        self._done = done
        self._pid = os.getpid()
        waits = (sign.call, sign.low, sign.high) if sign is not None else (-1, 0, 0)
        self._watch = functools.partial(watch, gil, *waits, round(period * 1e9), *board.arrays())
        # A daemon, because the program's end must not wait for it; `_close_all` sees to it that it has ended.
        self._thread = threading.Thread(target=self._run, name="nogil_loader-gil-meter", daemon=True)

    def start(self) -> None:
        """Begin to watch.

        Raises:
            Unavailable: The system gives no more threads.
        """
        # Told to end at once, it does what a first call needs, imports among it, here and not in its thread: a
        # fork in the middle of that would leave the child with half of a module.
        control = self._board.control
        control[STOP] = 1
        self._watch()
        control[STOP] = 0
        _running.add(self)
        try:
            self._thread.start()
        except RuntimeError as failure:
            _running.discard(self)
            raise Unavailable(f"no thread can be started for it ({failure})") from failure
        deadline = time.monotonic() + _PATIENCE
        while not control[RUNS] and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(_MOMENT)

    def stop(self) -> None:
        """Ask the thread to end. Safe in a finaliser: it takes no lock and does not wait."""
        self._board.control[STOP] = 1

    def close(self) -> None:
        """Let the thread end; idempotent."""
        self.stop()
        if os.getpid() == self._pid and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            _be_punctual()
            self._watch()
        finally:
            _running.discard(self)
            self._done()


def _be_punctual() -> None:
    """Have the system wake the calling thread when it asked to be, even if all processors are busy.

    A thread that has to wait for a processor sees nothing but the moments at which one becomes free, which are not
    like the others. It needs a processor for some microseconds only, so nobody loses by letting it in first.
    """
    with contextlib.suppress(AttributeError, OSError):  # not on every system
        library = ctypes.CDLL(None)
        # Else its wake-ups are put together with those of the threads that it watches.
        library.prctl(_PR_SET_TIMERSLACK, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
        except (
            OSError
        ):  # not allowed; a short slice is everybody's right, and does something since Linux 6.12
            if (call := _SYSTEM_CALLS.get(platform.machine())) is not None:
                nice = os.getpriority(os.PRIO_PROCESS, 0)
                attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0)
                library.syscall(call, 0, attributes, 0)


def _close_all() -> None:
    """Let no thread be in machine code, or in need of the GIL, while the interpreter goes."""
    for sampler in list(_running):
        sampler.close()


atexit.register(_close_all)
