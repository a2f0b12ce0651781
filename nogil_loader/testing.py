"""Tools for testing code that runs inside a loader."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from nogil_loader.engine.scope import SampleScope, current_scope


@contextmanager
def sample_scope(*, seed: int, epoch: int = 0, index: Hashable) -> Iterator[None]:
    """Run a dataset's code by hand as if a loader were loading the sample ``index``.

    Inside, ``nogil_loader.sample_rng()`` gives exactly the numbers that a loader with this seed gives in this
    epoch.

    Example:
        ``with sample_scope(seed=0, epoch=2, index=7): sample = dataset[7]``
    """
    scope = SampleScope(seed, epoch)
    scope.key = index
    token = current_scope.set(scope)
    try:
        yield
    finally:
        current_scope.reset(token)
