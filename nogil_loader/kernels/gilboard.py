"""The arrays that the kernel which watches the GIL shares with the program; without numba.

Each watched thread has a *slot*. Each word is written by one side only, the kernel or the program, and a word of 8
bytes is read as it was written, so no lock stands between the two.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: Slots, so as many threads can be told apart at a time; and stages that they can be at, a power of two.
SLOTS: Final = 256
STAGES: Final = 32

#: What stands where in ``control``. The program writes STOP and USED (the slots in use, from the first), the
#: kernel the others: wake-ups; instants, those of them seen late, those at which a thread without a slot had the
#: GIL; and whether it runs.
STOP, USED, ROUNDS, SAMPLES, LATE, OTHERS, RUNS = range(7)

# Longer than any line about a system call.
_TEXT_BYTES = 256


class GilBoard:
    """The arrays, int64.

    Attributes:
        control: See `STOP`.
        states: For each slot the address of its thread's state in the interpreter; 0 in a free one.
        stages: For each slot what its thread is at, from 0 to ``STAGES - 1``. There is one more, for threads that
            have no slot.
        descriptors: For each slot the file that tells its thread's system call; -1 for none.
        held: At how many samples a thread had the GIL, by slot and stage.
        waits: At how many it was seen to wait for it.
        seen: At how many it was looked at.
        text: Bytes of the kernel's own.
    """

    def __init__(self) -> None:
        self.control = np.zeros(7, np.int64)
        self.states = np.zeros(SLOTS, np.int64)
        self.stages = np.zeros(SLOTS + 1, np.int64)
        self.descriptors = np.full(SLOTS, -1, np.int64)
        self.held = np.zeros(SLOTS * STAGES, np.int64)
        self.waits = np.zeros(SLOTS * STAGES, np.int64)
        self.seen = np.zeros(SLOTS * STAGES, np.int64)
        self.text = np.zeros(_TEXT_BYTES, np.uint8)

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Return them in the order in which the kernel takes them."""
        return (
            *(self.control, self.states, self.stages, self.descriptors),
            *(self.held, self.waits, self.seen, self.text),
        )
