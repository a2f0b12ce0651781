"""Tells the board which thread is which, and what it is at."""

from __future__ import annotations

import threading

from nogil_loader.engine.listening import Listener, remove_listener
from nogil_loader.engine.scope import CONVERT
from nogil_loader.kernels.gilboard import GilBoard
from nogil_loader.observe.gil.report import HAND_OFF, WORKER
from nogil_loader.observe.gil.roster import Roster, Seat

# As statistics call it.
_NAMES = {CONVERT: "convert"}


class Recorder(Listener):
    """Listens to all loaders of the process.

    Args:
        board: Where stages are written to.
        roster: Gives threads their slots.
    """

    def __init__(self, board: GilBoard, roster: Roster) -> None:
        self._stages = board.stages.data  # takes half as long to write to as an array
        self._roster = roster
        self._threads = threading.local()
        self._codes: dict[str, int] = {}
        self._over = False

    def sit(self, name: str, base: str) -> Seat:
        """Give the calling thread a slot, in place of the one that it has."""
        vars(self._threads).pop(
            "seat", None
        )  # gives it back, before another one is taken for the same thread
        self._threads.seat = seat = self._roster.take(name, base)
        return seat

    def enter(self, worker: int | str, stage: str, at: float) -> None:
        """Note the calling thread's stage."""
        try:
            seat: Seat = self._threads.seat
        except AttributeError:
            seat = self.sit(f"{WORKER}{worker}" if isinstance(worker, int) else worker, HAND_OFF)
        if not stage:
            code = seat.base
        elif (known := self._codes.get(stage)) is not None:
            code = known
        else:
            code = self._codes[stage] = self._roster.code(_NAMES.get(stage, stage))
        self._stages[seat.slot] = code
        if self._over:
            remove_listener(self)

    def end_later(self) -> None:
        """Listen no more from the next call on. Safe in a finaliser: it takes no lock."""
        self._over = True
