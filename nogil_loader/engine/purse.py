"""What trying may cost: a purse that is full once, and from then on takes in a share of all time."""

from __future__ import annotations

#: Share of all time for which the consumer may wait because something is tried, beyond the first full purse.
SHARE = 0.03
#: What a full purse holds: seconds, or intervals where those take longer.
SECONDS = 30.0
INTERVALS = 40


class Purse:
    """Seconds that the consumer may wait.

    Attributes:
        spent: Seconds that it has waited: all that trying can have cost it.
    """

    def __init__(self) -> None:
        self.spent = 0.0
        self._size = self._left = SECONDS

    def fit(self, interval: float) -> None:
        """Make room for intervals of so many seconds; what was not used yet is full."""
        self._size = max(SECONDS, INTERVALS * interval)
        self._left = min(self._size, self._left) if self.spent else self._size

    def earn(self, seconds: float) -> None:
        """Take in the share of time in which nothing was tried."""
        self._left = min(self._size, self._left + SHARE * seconds)

    def spend(self, seconds: float) -> None:
        """Pay for time that the consumer waited while something was tried; it may become less than nothing."""
        self._left -= seconds
        self.spent += seconds

    @property
    def fullness(self) -> float:
        """What is left, as a share of a full purse."""
        return self._left / self._size
