"""The random numbers of a sample are a function of seed, epoch and index, and of nothing else (G4)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Hashable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nogil_loader as nl
from nogil_loader.engine.scope import SampleScope, WorkerInfo, current_scope, current_worker
from nogil_loader.testing import sample_scope

words = st.integers(0, 2**64 - 1)


def draw(seed: int, epoch: int, index: Hashable, count: int = 2) -> list[int]:
    with sample_scope(seed=seed, epoch=epoch, index=index):
        return [int(word) for word in nl.sample_rng().bit_generator.random_raw(count)]


@pytest.mark.parametrize(
    ("seed", "epoch", "index", "raw"),
    [
        (0, 0, 0, [18149214030733288288, 13375312175186300041]),
        (7, 2, 123, [5613406453682936916, 15527532459676973319]),
        (2**64 - 1, 2**64 - 1, -1, [15348717157864856903, 10611128208276213695]),
        (7, 2, "a/b.png", [7681642106180282622, 9447107145770320921]),
        (7, 2, ("a", 1), [2219529701916006350, 14929861635878284960]),
    ],
)
def test_the_numbers_are_pinned_since_what_changes_them_changes_everybodys_augmentations(
    seed: int, epoch: int, index: Hashable, raw: list[int]
) -> None:
    assert draw(seed, epoch, index) == raw


@given(words, words, words)
def test_the_generator_is_philox_keyed_and_counted_as_documented(seed: int, epoch: int, index: int) -> None:
    constant = int.from_bytes(b"nogil_ld", "big")
    philox = np.random.Philox(
        key=np.array([seed, constant], np.uint64), counter=np.array([0, 0, index, epoch], np.uint64)
    )
    assert draw(seed, epoch, index, 9) == [int(word) for word in philox.random_raw(9)]


@given(st.lists(st.tuples(words, words, words | st.text(max_size=3)), min_size=2, max_size=20, unique=True))
def test_any_two_samples_have_different_numbers(places: list[tuple[int, int, Any]]) -> None:
    assert len({tuple(draw(*place)) for place in places}) == len(places)


def test_streams_of_neighbouring_samples_do_not_overlap() -> None:
    # One sample may draw 2**130 words before it comes to the counter of the next one.
    raw = [word for index in range(50) for epoch in range(4) for word in draw(0, epoch, index, 64)]
    assert len(set(raw)) == len(raw)


@pytest.mark.parametrize("index", [np.int64(5), np.uint8(5), np.int16(5)])
def test_an_index_of_numpy_is_the_index(index: Any) -> None:
    assert draw(1, 2, index) == draw(1, 2, 5)


def test_a_sample_continues_its_generator_and_an_index_starts_it_anew() -> None:
    with sample_scope(seed=1, index=3):
        first = nl.sample_rng().random()
        second = nl.sample_rng().random()
        assert nl.sample_rng(3).random() == first != second
        assert nl.sample_rng(3).random(2)[1] == second
        assert nl.sample_rng(4).random() != first
        assert nl.sample_rng() is nl.sample_rng()


def test_the_scope_of_a_sample_by_hand_nests_and_ends() -> None:
    assert current_scope.get() is None
    with sample_scope(seed=1, index=3):
        outer = nl.sample_rng()
        with sample_scope(seed=1, index=4):
            assert nl.sample_rng() is not outer
        assert nl.sample_rng() is outer
    assert current_scope.get() is None
    with pytest.raises(ValueError), sample_scope(seed=1, index=3):
        raise ValueError
    assert current_scope.get() is None


def test_outside_a_loader_sample_rng_says_how_to_try_a_dataset_by_hand() -> None:
    for arguments in ([], [3]):
        with pytest.raises(RuntimeError, match=r"outside a loader.*sample_scope\(seed=0, epoch=0, index=3\)"):
            nl.sample_rng(*arguments)


def test_between_samples_sample_rng_needs_an_index() -> None:
    scope = SampleScope(1, 0)
    token = current_scope.set(scope)
    try:
        for stage in ("", "collate"):
            scope.key = 3
            first = nl.sample_rng().random()
            scope.leave_samples(stage)
            with pytest.raises(RuntimeError, match=r"sample_rng\(index\)"):
                nl.sample_rng()
            assert nl.sample_rng(3).random() == first
    finally:
        current_scope.reset(token)


def test_none_is_a_key_like_any_other() -> None:
    with sample_scope(seed=1, index=None):
        assert nl.sample_rng().random() == nl.sample_rng(None).random()


def test_a_thread_of_user_code_has_a_sample_only_if_it_is_given_the_context() -> None:
    found: list[Any] = []

    def look() -> None:
        try:
            found.append(nl.sample_rng().random())
        except RuntimeError as error:
            found.append(error)

    with sample_scope(seed=1, index=3):
        context = contextvars.copy_context()
        for target in (look, lambda: context.run(look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    with sample_scope(seed=1, index=3):
        expected = nl.sample_rng().random()
    assert isinstance(found[0], RuntimeError)
    assert found[1] == expected


def test_worker_info_shows_no_data_and_cannot_be_changed() -> None:
    info = WorkerInfo(1, 4, 99, [0] * 1000)
    assert repr(info) == "WorkerInfo(id=1, num_workers=4, seed=99)"
    with pytest.raises(FrozenInstanceError):
        info.id = 2  # type: ignore[misc]
    assert nl.get_worker_info() is None
    token = current_worker.set(info)
    assert nl.get_worker_info() is info
    current_worker.reset(token)
