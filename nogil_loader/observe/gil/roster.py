"""Who is watched: which thread has which slot of the board, and what was counted for it.

A slot belongs to a name. A thread gives its slot back when it ends, and a later one of the same name goes on with
it, so that a rebuilt worker, or the next epoch's, does not need another one.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Final

from nogil_loader.kernels.gilboard import LATE, OTHERS, ROUNDS, SAMPLES, SLOTS, STAGES, USED, GilBoard
from nogil_loader.observe.gil.place import this_thread_state
from nogil_loader.observe.gil.waits import open_calls

#: What is not told apart: threads that nobody named, and stages beyond the number that a board has.
OTHER_THREADS: Final = "other threads"
OTHER_STAGES: Final = "other stages"


@dataclass(frozen=True)
class Tally:
    """Samples of the threads of one name at one stage.

    Attributes:
        held: Those at which one had the GIL.
        waits: Those at which one was seen to wait for it.
        seen: Those at which one was looked at.
    """

    held: int = 0
    waits: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Counts:
    """What was counted.

    Attributes:
        samples: How many there are.
        late: Those that were taken late.
        others: Those at which a thread had the GIL that is not watched.
        tallies: By name and stage.
    """

    samples: int
    late: int
    others: int
    tallies: dict[tuple[str, str], Tally]


class Seat:
    """A thread's slot, given back when this object goes: with the thread, if it is kept in a ``threading.local``.

    Attributes:
        slot: Where the thread's stage is written to; beyond the slots if there was none.
        base: What the thread is at when it is at nothing in particular.
    """

    __slots__ = ("_roster", "base", "slot")

    def __init__(self, roster: Roster, slot: int, base: int) -> None:
        self._roster = roster
        self.slot = slot
        self.base = base

    def __del__(self) -> None:
        self._roster.leave(self.slot)


class Roster:
    """Gives threads slots of a board.

    Args:
        board: The board.
        calls: Whether to open the files that tell the threads' system calls.
    """

    def __init__(self, board: GilBoard, *, calls: bool) -> None:
        self._board = board
        self._calls = calls
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._names: list[str] = []
        self._stages: dict[str, int] = {}
        self._left: deque[int] = deque()
        self._free: defaultdict[str, list[int]] = defaultdict(list)
        self._unused: list[tuple[int, int]] = []  # files, and the wake-up after which nobody reads them

    def take(self, name: str, base: str) -> Seat:
        """Give the calling thread a slot.

        Args:
            name: What the thread is called.
            base: The stage that it is at, until it says otherwise.
        """
        if os.getpid() != self._pid:  # of a fork, nobody watches here, and the lock may be locked for ever
            return Seat(self, SLOTS, 0)
        code = self.code(base)
        board = self._board
        with self._lock:
            self._settle()
            if self._closed or not (self._free[name] or len(self._names) < SLOTS):
                return Seat(self, SLOTS, code)
            if self._free[name]:
                slot = self._free[name].pop()
            else:
                slot = len(self._names)
                self._names.append(name)
            board.stages[slot] = code
            board.descriptors[slot] = self._open() if self._calls else -1
            board.states[slot] = this_thread_state()
            board.control[USED] = len(self._names)
        return Seat(self, slot, code)

    def leave(self, slot: int) -> None:
        """Take a slot back. Safe in a finaliser: it takes no lock."""
        if slot < len(self._board.states):
            self._board.states[slot] = 0
            self._left.append(slot)

    def code(self, stage: str) -> int:
        """Return the number that stands for a stage on the board."""
        code = self._stages.get(stage)
        if code is not None:
            return code
        if os.getpid() != self._pid:
            return 0
        with self._lock:
            if len(self._stages) >= STAGES - 1:
                stage = OTHER_STAGES
            return self._stages.setdefault(stage, len(self._stages))

    def counts(self) -> Counts:
        """Return what was counted up to now."""
        board = self._board
        # In this order: the kernel may go on counting, and no part may exceed the whole.
        held, waits, seen = board.held.copy(), board.waits.copy(), board.seen.copy()
        others, late, samples = (int(board.control[word]) for word in (OTHERS, LATE, SAMPLES))
        tallies: dict[tuple[str, str], Tally] = {}
        stages = list(self._stages)
        for slot, name in enumerate(list(self._names)):
            for code, stage in enumerate(stages):
                at = slot * STAGES + code
                if held[at] or seen[at]:
                    old = tallies.get((name, stage), Tally())
                    tallies[name, stage] = Tally(
                        old.held + int(held[at]), old.waits + int(waits[at]), old.seen + int(seen[at])
                    )
        return Counts(samples, late, others, tallies)

    def close(self) -> None:
        """Close the files, when the kernel does not run any more, and give out no more slots; idempotent."""
        with self._lock if os.getpid() == self._pid else contextlib.nullcontext():
            self._closed = True
            files = [int(file) for file in self._board.descriptors if file >= 0]
            files += [file for file, _ in self._unused]
            self._board.descriptors[:] = -1
            self._unused = []
        for file in files:
            os.close(file)

    def _settle(self) -> None:
        """Make slots of threads that have ended available, and close their files when that is safe."""
        board = self._board
        rounds = int(board.control[ROUNDS])
        while self._left:
            slot = self._left.popleft()
            self._free[self._names[slot]].append(slot)
            if board.descriptors[slot] >= 0:
                # The kernel may have looked the number up just now: closed at once, it might be another file's.
                self._unused.append((int(board.descriptors[slot]), rounds + 2))
                board.descriptors[slot] = -1
        due = [file for file, until in self._unused if rounds >= until]
        self._unused = [(file, until) for file, until in self._unused if rounds < until]
        for file in due:
            os.close(file)

    @staticmethod
    def _open() -> int:
        try:
            return open_calls(threading.get_native_id())
        except OSError:  # too many open files: this thread's waits are not known
            return -1
