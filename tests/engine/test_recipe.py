"""A worker's loop over the samples of a ticket: copied at once, none held, and known at every moment."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, default_collate, pad_collate
from nogil_loader.data.protocols import SampleStream
from nogil_loader.engine.outcome import Failure, Loaded, Outcome
from nogil_loader.engine.recipe import Recipe
from nogil_loader.engine.scope import COLLATE, FETCH, SampleScope
from nogil_loader.engine.ticket import Ticket
from nogil_loader.errors import CollateError

KEYS = ["p", "q", "r", "s"]


class Calls:
    """A dataset whose samples are what a function makes of their keys."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return len(KEYS)

    def __getitem__(self, key: Any) -> Any:
        return self.make(key)


class Streamed(SampleStream, Calls):
    """The same, given out by a stream."""

    @property
    def stream(self) -> Callable[[Sequence[Any]], Iterator[Any]]:
        return lambda indices: map(self.make, indices)


def load(dataset: Any, scope: SampleScope, collate: DefaultCollate = default_collate) -> Outcome:
    return Recipe(collate).bind(dataset).attempt(Ticket(0, 0, len(KEYS), KEYS), scope, 1)


@pytest.mark.parametrize("kind", [Calls, Streamed])
@pytest.mark.parametrize("collate", [default_collate, pad_collate(returns="values")])
def test_each_sample_is_copied_and_let_go_of_before_the_next_is_made(
    kind: type[Calls], collate: DefaultCollate
) -> None:
    made: list[weakref.ref[Any]] = []

    def make(key: str) -> Any:
        assert all(sample() is None for sample in made)
        sample = np.full(3, KEYS.index(key))
        made.append(weakref.ref(sample))
        return sample

    outcome = load(kind(make), SampleScope(0, 0), collate)
    assert isinstance(outcome, Loaded), outcome
    assert outcome.batch.tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]
    assert len(made) == 4


@pytest.mark.parametrize("kind", [Calls, Streamed])
def test_the_scope_names_the_sample_that_is_being_made(kind: type[Calls]) -> None:
    scope = SampleScope(0, 0)
    seen: list[Any] = []

    def make(key: str) -> int:
        seen.append((scope.offset, scope.key, scope.generator, scope.stage))
        scope.generator = np.random.default_rng(0)  # as sample_rng() does
        return 7

    outcome = load(kind(make), scope)
    assert isinstance(outcome, Loaded), outcome
    assert outcome.batch.tolist() == [7] * 4
    assert seen == [(at, key, None, FETCH) for at, key in enumerate(KEYS)]
    assert (scope.offset, scope.generator) == (None, None)


@pytest.mark.parametrize("kind", [Calls, Streamed])
@pytest.mark.parametrize("at", range(4))
def test_a_sample_that_raises_is_blamed_and_so_is_one_that_does_not_fit(kind: type[Calls], at: int) -> None:
    def raising(key: str) -> int:
        if key == KEYS[at]:
            raise LookupError(key)
        return 7

    outcome = load(kind(raising), SampleScope(0, 0))
    assert isinstance(outcome, Failure)
    assert (type(outcome.cause), outcome.offset, outcome.during) == (LookupError, at, FETCH)

    outcome = load(kind(lambda key: None if key == KEYS[at] else 7), SampleScope(0, 0))
    assert isinstance(outcome, Failure)
    assert (type(outcome.cause), outcome.offset, outcome.during) == (CollateError, at, COLLATE)
    assert f"sample '{KEYS[at]}' (position {at} in the batch) is None" in str(outcome.cause)


def test_the_method_in_force_is_called_also_when_it_is_replaced_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kitchen = Recipe(default_collate).bind(Calls(lambda key: 1))
    monkeypatch.setattr(Calls, "__getitem__", lambda self, key: 2)
    outcome = kitchen.attempt(Ticket(0, 0, len(KEYS), KEYS), SampleScope(0, 0), 1)
    assert isinstance(outcome, Loaded), outcome
    assert outcome.batch.tolist() == [2] * 4
