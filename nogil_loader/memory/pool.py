"""Large blocks of memory that are used again: filling fresh ones takes 1.5 to 3 times as long.

Guarantees of this file:

* A block is never used again while anything refers to its memory (G9). Under the array that is handed out lies a
  *lease*; every view, buffer, tensor or DLPack capsule on the memory keeps it alive, and its end, nothing else,
  gives the block back.
* Idle blocks never make the process larger than it has been with all of its blocks in use: what is in use and
  what is idle together stay within the most that was in use at once. Beside that, `BufferPool.most_idle` holds.
* While anybody has suspended the pool, blocks end with their last reference, and none becomes idle.
* There is no lock: a lease may end in the garbage collector, in the middle of anything, on any thread.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from ctypes import addressof, c_char
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

#: Whether this system has private anonymous mappings (all but Windows).
CAN_MAP = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")

_HUGE_PAGE = 2 << 20
# Seven batches of 256 photographs of 224 by 224 pixels as float32. At the end of an epoch all blocks become idle;
# what does not fit in here costs its page faults once per epoch.
_MOST_IDLE = 1 << 30


class Block:
    """A private anonymous mapping that starts at a huge page.

    Args:
        nbytes: Its size, a multiple of huge pages.
        dense: Bytes from its start that are going to be filled.

    Raises:
        OSError: The system refuses the memory.
        OverflowError: No system has so much.
    """

    __slots__ = ("__weakref__", "_map", "address", "nbytes")

    def __init__(self, nbytes: int, dense: int) -> None:
        # A huge page more of address space than needed, to start at a huge page; untouched, it costs nothing.
        self._map = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        first = addressof(c_char.from_buffer(self._map))
        start = -first % _HUGE_PAGE
        self.address = first + start
        self.nbytes = nbytes
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # Whole huge pages only: the tail stays on small pages, and nothing beyond the array becomes resident.
            # A kernel without huge pages refuses the advice: the same memory, only slower to fill.
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE, 0, start + dense // _HUGE_PAGE * _HUGE_PAGE)


class Lease:
    """The use of a block from `BufferPool.take` to the end of everything that refers to its memory."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: BufferPool, block: Block, nbytes: int) -> None:
        self._pool = pool
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (block.address, False),
        }
        self._block = block

    def __del__(self) -> None:
        try:
            block = self._block
        except AttributeError:  # its making was broken off, by an exception from another thread
            return
        self._pool.give_back(block)


class BufferPool:
    """Blocks that nobody refers to any more, by size.

    Attributes:
        most_idle: Bytes that may be idle at most.
        made: Blocks that were asked of the system.
        reused: Blocks that were used again.
    """

    def __init__(self, most_idle: int = _MOST_IDLE) -> None:
        self.most_idle = most_idle
        self.made = self.reused = 0
        self._idle: dict[int, SimpleQueue[Block]] = {}
        self._blocks: set[weakref.ref[Block]] = set()
        self._most_used = 0
        self._suspenders: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def idle_bytes(self) -> int:
        """Bytes of the blocks that nobody refers to."""
        return sum(nbytes * queue.qsize() for nbytes, queue in list(self._idle.items()))

    @property
    def mapped_bytes(self) -> int:
        """Bytes of all blocks, idle or in use."""
        return sum(block.nbytes for ref in list(self._blocks) if (block := ref()) is not None)

    def take(self, nbytes: int, *, zeroed: bool = False) -> npt.NDArray[np.uint8]:
        """Return ``nbytes`` bytes of memory (at least 1) that nobody else refers to, starting at a huge page.

        Args:
            nbytes: How many.
            zeroed: Whether they have to be zero; otherwise a block that is used again has its last contents.

        Raises:
            OSError: The system refuses the memory, also with nothing idle.
            OverflowError: No system has so much.
        """
        size = -(-nbytes // _HUGE_PAGE) * _HUGE_PAGE
        try:
            block = self._queue_of(size).get_nowait()
        except Empty:
            return np.asarray(Lease(self, self._map(size, nbytes), nbytes))
        self.reused += 1
        memory = np.asarray(Lease(self, block, nbytes))
        if zeroed:
            memory.fill(0)
        return memory

    def trim(self) -> int:
        """Give all idle blocks back to the system and return how many bytes that were."""
        idle, self._idle = self._idle, {}
        self._most_used = 0
        return sum(nbytes * queue.qsize() for nbytes, queue in idle.items())

    def suspend(self, owner: object) -> None:
        """Keep no more blocks until ``owner`` resumes or is gone; those that are idle may still be used.

        Args:
            owner: Who is asking; any object that is hashable and can be weakly referenced.
        """
        self._suspenders.add(owner)

    def resume(self, owner: object) -> None:
        """End what ``owner`` has suspended, if it has; safe from finalisers."""
        self._suspenders.discard(owner)

    def renew(self) -> None:
        """Start anew in the child of a fork."""
        # The pages of the parent's idle blocks would have to be copied; fresh ones are cheaper.
        self.trim()
        self._suspenders.clear()  # the threads that would resume did not come along

    def give_back(self, block: Block) -> None:
        """Let ``block`` be idle if it may be, else end it; called by the end of a lease."""
        if not self._suspenders and self.idle_bytes + block.nbytes <= self.most_idle:
            self._queue_of(block.nbytes).put(block)

    def _queue_of(self, size: int) -> SimpleQueue[Block]:
        queue = self._idle.get(size)
        return self._idle.setdefault(size, self._new_queue()) if queue is None else queue

    def _map(self, size: int, dense: int) -> Block:
        """Make a block, after idle ones have made room for it."""
        idle = self.idle_bytes
        used = self.mapped_bytes - idle + size
        self._most_used = max(self._most_used, used)
        excess = used + idle - self._most_used
        if self._suspenders:
            self.trim()
        elif excess > 0:
            self._drop(excess)
        try:
            block = Block(size, dense)
        except OSError:
            if not self.trim():
                raise
            block = Block(size, dense)
        # What a set has of its own as the callback: it cannot be broken off half-way.
        self.made += 1
        self._blocks.add(weakref.ref(block, self._blocks.discard))
        return block

    def _drop(self, nbytes: int) -> None:
        """Give idle blocks of at least ``nbytes`` bytes back to the system, those of the oldest sizes first."""
        for size, queue in list(self._idle.items()):
            try:
                while nbytes > 0:
                    queue.get_nowait()
                    nbytes -= size
            except Empty:
                # A block that is being put into it at this moment ends with it.
                self._idle.pop(size, None)

    # At interpreter exit a module's globals may be gone before its objects are; a class keeps its own.
    _new_queue = SimpleQueue


#: The blocks of this process, shared by all loaders.
pool = BufferPool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.renew)
