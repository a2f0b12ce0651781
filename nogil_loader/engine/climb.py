"""Which value to compare next with the one in use: a climb to where the rate is highest.

The rate is taken to rise towards the best value and to fall beyond it. Twice as many are tried as long as that
gains. Where it does not, fewer are: the least first, because one worker is far slower than several or, where the
GIL is all that counts, the best, so that two intervals mostly tell; then halves. Last comes what lies between the
best value and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Generator

from nogil_loader.engine.trial import Trial

#: How much faster a value has to be to be taken. Less is hard to tell from noise within seconds.
GAIN = 0.04
#: How much slower a smaller value may be where growth may have gone too far.
LOSS = 0.02
# What lies between values that differ by less than this factor is not worth a trial.
_CLOSE = 1.5


def climb(
    here: int, *, least: int, most: int, home: int, fewer_first: bool
) -> Generator[tuple[int, float], Trial, None]:
    """Yield a value and how much faster it has to be to be taken; is sent the trial of it.

    Args:
        here: The value in use.
        least: The smallest to try.
        most: The largest.
        home: The value to which to return from above where that is as fast.
        fewer_first: Try fewer before more, so that a search that is cut short does not always leave out the same.
    """
    start = here
    lower, upper = least - 1, most + 1  # the nearest values that lost, or out of range
    falls = False  # whether the best may lie between here and the neighbour above

    def bar(value: int) -> float:
        return -LOSS if home <= value < here else GAIN

    for fewer in (fewer_first, not fewer_first):
        if here != start:
            break
        if fewer:
            candidate = least
            while lower < candidate < here:
                trial = yield candidate, bar(candidate)
                if trial.won:
                    here, upper, falls = candidate, here, trial.gain > LOSS
                else:
                    lower = candidate
                candidate = (here + 1) // 2
        else:
            while here < most < upper:
                candidate = min(most, 2 * here)
                trial = yield candidate, GAIN
                if trial.won:
                    lower, here = here, candidate
                else:
                    upper, falls = candidate, True
    while True:
        candidate, above = _between(lower, here), _between(here, upper)
        if not lower < candidate < here:
            if not (falls and here < above < upper):
                return
            candidate = above
        trial = yield candidate, bar(candidate)
        if trial.won and candidate < here:
            here, upper, falls = candidate, here, trial.gain > LOSS
        elif trial.won:
            lower, here = here, candidate
        elif candidate < here:
            lower = candidate
        else:
            upper = candidate


def _between(low: int, high: int) -> int:
    """The geometric mean, or ``low`` where there is nothing worth a trial."""
    return round(math.sqrt(low * high)) if high > _CLOSE * low else low
