"""Statistics as records of ``logging``: a short message for people, all numbers for machines.

Whoever iterates drives it, between two batches: there is no thread that would have to end with the loader, and
nothing is said of an epoch that is over. The price is that nothing is said while one batch is waited for; the
record after it tells how long that was.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from nogil_loader.checks import as_seconds
from nogil_loader.engine.iterator import LoaderIterator
from nogil_loader.engine.statistics import Statistics
from nogil_loader.errors import describe
from nogil_loader.observe.watching import Watched, WatchedIterator
from nogil_loader.observe.words import duration, notes, rate, share_of_total


class Logbook:
    """Who writes down how an epoch goes.

    Args:
        iterator: The epoch's.
        name: Of the loader; "" for none.
        every: Seconds between two records.
        logger: Where they go.
        level: Of each.
    """

    def __init__(
        self,
        iterator: LoaderIterator | WatchedIterator,
        *,
        name: str,
        every: float,
        logger: logging.Logger,
        level: int,
    ) -> None:
        self.period = every
        self._iterator = iterator
        self._name = name
        self._logger = logger
        self._level = level

    def look(self) -> None:
        """Write a record."""
        self._write("running")

    def leave(self, how: str, *, finalizing: bool = False) -> None:
        """Write the last record. Finalisers of the standard library write to logs as well."""
        self._write(how)

    def _write(self, state: str) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        progress, statistics = self._iterator.progress(), self._iterator.statistics()
        told = [
            f"{share_of_total(progress.items_processed, progress.items_total)} samples",
            f"{duration(statistics.seconds)} at {rate(statistics.samples_per_second)}",
            *notes(statistics),
        ]
        if state != "running":
            told.insert(0, state)
        name = f"{self._name} epoch" if self._name else "epoch"
        numbers = {
            "loader": self._name,
            "state": state,
            "samples_done": progress.items_processed,
            "samples_total": progress.items_total,
            **numbers_of(statistics),
        }
        self._logger.log(
            self._level,
            "%s %d: %s",
            name,
            statistics.epoch,
            ", ".join(told),
            extra={"nogil_loader": numbers},
        )


def numbers_of(statistics: Statistics) -> dict[str, Any]:
    """Return statistics as a dict of JSON types; what happened when is left out, as it would grow."""
    numbers = asdict(statistics)
    del numbers["tuning"]
    if numbers["memory"] is not None:
        del numbers["memory"]["events"]
    return {
        **numbers,
        "consumer_wait_share": statistics.consumer_wait_share,
        "bottleneck": statistics.bottleneck,
    }


def log_statistics(
    loader: Any,
    *,
    name: str = "",
    every: float = 30.0,
    logger: logging.Logger | None = None,
    level: int | str = logging.INFO,
) -> Watched:
    """Iterate a loader and log how each epoch goes: once in a while, and at its end.

    The batches are the loader's, and so are errors. The message of a record is short; all numbers are in its
    attribute ``nogil_loader``, a dict of JSON types, as other values given by ``extra=`` are. Its ``state`` is
    ``"running"``, ``"complete"``, ``"failed"`` or ``"stopped"``.

    Args:
        loader: A `DataLoader` or an iterator of one; or what `progress` returned.
        name: What to call the loader.
        every: Seconds between two records; 0 for one with each batch.
        logger: Where they go, by default ``logging.getLogger("nogil_loader.statistics")``.
        level: Their level, a number or a name.

    Returns:
        What to iterate, or to give to `progress`.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: ``every`` is no number of seconds, or ``level`` is unknown.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={describe(name, 100)}: expected a string, not {type(name).__name__}")
    if logger is None:
        logger = logging.getLogger("nogil_loader.statistics")
    elif not isinstance(logger, logging.Logger):
        raise TypeError(
            f"logger={describe(logger, 100)}: expected a logging.Logger, not {type(logger).__name__}"
        )
    seconds, number, book = as_seconds("every", every), _level(level), logger

    def begin(iterator: LoaderIterator | WatchedIterator) -> Logbook:
        return Logbook(iterator, name=name, every=seconds, logger=book, level=number)

    return Watched(loader, begin)


def _level(level: Any) -> int:
    if isinstance(level, str):
        levels = logging.getLevelNamesMapping()
        if level not in levels:
            raise ValueError(f"level={level!r}: expected a number or one of {', '.join(levels)}")
        return levels[level]
    if not isinstance(level, int) or isinstance(level, bool):
        raise TypeError(
            f"level={describe(level, 100)}: expected a number or a name, not {type(level).__name__}"
        )
    return level
