"""The interpreter's GIL is found by what it says, and anything that only looks like it is refused."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from nogil_loader.observe.gil import place
from nogil_loader.observe.gil.place import Unavailable, find_gil, this_thread_state

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter works on Linux only")


@pytest.fixture(autouse=True)
def searched_anew() -> Iterator[None]:
    find_gil.cache_clear()
    yield
    find_gil.cache_clear()


def test_the_words_found_name_the_thread_that_has_the_gil() -> None:
    gil = find_gil()
    named: list[bool] = []

    def look() -> None:
        with place._Memory() as memory:
            state = memory.state(gil)
        assert state is not None
        named.append((state.holder, state.locked) == (this_thread_state(), 1))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    look()
    assert named == [True] * 5


def test_the_words_say_free_while_a_thread_has_given_the_gil_away() -> None:
    with place._Memory() as memory:
        state = memory.state(find_gil(), gil=False)
    assert state is not None
    assert state.locked == 0 or state.holder != this_thread_state()


def test_it_is_found_with_any_switch_interval() -> None:
    before = sys.getswitchinterval()
    known = find_gil()
    find_gil.cache_clear()
    try:
        sys.setswitchinterval(0.0123)
        assert find_gil() == known
    finally:
        sys.setswitchinterval(before)


def _as_if_held(interval: int) -> np.ndarray:
    words = np.array([interval, this_thread_state(), 0, 7], np.uint64)
    words.view(np.int32)[4] = 1
    return words


def test_a_copy_of_the_words_is_refused_since_it_does_not_change_when_the_gil_does() -> None:
    copy = _as_if_held(5000)
    with place._Memory() as memory:
        assert place._names_this_thread(memory, copy.ctypes.data)
        assert not place._knows_when_it_is_free(memory, copy.ctypes.data)
        assert place._named_by_another_thread(memory, [copy.ctypes.data]) == []
        assert place._named_by_another_thread(memory, [copy.ctypes.data, find_gil()]) == [find_gil()]


def test_memory_that_is_not_there_is_no_words_and_no_crash() -> None:
    page = 4096
    with place._Memory() as memory:
        assert len(memory.read(0, page)) == 0
        assert memory.state(8) is None
        assert memory.state((1 << 47) - 8) is None


def test_variables_end_where_the_system_says() -> None:
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    end = place._end_of_library(start)
    assert any(first < end <= last for first, last, _, _ in place._mappings())
    assert start < find_gil() < end
    with place._Memory() as memory:
        assert memory.read(start, end - start).nbytes == (end - start) // 8 * 8


def test_code_and_gaps_are_no_variables() -> None:
    code = ctypes.cast(ctypes.pythonapi.PyThreadState_Get, ctypes.c_void_p).value
    assert code is not None
    for address in (code, 8):
        with pytest.raises(ValueError, match="no variables at"):
            place._end_of_library(address)


def _other_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")


def _other_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))


def _no_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)


def _closed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_MEMORY", "/proc/self/there is no such file")


def _other_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getswitchinterval", lambda: 0.123456)  # nothing says that


@pytest.mark.parametrize(
    ("elsewhere", "reason"),
    [
        (_other_system, "works on Linux only, this is win32"),
        (_other_python, "CPython's own state, this is pypy"),
        (_no_gil, "runs without a GIL"),
        (_closed_memory, "memory cannot be read .*there is no such file"),
        (_other_build, r"keeps its GIL elsewhere \(0 places look like it\)"),
    ],
)
def test_where_it_cannot_be_found_the_reason_is_told(
    elsewhere: Callable[[pytest.MonkeyPatch], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with pytest.raises(Unavailable, match=reason):
        find_gil()
