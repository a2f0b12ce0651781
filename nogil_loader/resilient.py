"""Going on with a new loader when one has died."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from nogil_loader.checks import as_count
from nogil_loader.errors import DeadWorkerError
from nogil_loader.loader import DataLoader

logger = logging.getLogger("nogil_loader")


def resilient(make_loader: Callable[[], DataLoader], *, restarts: int = 3) -> Iterator[Any]:
    """Iterate an epoch of a loader made by a factory; when it dies, make a new one and go on where it stopped.

    The batches are those of an undisturbed epoch: each new loader continues at the first sample that was
    not delivered. This helps where a rebuilt worker does not, because what is broken belongs to the dataset
    object (a lost connection, a closed file), which the factory makes anew.

    Args:
        make_loader: Returns a new loader, with the same data and arguments each time. A seed that is not
            given is taken over from the first one.
        restarts: How many loaders in a row may die at the same position before the error is raised.

    Yields:
        Batches.

    Raises:
        DeadWorkerError: More than ``restarts`` new loaders died at one position.
        TypeError: ``make_loader`` is not callable, or returned no `DataLoader`.
        ValueError: ``restarts`` is negative.
    """
    if not callable(make_loader):
        raise TypeError(f"make_loader={make_loader!r}: expected a callable that returns a DataLoader")
    return _epoch(make_loader, as_count("restarts", restarts, least=0))


def _epoch(make_loader: Callable[[], DataLoader], restarts: int) -> Iterator[Any]:
    state: dict[str, Any] | None = None
    deaths = 0
    while True:
        with _made(make_loader) as loader:
            if state is not None:
                loader.load_state_dict(state)
            try:
                yield from loader
                return
            except DeadWorkerError as error:
                position = loader.state_dict()
                deaths = 1 if position != state else deaths + 1
                if deaths > restarts:
                    raise
                logger.info(
                    "a new loader goes on at sample %d: %s",
                    position["received"],
                    error.args[0].partition("\n")[0],
                )
                state = position


def _made(make_loader: Callable[[], DataLoader]) -> DataLoader:
    loader = make_loader()
    if not isinstance(loader, DataLoader):
        raise TypeError(f"make_loader returned {type(loader).__name__}: expected a new DataLoader")
    return loader
