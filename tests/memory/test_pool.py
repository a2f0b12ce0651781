"""Blocks are used again, never while anything refers to their memory, and within bounds."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nogil_loader.memory import pool as pool_module
from nogil_loader.memory.buffers import allocate
from nogil_loader.memory.pool import CAN_MAP, BufferPool
from nogil_loader.memory.weigh import owners_of
from tests.scripts import RunScript

pytestmark = pytest.mark.skipif(not CAN_MAP, reason="this system has no private mappings")

PAGE = 2 << 20
MARK = 0x5A


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> BufferPool:
    """A pool of the test's own, also under the arrays that are allocated meanwhile."""
    own = BufferPool()
    monkeypatch.setattr("nogil_loader.memory.buffers.pool", own)
    return own


def test_a_block_is_used_again_for_its_size_only(pool: BufferPool) -> None:
    first, second = pool.take(3 * PAGE), pool.take(2 * PAGE)
    where, elsewhere = address(first), address(second)
    assert where % PAGE == 0
    del first, second
    assert pool.idle_bytes == 5 * PAGE
    assert address(pool.take(2 * PAGE)) == elsewhere
    same = pool.take(3 * PAGE - 5)  # in the same size, as a block has whole pages
    assert same.nbytes == 3 * PAGE - 5
    assert address(same) == where
    assert pool.idle_bytes == 2 * PAGE
    assert pool.mapped_bytes == 5 * PAGE


@pytest.mark.parametrize("zeroed", [False, True])
def test_contents_are_zero_where_that_was_asked_for(pool: BufferPool, zeroed: bool) -> None:
    for _ in range(3):
        memory = pool.take(2 * PAGE, zeroed=zeroed)
        if zeroed:
            assert not memory.any()
        memory[:] = MARK
        del memory
    assert pool.mapped_bytes == 2 * PAGE


def torch_module() -> Any:
    return pytest.importorskip("torch")


def from_buffer(array: Any) -> Any:
    return (ctypes.c_char * 100).from_buffer(array.reshape(-1).view(np.uint8)[:100])


def in_a_frame(array: Any) -> Any:
    def generator() -> Iterator[Any]:
        held = array[1:]
        yield
        yield held

    running = generator()
    next(running)
    return running


def in_a_traceback(array: Any) -> Any:
    try:
        held = array.T
        raise ValueError(held.shape)
    except ValueError as error:
        return error


def in_a_cycle(array: Any) -> Any:
    cycle: list[Any] = [array[2:]]
    cycle.append(cycle)
    return cycle


ALIASES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda a: a,
    "slice": lambda a: a[3:5],
    "element": lambda a: a[7, :1],
    "reshape": lambda a: a.reshape(-1)[:9].reshape(3, 3),
    "transpose": lambda a: a.T[::-1],
    "dtype": lambda a: a.view(np.uint8),
    "subclass": lambda a: a.view(np.recarray),
    "masked": lambda a: np.ma.masked_array(a, copy=False)[:4],
    "broadcast": lambda a: np.broadcast_to(a[0], (9, 1024)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 5),
    "memoryview": lambda a: memoryview(a)[5:6],
    "memoryview of a view": lambda a: memoryview(a[::2]),
    "frombuffer": lambda a: np.frombuffer(a, np.uint8, 50, 100),
    "frombuffer of a memoryview": lambda a: np.frombuffer(memoryview(a)[1:]),
    "base": lambda a: a.base,
    "base of a slice": lambda a: a[1:].base,
    "lease": lambda a: a.base.base,
    "array of the lease": lambda a: np.asarray(a.base.base)[9:],
    "nditer": lambda a: np.nditer(a[:2]),
    "flat": lambda a: a.flat,
    "ctypes": lambda a: a.ctypes,
    "from_buffer": from_buffer,
    "from_dlpack": lambda a: np.from_dlpack(a)[1:],
    "capsule": lambda a: a.__dlpack__(),
    "pickle buffer": lambda a: pickle.PickleBuffer(a[1:2]),
    "frame": in_a_frame,
    "traceback": in_a_traceback,
    "cycle": in_a_cycle,
    "torch": lambda a: torch_module().from_numpy(a),
    "torch view": lambda a: torch_module().from_numpy(a)[3, 4:6],
    "torch detach": lambda a: torch_module().from_numpy(a).detach().t(),
    "torch numpy": lambda a: torch_module().from_numpy(a).numpy()[1:],
    "torch storage": lambda a: torch_module().from_numpy(a).untyped_storage(),
    "torch parameter": lambda a: torch_module().nn.Parameter(torch_module().from_numpy(a)),
    "torch graph": lambda a: (
        torch_module().from_numpy(a) * torch_module().ones(1, requires_grad=True)
    ).sum(),
    "torch as_tensor": lambda a: torch_module().as_tensor(a[1:]),
    "torch frombuffer": lambda a: torch_module().frombuffer(a, dtype=torch_module().uint8)[5:],
    "torch dlpack": lambda a: torch_module().from_dlpack(a)[2:],
    "torch dlpack and back": lambda a: np.from_dlpack(torch_module().from_dlpack(a)[2:]),
}


@pytest.mark.parametrize("alias", ALIASES.values(), ids=list(ALIASES))
def test_g9_memory_is_not_used_again_while_anything_refers_to_it(
    pool: BufferPool, alias: Callable[[Any], Any]
) -> None:
    array = allocate((2048, 1024), np.dtype(np.float32))
    where = address(array)
    array.view(np.uint8)[:] = MARK
    holder = alias(array)
    del array
    gc.collect(1)  # what was made just now
    others = [allocate((2048, 1024), np.dtype(np.float32)) for _ in range(3)]
    for other in others:
        other[:] = 0
    assert pool.idle_bytes == 0
    assert where not in map(address, others)
    assert ctypes.string_at(where, 1000) == bytes([MARK]) * 1000
    del holder, others, other
    if pool.idle_bytes < pool.mapped_bytes:  # it was held in a cycle
        gc.collect()
    assert pool.idle_bytes == pool.mapped_bytes == 4 * 8 * (1 << 20)  # and then all of it is given back


def test_copies_do_not_hold_a_block(pool: BufferPool) -> None:
    array = allocate((2048, 1024), np.dtype(np.float32))
    array[:] = 1
    where = address(array)
    copies = [array.copy(), pickle.loads(pickle.dumps(array)), array[:5] + 1, array.astype(np.float64)]
    del array
    assert address(pool.take(8 << 20)) == where
    assert all((copy == copy.flat[0]).all() for copy in copies)


def test_a_pickle_with_buffers_out_of_band_refers_to_the_memory(pool: BufferPool) -> None:
    array = allocate((2048, 1024), np.dtype(np.float32))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(array, protocol=5, buffer_callback=buffers.append)
    array[:] = 3
    del array
    again = pickle.loads(data, buffers=buffers)
    buffers.clear()
    pool.take(8 << 20)[:] = 0
    assert (again == 3).all()
    del again
    assert pool.idle_bytes == pool.mapped_bytes


def test_an_owner_of_a_batch_dies_when_its_block_is_given_back(pool: BufferPool) -> None:
    batch = allocate((4096, 1024), np.dtype(np.float32))
    first = batch[:100]  # a small part of a block of one's own is one's own
    [(owner, used)] = owners_of([first])
    assert used == first.nbytes
    assert owner is batch.base
    del owner, batch
    assert pool.idle_bytes == 0
    del first
    assert pool.idle_bytes == 16 << 20


def test_idle_blocks_stay_below_the_bound(pool: BufferPool) -> None:
    pool.most_idle = 5 * PAGE
    held = [pool.take(2 * PAGE) for _ in range(4)]
    held.clear()
    assert pool.idle_bytes == 4 * PAGE
    assert pool.mapped_bytes == 4 * PAGE  # the others are gone


def test_idle_blocks_never_add_to_the_most_that_was_in_use(pool: BufferPool) -> None:
    for pages in range(2, 30):
        memory = pool.take(pages * PAGE)
        assert pool.mapped_bytes <= pages * PAGE
        del memory
    held = [pool.take(29 * PAGE)]
    held.append(pool.take(5 * PAGE))
    held.clear()
    assert pool.mapped_bytes == 34 * PAGE
    held = [pool.take(pages * PAGE) for pages in (3, 4, 6, 7)]  # all of other sizes
    assert pool.mapped_bytes <= 34 * PAGE
    held.append(pool.take(20 * PAGE))
    assert pool.mapped_bytes == 40 * PAGE  # as many as are in use


def test_trimming_gives_back_what_is_idle_and_leaves_what_is_in_use(pool: BufferPool) -> None:
    used, idle = pool.take(2 * PAGE), pool.take(3 * PAGE)
    used[:] = MARK
    del idle
    assert pool.trim() == 3 * PAGE
    assert pool.idle_bytes == 0
    assert pool.mapped_bytes == 2 * PAGE
    assert (used == MARK).all()
    del used
    assert pool.trim() == 2 * PAGE
    assert pool.trim() == 0


def test_nothing_becomes_idle_while_anybody_has_suspended_the_pool(pool: BufferPool) -> None:
    one, two = threading.Event(), threading.Event()  # any objects
    pool.suspend(one)
    pool.suspend(one)
    pool.suspend(two)
    del one  # gone without a word
    gc.collect()
    memory = pool.take(2 * PAGE)
    del memory
    assert pool.mapped_bytes == 0
    pool.resume(two)
    pool.resume(two)
    pool.resume(threading.Event())  # who never suspended it
    memory = pool.take(2 * PAGE)
    del memory
    assert pool.idle_bytes == 2 * PAGE


def test_while_suspended_idle_blocks_are_used_up_or_make_room(pool: BufferPool) -> None:
    held = [pool.take(2 * PAGE) for _ in range(3)]
    where = set(map(address, held))
    held.clear()
    pool.suspend(pool)
    assert pool.idle_bytes == 6 * PAGE
    held = [pool.take(2 * PAGE)]
    assert address(held[0]) in where
    held.append(pool.take(5 * PAGE))
    assert pool.idle_bytes == 0
    assert pool.mapped_bytes == 7 * PAGE


def test_idle_blocks_go_before_memory_is_refused(pool: BufferPool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(pool_module.Block):
        """A block where the system has no more than ten pages."""

        def __init__(self, nbytes: int, dense: int) -> None:
            if pool.mapped_bytes + nbytes > 10 * PAGE:
                raise OSError(12, "Cannot allocate memory")
            super().__init__(nbytes, dense)

    monkeypatch.setattr(pool_module, "Block", Scarce)
    held = [pool.take(3 * PAGE) for _ in range(3)]
    with pytest.raises(
        MemoryError, match=r"the system refuses 12582912 bytes for an array \(3, 4194304\) of uint8"
    ):
        allocate((3, 2 * PAGE), np.dtype(np.uint8))
    assert pool.mapped_bytes == 9 * PAGE
    held.pop()
    assert pool.idle_bytes == 3 * PAGE
    held.append(pool.take(4 * PAGE))
    assert pool.mapped_bytes == 10 * PAGE


@pytest.mark.parametrize("nbytes", [2**62, 2**80])
def test_more_than_there_is_raises_and_leaves_the_pool_as_it_is(pool: BufferPool, nbytes: int) -> None:
    with pytest.raises((OSError, OverflowError)):
        pool.take(nbytes)
    assert pool.mapped_bytes == 0
    memory = pool.take(PAGE)
    del memory
    assert pool.idle_bytes == PAGE


def test_threads_share_a_pool_without_ever_sharing_memory(pool: BufferPool) -> None:
    failures: list[Any] = []
    passed: list[Any] = []

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        held: list[Any] = []
        for _ in range(400):
            memory = pool.take(int(random.integers(1, 4)) * PAGE)
            memory[:8] = memory[-8:] = number
            held.append(memory[-8:])
            passed.append(memory[:8])  # lives on in other threads
            if len(passed) > 8:
                passed.pop(0)
            if any((view != number).any() for view in held):
                failures.append(number)
            del memory, held[: int(random.integers(0, 3))]

    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch_interval)
    assert not failures
    passed.clear()
    assert pool.idle_bytes == pool.mapped_bytes


class PoolMachine(RuleBasedStateMachine):
    """Arrays come and go in any order; each keeps its contents, and the numbers stay right."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(most_idle=12 * PAGE)
        self.held: list[tuple[int, int, Any]] = []
        self.most_used = 0
        self.serial = 0
        self.suspended = False

    def used(self) -> int:
        return sum(size for size, _, _ in self.held)

    @rule(pages=st.integers(1, 5), less=st.integers(0, 3), zeroed=st.booleans())
    def take(self, pages: int, less: int, zeroed: bool) -> None:
        memory = self.pool.take(pages * PAGE - less, zeroed=zeroed)
        if zeroed:
            assert not memory[:: PAGE // 2].any()
            assert not memory[-1]
        self.serial += 1
        view = memory.view()
        view[:: PAGE // 2] = view[-1] = self.serial % 251 + 1
        self.held.append((pages * PAGE, self.serial % 251 + 1, view[-1:] if self.serial % 2 else view))
        self.most_used = max(self.most_used, self.used())

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @rule()
    def trim(self) -> None:
        idle = self.pool.idle_bytes
        assert self.pool.trim() == idle
        assert self.pool.idle_bytes == 0

    @rule(how=st.booleans())
    def switch(self, how: bool) -> None:
        (self.pool.suspend if how else self.pool.resume)(self)

    @invariant()
    def contents_stay(self) -> None:
        for _, mark, view in self.held:
            assert view[-1] == mark
            assert view[0] == mark

    @invariant()
    def numbers_are_right(self) -> None:
        assert self.pool.mapped_bytes == self.used() + self.pool.idle_bytes
        assert self.pool.mapped_bytes <= max(self.most_used, self.used())
        assert self.pool.idle_bytes <= self.pool.most_idle

    def teardown(self) -> None:
        self.held.clear()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork_parent_and_child_have_memory_of_their_own(run_script: RunScript) -> None:
    result = run_script(
        """
        import os
        import numpy as np
        from nogil_loader.memory.pool import pool

        SIZE = 6 << 20
        idle, used = pool.take(SIZE), pool.take(SIZE)
        idle[:], used[:] = 1, 2
        del idle
        pool.suspend(pool)
        child = os.fork()
        if child == 0:
            assert pool.idle_bytes == 0  # would have to be copied, page by page
            assert (used == 2).all()
            fresh = pool.take(SIZE)
            fresh[:] = 3
            used[:] = 4
            del fresh, used
            assert pool.idle_bytes == 2 * SIZE  # what the parent has suspended does not bind the child
            taken = pool.take(SIZE, zeroed=True)
            assert not taken.any()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (used == 2).all()
        assert pool.idle_bytes == SIZE
        assert (pool.take(SIZE) == 1).all()
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


@pytest.mark.parametrize("how", ["global", "cycle", "thread", "suspended"])
def test_the_interpreter_exits_in_silence_with_arrays_alive(run_script: RunScript, how: str) -> None:
    result = run_script(
        """
        import sys
        import threading
        import time
        import numpy as np
        from nogil_loader.memory.buffers import aligned_empty
        from nogil_loader.memory.pool import pool

        how = sys.argv[1]
        arrays = [aligned_empty(9_000_000, np.uint8) for _ in range(4)]
        sys.modules["keeps"] = aligned_empty(5_000_000, np.uint8)[3:]
        arrays.pop()
        if how == "cycle":
            arrays.append(arrays)
            arrays.append(arrays[0][1:])
            arrays = None
        elif how == "thread":
            def hold(view):
                while True:
                    time.sleep(60)
            threading.Thread(target=hold, args=(arrays[0][1:],), daemon=True).start()
        elif how == "suspended":
            pool.suspend(threading.current_thread())
        """,
        arguments=[how],
    )
    assert result.returncode == 0
    assert result.stderr == ""


def test_a_lease_whose_making_is_broken_off_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    # An exception that another thread sends strikes anywhere, before the first line of __init__ too.
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    lease = pool_module.Lease.__new__(pool_module.Lease)
    del lease
    gc.collect()
    assert complaints == []
