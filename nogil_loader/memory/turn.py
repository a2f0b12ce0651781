"""Something that only one thread does at a time, and that no other waits for."""

from __future__ import annotations

import os


class Turn:
    """Taken by whoever comes first; the others are told so at once.

    Take it inside ``try`` and give it back in ``finally``, so that an interrupt between the two lines does not
    keep it for ever::

        mine = object()
        try:
            if not turn.take(mine):
                return
            ...
        finally:
            turn.give_back(mine)

    A signal handler that comes in while its own thread has the turn is one of the others. The child of a fork
    starts with the turn free: the thread that had it is not there.
    """

    __slots__ = ("_takers",)

    def __init__(self) -> None:
        self._takers: dict[int, object] = {}

    def take(self, taker: object) -> bool:
        """Take the turn if it is free, and say whether it was."""
        # One step of the interpreter, which no thread and no signal handler can part.
        return self._takers.setdefault(os.getpid(), taker) is taker

    def give_back(self, taker: object) -> None:
        """Free the turn; nothing happens if it is not the taker's."""
        process = os.getpid()
        if self._takers.get(process) is taker:
            del self._takers[process]
