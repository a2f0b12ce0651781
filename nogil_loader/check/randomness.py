"""The sources of random numbers that threads share: set, compared and put back.

A loader neither reads nor changes them. A dataset that does gets numbers that depend on which thread draws first.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nogil_loader.check.fingerprint import digest_of
from nogil_loader.check.walk import generators_of

#: Sources that belong to the program, with what the report calls them.
PYTHON, NUMPY, TORCH = "random", "numpy.random", "torch's global generator"
GLOBAL = (PYTHON, NUMPY, TORCH)

_MASK32 = 2**32 - 1


@dataclass(frozen=True)
class Source:
    """One generator: how it is set to a seed, and how its state is read and put back."""

    name: str
    seed: Callable[[int], object]
    read: Callable[[], Any]
    write: Callable[[Any], object]


class Randomness:
    """All sources that a dataset might draw from.

    Args:
        dataset: Looked through for generators of its own.
    """

    def __init__(self, dataset: Any) -> None:
        self._own = [_own_source(path, generator) for path, generator in generators_of(dataset)]

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the dataset's own generators."""
        return tuple(source.name for source in self._own)

    def seed(self, number: int) -> None:
        """Set every source to a state that follows from a number."""
        for source in self._sources():
            source.seed(number & _MASK32)

    def read(self) -> dict[str, Any]:
        """Return the states of all sources."""
        return {source.name: source.read() for source in self._sources()}

    def write(self, states: dict[str, Any]) -> None:
        """Put states back."""
        for source in self._sources():
            if source.name in states:
                source.write(states[source.name])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leave all sources as they were before, whatever happens in the block."""
        states = self.read()
        try:
            yield
        finally:
            self.write(states)

    def _sources(self) -> list[Source]:
        torch = sys.modules.get("torch")
        # A module that is being imported by a sample has no generator yet.
        generator = getattr(torch, "default_generator", None)
        loaded = [] if generator is None else [_torch_source(TORCH, generator)]
        return [_PYTHON_SOURCE, _NUMPY_SOURCE, *loaded, *self._own]


def changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """Return the names of the sources whose states differ, each with a digest of the state afterwards."""
    return tuple(
        (name, _digest(after[name]))
        for name in before
        if name in after and not _is_equal(before[name], after[name])
    )


def _digest(state: Any) -> bytes:
    if isinstance(state, dict):
        return digest_of(*(_digest(state[key]) for key in sorted(state)))
    return digest_of(state.tobytes() if isinstance(state, np.ndarray) else repr(state).encode())


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)


def _own_source(path: str, generator: Any) -> Source:
    if isinstance(generator, random.Random):
        return Source(path, generator.seed, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.Generator | np.random.RandomState):
        return _numpy_source(path, _bit_generator_of(generator))
    return _torch_source(path, generator)


def _bit_generator_of(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return generator._bit_generator  # there is no public name for it
    return generator.bit_generator


def _numpy_source(path: str, bits: Any) -> Source:
    def write(state: Any) -> None:
        bits.state = state

    return Source(path, lambda number: write(type(bits)(number).state), lambda: bits.state, write)


def _torch_source(path: str, generator: Any) -> Source:
    def write(state: bytes) -> None:
        torch = sys.modules["torch"]
        generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    return Source(path, generator.manual_seed, lambda: generator.get_state().numpy().tobytes(), write)


_PYTHON_SOURCE = Source(PYTHON, random.seed, random.getstate, random.setstate)
_NUMPY_SOURCE = Source(
    NUMPY, np.random.seed, lambda: np.random.get_state(legacy=False), lambda state: np.random.set_state(state)
)
