"""`resilient`: an epoch goes on with a new loader where the old one died, and is the undisturbed one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from nogil_loader import DataLoader, DeadWorkerError, resilient
from tests.conftest import loader_threads
from tests.faults.traps import (
    KINDS,
    MAP_KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Spring,
    Trap,
    cut,
    indices,
    make,
    raises,
    safe,
    stream,
)


class Connection:
    """What a dataset object holds and cannot repair: once it is lost, every sample fails."""

    def __init__(self, lost_at: set[int]) -> None:
        self.lost_at = lost_at
        self.lost = False

    def __call__(self, index: int) -> None:
        if index in self.lost_at:
            self.lost_at.remove(index)
            self.lost = True
        if self.lost:
            raise ConnectionError(index)


def factory(kind: str, new_trap: Callable[[], Spring], **arguments: Any) -> Callable[[], DataLoader]:
    made: list[DataLoader] = []

    def make_loader() -> DataLoader:
        made.append(DataLoader(make(kind, 30, new_trap()), batch_size=4, **arguments))
        return made[-1]

    make_loader.made = made  # type: ignore[attr-defined]
    return make_loader


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
def test_an_epoch_survives_what_only_a_new_dataset_cures(kind: str, workers: int) -> None:
    lost_at = {5, 6, 29}
    arguments: dict[str, Any] = {"shuffle": True, "seed": 2, "num_workers": workers}
    make_loader = factory(kind, lambda: Connection(lost_at), **arguments)
    expected = stream(DataLoader(Samples(30), batch_size=4, shuffle=True, seed=2, num_workers=0))
    assert stream(resilient(make_loader)) == expected
    assert len(make_loader.made) == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_seed_that_is_not_given_is_taken_over(workers: int) -> None:
    lost_at = {7, 8}
    make_loader = factory("samples", lambda: Connection(lost_at), shuffle=True, num_workers=workers)
    received = [index for batch in resilient(make_loader) for index in indices(batch)]
    assert sorted(received) == list(range(30))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", MAP_KINDS)
@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_a_position_at_which_every_loader_dies_raises_after_that_many_restarts(
    restarts: int, kind: str, workers: int
) -> None:
    error = ValueError("always")
    trap = Trap(raises(error), at={9})
    make_loader = factory(kind, lambda: trap, num_workers=workers)
    received = []
    with pytest.raises(DeadWorkerError) as caught:
        for batch in resilient(make_loader, restarts=restarts):
            received.append(indices(batch))  # noqa: PERF401 - what came before the error counts
    assert received == cut(30, 4)[:2]
    assert caught.value.__cause__ is error
    assert trap.visits[9] == restarts + 1
    assert len(make_loader.made) == restarts + 1  # type: ignore[attr-defined]


def test_deaths_are_counted_for_each_position_anew() -> None:
    trap = Trap(raises(ValueError), at={0, 4, 8, 12, 16, 20}, times=3)
    make_loader = factory("samples", lambda: trap, num_workers=1)
    assert [indices(batch) for batch in resilient(make_loader, restarts=3)] == cut(30, 4)
    assert len(make_loader.made) == 1 + 6 * 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [KeyError, RuntimeError])
def test_errors_that_are_no_death_pass_through(error: type[Exception], kind: str) -> None:
    make_loader = factory(kind, lambda: safe, num_workers=1)
    batches = resilient(make_loader)
    next(batches)
    with pytest.raises(error):
        batches.throw(error())  # type: ignore[attr-defined]
    assert len(make_loader.made) == 1  # type: ignore[attr-defined]


def test_leaving_early_closes_the_loader() -> None:
    before = loader_threads()
    batches = resilient(factory("samples", lambda: safe, num_workers=3))
    next(batches)
    mine = loader_threads() - before
    assert len(mine) == 3
    batches.close()  # type: ignore[attr-defined]
    for thread in mine:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_each_restart_is_logged_with_its_position(caplog: pytest.LogCaptureFixture) -> None:
    trap = Trap(raises(ValueError("damaged")), at={9}, times=1)
    with caplog.at_level(logging.INFO, logger="nogil_loader"):
        list(resilient(factory("samples", lambda: trap, num_workers=1)))
    (record,) = [record for record in caplog.records if "new loader" in record.message]
    assert "at sample 8" in record.message
    assert "damaged" in record.message


def test_nothing_is_made_before_the_first_batch_is_asked_for() -> None:
    def make_loader() -> NoReturn:
        raise OSError("no disk")

    batches = resilient(make_loader)
    with pytest.raises(OSError, match="no disk"):
        next(batches)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"make_loader": 3}, TypeError, "make_loader=3"),
        ({"make_loader": list, "restarts": -1}, ValueError, "restarts=-1"),
        ({"make_loader": list, "restarts": True}, TypeError, "restarts=True"),
    ],
)
def test_bad_arguments_are_refused_at_once(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        resilient(**arguments)


def test_a_factory_that_makes_no_loader_is_refused() -> None:
    with pytest.raises(TypeError, match="make_loader returned list"):
        list(resilient(list))  # type: ignore[arg-type]
