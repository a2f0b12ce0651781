"""The kernel that watches the GIL without ever taking it; imported once numba is there, on Linux only.

One call runs until it is told to stop. It sleeps, wakes at instants that nobody else can know, and reads two words
of the interpreter: whether the GIL is taken, and by which thread state. So it sees what happens while all Python
threads stand still, and it holds nobody up: it takes no lock, and one wake-up takes a few microseconds.

The gaps between these instants are exponentially distributed. Then the share of samples tells the share of time
without bias, even though each wake-up may change what the threads do next (R. W. Wolff, Poisson Arrivals See Time
Averages, 1982). With gaps of half a period to one and a half, what a wake-up did to a thread was over before the
next one looked, and shares were wrong by up to twice what chance does. The instants do not move when a wake-up
comes late because the processors are busy; such samples are counted apart, since what was to be seen may be over.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nogil_loader.kernels import gilboard
from nogil_loader.kernels.compiler.fingerprint import fingerprint
from nogil_loader.kernels.compiler.jit import jitable
from nogil_loader.kernels.compiler.toolchain import (
    compile_function,
    compiling,
    find_entry,
    load_numba,
    make_key,
)
from nogil_loader.kernels.gilboard import LATE, OTHERS, ROUNDS, RUNS, SAMPLES, SLOTS, STAGES, STOP, USED

# Of a longer sleep, so that it ends soon after it has been told to.
_NAP_NS = 20_000_000
# Waking up takes 10 to 60 µs on a machine that is not overloaded.
_LATE_NS = 200_000

# Where the words are in ``struct _gil_runtime_state``, behind ``unsigned long interval``.
_HOLDER, _LOCKED = 8, 16

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_compiled: Callable[..., None] | None = None


@intrinsic
def _word(typing_context: Any, address: Any) -> Any:
    """Load 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], _I64.as_pointer()), "monotonic", 8)

    return types.int64(types.int64), generate


@intrinsic
def _int(typing_context: Any, address: Any) -> Any:
    """Load 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load_atomic(builder.inttoptr(args[0], _I32.as_pointer()), "monotonic", 4)
        return builder.sext(value, _I64)

    return types.int64(types.int64), generate


@intrinsic
def _sleep(typing_context: Any, microseconds: Any) -> Any:
    """Sleep; a signal may end it earlier."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "usleep")
        builder.call(function, [builder.trunc(args[0], _I32)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def _clock(typing_context: Any, text: Any) -> Any:
    """Return nanoseconds of the monotonic clock, by way of the first 16 bytes of an array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        kind = ir.FunctionType(_I32, [_I32, _I8.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [_I32(1), builder.bitcast(data, _I8.as_pointer())])
        words = builder.bitcast(data, _I64.as_pointer())
        seconds, nanoseconds = builder.load(words), builder.load(builder.gep(words, [_I64(1)]))
        return builder.add(builder.mul(seconds, _I64(1_000_000_000)), nanoseconds)

    return types.int64(text), generate


@intrinsic
def _read(typing_context: Any, descriptor: Any, text: Any) -> Any:
    """Read a file's beginning into an array; return how many bytes, negative if it cannot be read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[1])(context, builder, args[1])
        kind = ir.FunctionType(_I64, [_I32, _I8.as_pointer(), _I64, _I64])
        function = cgutils.get_or_insert_function(builder.module, kind, "pread")
        data = builder.bitcast(array.data, _I8.as_pointer())
        return builder.call(function, [builder.trunc(args[0], _I32), data, array.nitems, _I64(0)])

    return types.int64(types.int64, text), generate


def watch_gil(
    gil: int,
    call: int,
    low: int,
    high: int,
    period: int,
    control: Any,
    states: Any,
    stages: Any,
    descriptors: Any,
    held: Any,
    waits: Any,
    seen: Any,
    text: Any,
) -> None:
    """Sample the GIL until ``control[STOP]`` is set, and end within 50 ms after that.

    Args:
        gil: Address of the interpreter's ``struct _gil_runtime_state``.
        call: The system call that a thread which waits for the GIL is in; negative if nothing is known of that.
        low: A thread waits for the GIL if its call is about an address from here …
        high: … to before here.
        period: Nanoseconds between samples, on average.
        control: As all that follow, of a `GilBoard`.
        states: Of the threads that are watched.
        stages: What they are at.
        descriptors: What tells their system calls.
        held: Is added to, by slot and stage, as the next ones.
        waits: One thread is looked at in each sample, in turn.
        seen: Counts those looks.
        text: For what is read.
    """
    random = _clock(text) | 1
    due = _clock(text)
    turn = 0
    control[RUNS] = 1
    while control[STOP] == 0:
        random ^= (
            random << 13
        )  # Marsaglia, Xorshift RNGs (2003); the shift to the right is that of unsigned numbers
        random ^= (random >> 7) & 0x01FFFFFFFFFFFFFF
        random ^= random << 17
        due += int(-period * math.log(1.0 - ((random >> 20) & 0xFFFFFFFF) / 4294967296.0))
        instants = 1
        early = due - _clock(text)
        while early > _NAP_NS and control[STOP] == 0:
            _sleep(_NAP_NS // 1000)
            early = due - _clock(text)
        if early > 0:
            _sleep(early // 1000 + 1)
        elif -early > period:
            missed = -early // period
            instants += missed
            due += missed * period
        locked = _int(gil + _LOCKED)
        holder = _word(gil + _HOLDER)
        is_late = _clock(text) - due > _LATE_NS
        used = min(control[USED], SLOTS)
        if locked == 1:
            slot = -1
            for each in range(used):
                if states[each] == holder:
                    slot = each
                    break
            if slot < 0:
                control[OTHERS] += instants
            else:
                held[slot * STAGES + (stages[slot] & (STAGES - 1))] += instants
        control[SAMPLES] += instants
        if is_late:
            control[LATE] += instants
        if call >= 0:
            for _ in range(used):
                turn = turn + 1 if turn + 1 < used else 0
                if descriptors[turn] >= 0:
                    break
            if turn < used and descriptors[turn] >= 0:
                place = turn * STAGES + (stages[turn] & (STAGES - 1))
                count = _read(descriptors[turn], text)
                if count > 0:
                    seen[place] += instants
                    if _waits(text, count, call, low, high):
                        waits[place] += instants
        control[ROUNDS] += 1
    control[RUNS] = 0


@jitable
def _waits(text: Any, count: int, call: int, low: int, high: int) -> bool:
    """Whether a thread is in a call about an address: its file says ``202 0x55d0c8a0 …``, or ``running``."""
    at = 0
    number = 0
    while at < count and 48 <= text[at] <= 57:
        number = number * 10 + int(text[at]) - 48
        at += 1
    if at == 0 or number != call:
        return False
    at += 3  # " 0x"
    address = 0
    while at < count:
        digit = int(text[at])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            break
        address = address * 16 + digit
        at += 1
    return low <= address < high


def compile_watch() -> Callable[..., None]:
    """Return `watch_gil` as machine code: from this process, from disk, or compiled now.

    Raises:
        Exception: What the compiler raises.
    """
    global _compiled
    with compiling:
        if _compiled is None:
            numba = load_numba()
            number, numbers = numba.int64, numba.int64[::1]
            signature = numba.void(*[number] * 5, *[numbers] * 7, numba.uint8[::1])
            depends = fingerprint([_code_of(__name__), _code_of(gilboard.__name__)])
            key = make_key(numba, "watch_gil", str(signature), depends.digest)
            entry = find_entry("watch_gil", key, depends.opaque)
            _compiled = compile_function(numba, watch_gil, signature, entry).function
        return _compiled


def _code_of(module: str) -> Any:
    loader: Any = sys.modules[module].__loader__
    return loader.get_code(module)
