"""A thread that waits for the GIL is told from all others by the system call that it is in."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nogil_loader.observe.gil import waits
from nogil_loader.observe.gil.place import STRUCT_BYTES, Unavailable, find_gil
from nogil_loader.observe.gil.waits import Sign

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")

_GIL = 0x7F50_4394_E6A8
_SIGN = Sign(202, _GIL, _GIL + STRUCT_BYTES)


def told_by_kernel(line: bytes) -> bool:
    """What the kernel, as plain Python, makes of a line."""
    from nogil_loader.kernels.gilwatch import _waits

    return bool(_waits(np.frombuffer(line, np.uint8), len(line), _SIGN.call, _SIGN.low, _SIGN.high))


def told_by_python(line: bytes) -> bool:
    return waits._parse(line, _GIL) == _SIGN


def line_of(call: int, *arguments: int) -> bytes:
    return f"{call} {' '.join(map(hex, arguments))}\n".encode()


def test_how_waiting_looks_is_learned_from_a_thread_that_waits() -> None:
    waits.find_sign.cache_clear()
    gil = find_gil()
    sign = waits.find_sign(gil)
    assert (sign.low, sign.high) == (gil, gil + STRUCT_BYTES)


def test_where_no_thread_is_seen_to_wait_the_reason_is_told() -> None:
    with pytest.raises(Unavailable, match="does not tell that a thread waits for the GIL"):
        waits.find_sign(8)  # an address that nobody waits for


def test_a_system_without_such_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(waits, "open_calls", refuse)
    with pytest.raises(Unavailable, match=r"what threads wait for \(PermissionError: .*denied"):
        waits.find_sign(16)


@given(
    st.sampled_from([0, 20, 202, 2020]),
    st.one_of(st.integers(_GIL - 16, _GIL + STRUCT_BYTES + 16), st.integers(0, 2**64 - 1)),
    st.lists(st.integers(0, 2**64 - 1), max_size=7),
)
@example(202, _GIL, [])
@example(202, _GIL + STRUCT_BYTES - 1, [0x189])
@example(202, _GIL + STRUCT_BYTES, [0x189])
@example(202, _GIL - 1, [0x189])
def test_only_the_call_about_the_gils_own_words_is_a_wait(call: int, address: int, rest: list[int]) -> None:
    line = line_of(call, address, *rest)
    expected = call == _SIGN.call and _SIGN.low <= address < _SIGN.high
    assert told_by_kernel(line) == told_by_python(line) == expected


@pytest.mark.parametrize(
    "line", [b"running\n", b"-1 0x7ffe5bce2568 0x7f73659cb2ad\n", b"202", b"202 ", b"202 0x", b"x"]
)
def test_a_thread_that_runs_or_a_line_cut_short_is_no_wait(line: bytes) -> None:
    assert not told_by_kernel(line)
    assert not told_by_python(line)


def test_a_thread_that_does_not_exist_has_no_calls() -> None:
    with pytest.raises(OSError, match=r"No such (file|process)"):
        os.close(waits.open_calls(2**22 + 1))
