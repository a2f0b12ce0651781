"""Numbers as a reader sees them: thin separators, units, and a dash for what is no number."""

from __future__ import annotations

import math

from nogil_loader.errors import describe_bytes

#: Between thousands, and between a number and its unit: narrow, and no line breaks there.
THIN = "\N{NARROW NO-BREAK SPACE}"
#: In place of a number that was not measured.
NOTHING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"
# Beyond these a number is written with an exponent: it is a mistake, and should not be as wide as the page.
_MOST, _LEAST = 1e12, 1e-4


def is_number(value: float | None) -> bool:
    """Whether there is something to draw or write: neither None nor infinite nor not a number."""
    return value is not None and math.isfinite(value)


def number(value: float | None) -> str:
    """Return three digits of a number, all digits before the point: ``12 345``, ``4.27``, ``0.0120``.

    An integer is written as it is.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if isinstance(value, int) and size < _MOST:
        text = f"{size:,}".replace(",", THIN)
    elif size == 0:
        text = "0"
    elif size >= _MOST or size < _LEAST:
        text = f"{size:.2e}"
    elif size >= 99.95:
        text = f"{size:,.0f}".replace(",", THIN)
    else:
        # The decimals of what it is when rounded to three digits: 9.999 is 10.0, not 10.00.
        rounded = float(f"{size:.2e}")
        text = f"{rounded:.{2 - math.floor(math.log10(rounded))}f}"
    return _MINUS + text if value < 0 else text


def with_unit(value: float | None, unit: str) -> str:
    """Return a number and its unit, or the dash alone."""
    return f"{number(value)}{THIN}{unit}" if is_number(value) else NOTHING


def rate(value: float | None) -> str:
    """Return samples per second."""
    return with_unit(value, "samples/s")


def share(value: float | None) -> str:
    """Return a share from 0 to 1 in per cent; what is above zero is never written as zero."""
    if value is None or not math.isfinite(value):
        return NOTHING
    percent = 100 * value
    if 0 < percent < 1:
        return f"<{THIN}1{THIN}%"
    return f"{percent:.0f}{THIN}%".replace("-", _MINUS)


def change(value: float | None) -> str:
    """Return a share as what was gained or lost, with its sign: ``+3.2 %``."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{100 * value:+.1f}{THIN}%".replace("-", _MINUS)


def seconds(value: float | None) -> str:
    """Return a time in the unit that suits it."""
    if value is None or not math.isfinite(value):
        return NOTHING
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= size:
            return with_unit(value / size, unit)
    return with_unit(value / 1e-6, "µs")


def nbytes(value: float | None) -> str:
    """Return a number of bytes in decimal units."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return describe_bytes(int(value)).replace(",", THIN).replace(" ", THIN)


def times(value: float | None) -> str:
    """Return a ratio, with the sign of multiplication behind it."""
    return f"{number(value)}\N{MULTIPLICATION SIGN}" if is_number(value) else NOTHING
