"""Where values stand on an axis that begins at zero, and its round ticks. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nogil_loader.bench.report.numbers import THIN

# An axis is never longer or shorter than this: beyond it, a value is a mistake, and is drawn at the end.
_LONGEST, _SHORTEST = 1e18, 1e-9
# Room above the highest value, so that a marker is not cut.
_HEADROOM = 1.06
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# From here on ticks are written in thousands: "10 k" instead of "10 000".
_IN_THOUSANDS = 1e4


@dataclass(frozen=True)
class Scale:
    """Maps 0 to ``start`` and ``top`` to ``end``; what lies outside is drawn at the nearer end.

    Attributes:
        top: The highest value.
        start, end: Places in a drawing.
    """

    top: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return where a finite value stands."""
        return self.start + (self.end - self.start) * min(1.0, max(0.0, value / self.top))


def choose_top(values: Iterable[float], *, headroom: float = _HEADROOM) -> float:
    """Return what an axis has to reach, a little more than the highest finite value; 1 for none above 0."""
    highest = max((value for value in values if math.isfinite(value)), default=0.0)
    return 1.0 if highest < _SHORTEST else min(_LONGEST, headroom * highest)


def choose_ticks(top: float, most: int, *, whole: bool = False) -> tuple[float, ...]:
    """Return round values from 0 to at most ``top``: multiples of 1, 2 or 5 times a power of ten.

    Args:
        top: A value above 0.
        most: How many there may be, 3 or more; there are at least two, if ``whole`` leaves room for them.
        whole: Integers only.
    """
    exponent = math.floor(math.log10(top)) - 2
    if whole:
        exponent = max(0, exponent)
    while True:
        for digit in (1, 2, 5):
            # Written and read again, since 3 * 0.1 is not 0.3.
            step = float(f"{digit}e{exponent}")
            if top / step < most:
                count = math.floor(top / step) + 1
                every = (float(f"{digit * at}e{exponent}") for at in range(count))
                return tuple(value for value in every if value <= top)
        exponent += 1


def label_ticks(ticks: Sequence[float], unit: str = "") -> tuple[str, ...]:
    """Return the ticks as text, all with the same prefix and as many decimals as tell them apart.

    Args:
        ticks: As `choose_ticks` returns them.
        unit: Behind each number but 0: ``"B"``, ``"s"`` or ``""``; ``"%"`` writes shares in per cent.
    """
    highest = max(ticks)
    factor, prefix = 1.0, ""
    if unit == "%":
        factor = 0.01
    elif unit != "s":
        least = 1e3 if unit else _IN_THOUSANDS
        factor, prefix = next((each for each in _PREFIXES if highest >= max(least, each[0])), (1.0, ""))
    step = (ticks[1] if len(ticks) > 1 else 1.0) / factor
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    suffix = f"{THIN}{prefix}{unit}" if prefix or unit else ""
    return tuple(
        "0" if tick == 0 else f"{tick / factor:,.{decimals}f}".replace(",", THIN) + suffix for tick in ticks
    )


def keep_apart(places: Sequence[float], widths: Sequence[float], gap: float) -> tuple[int, ...]:
    """Return which labels can be drawn without touching, centred at ascending places.

    The last one always is, since it says how far the axis goes; then as many as possible from the first on.
    """
    if not places:
        return ()
    last = len(places) - 1
    right = places[last] - widths[last] / 2 - gap
    kept, free = [], -math.inf
    for at in range(last):
        left, end = places[at] - widths[at] / 2, places[at] + widths[at] / 2
        if left >= free and end <= right:
            kept.append(at)
            free = end + gap
    return (*kept, last)


def thin_out(points: Sequence[tuple[float, float]], most: int) -> tuple[tuple[float, float], ...]:
    """Return at most ``2 * most`` of many points: the lowest and the highest of each stretch, in their order.

    Points that are not finite are left out.
    """
    sound = [point for point in points if math.isfinite(point[0]) and math.isfinite(point[1])]
    if len(sound) <= 2 * most:
        return tuple(sound)
    kept: list[tuple[float, float]] = []
    for number in range(most):
        begin, end = number * len(sound) // most, (number + 1) * len(sound) // most
        stretch = range(begin, end)
        ends = {min(stretch, key=lambda at: sound[at][1]), max(stretch, key=lambda at: sound[at][1])}
        kept.extend(sound[at] for at in sorted(ends))
    return tuple(kept)
