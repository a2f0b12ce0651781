"""Datasets that nobody has called yet, one after the other, for faults that show only at the first calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nogil_loader.check.twin import twin_of
from nogil_loader.check.usage import dataset_of
from nogil_loader.check.walk import find_handles

# Making a dataset anew for each trial pays if it is quick.
_MAKE_SECONDS = 0.05


class Fresh:
    """Makes datasets like another one, and closes what calls open on them.

    Args:
        dataset: What they are like; its own handles are left alone.
        make: Makes one.
    """

    def __init__(self, dataset: Any, make: Callable[[], Any]) -> None:
        self._dataset = dataset
        self._make = make
        self._unclosed: list[Any] = []

    @classmethod
    def of(cls, dataset: Any, make: Callable[[], Any] | None) -> Fresh | None:
        """Return what makes datasets like this one, which nobody has called yet; None if nothing can.

        Args:
            dataset: The dataset.
            make: Makes another one, or a loader over one; used if this one cannot be copied.
        """
        try:
            pristine = twin_of(dataset)
            return cls(dataset, lambda: twin_of(pristine))
        except Exception:  # noqa: BLE001 - there can be no copy, or attributes raise when they are looked at
            if make is None:
                return None
        made = make
        fresh = cls(dataset, lambda: dataset_of(made()))
        began = time.monotonic()
        try:
            with fresh.lent():
                quick = time.monotonic() - began < _MAKE_SECONDS
        except Exception:  # noqa: BLE001 - it worked once; what it does now is no fault of the dataset's
            return None
        return fresh if quick else None

    @contextmanager
    def lent(self) -> Iterator[Any]:
        """Lend a new dataset for the block; handles that it has then are closed."""
        dataset = self._make()
        try:
            yield dataset
        finally:
            for handle in self.handles(dataset).values():
                if not close(handle):
                    self._unclosed.append(handle)

    def close_rest(self) -> None:
        """Close what could not be closed so far; to be called in each of the threads that read."""
        self._unclosed = [handle for handle in self._unclosed if not close(handle)]

    def handles(self, dataset: Any) -> dict[str, Any]:
        """Return what is open on a new dataset that is not the other one's, by the way there."""
        known = {id(handle) for _, _, handle in find_handles(self._dataset)}
        return {path: handle for path, _, handle in find_handles(dataset) if id(handle) not in known}

    def lost(self, opened: dict[str, Any], dataset: Any) -> Iterator[tuple[str, str]]:
        """Yield handles that are not there any more, though another one is and they are open still; close them.

        Who opens a handle for each call closes it; who opens one for all calls keeps it.

        Args:
            opened: What `handles` returned before.
            dataset: Where they were.
        """
        for path, what, handle in find_handles(dataset):
            old = opened.get(path, handle)
            if old is not handle and type(old) is type(handle) and getattr(old, "closed", None) is False:
                yield path, what
                close(old)


def close(handle: Any) -> bool:
    """Close a file or the like; False if it does not let this thread do that."""
    try:
        handle.close()
    except Exception:  # noqa: BLE001 - someone else's object
        return False
    return True
