"""Sums over epochs lose nothing, whichever way an epoch ends and whoever looks when."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nogil_loader as nl
from nogil_loader.engine.snapshot import snapshot
from nogil_loader.engine.statistics import StageSeconds, Statistics
from nogil_loader.engine.totals import Life, Totals
from tests.loading import Numbers
from tests.scripts import RunScript

EPOCH = Statistics(
    delivered=10,
    skipped=2,
    batches=3,
    nbytes=400,
    rebuilds=1,
    abandoned=1,
    seconds=1.5,
    consumer_wait=0.5,
    stages=StageSeconds(fetch=1.0, idle=2.0),
)


def life_of_told() -> Life[Any]:
    return Life(lambda epoch: epoch.now)


class Told:
    """An epoch that tells what it was told to tell."""

    def __init__(self) -> None:
        self.closed = False
        self.now = Statistics()


def test_before_the_first_epoch_all_sums_are_zero() -> None:
    assert life_of_told().totals == Totals()
    assert all(not getattr(Totals(), field.name) for field in fields(Totals) if field.name != "stages")


def test_an_epoch_counts_with_every_number() -> None:
    totals = Totals.of(EPOCH)
    assert (totals.epochs, totals.delivered, totals.skipped, totals.batches) == (1, 10, 2, 3)
    assert (totals.nbytes, totals.rebuilds, totals.abandoned) == (400, 1, 1)
    assert (totals.seconds, totals.consumer_wait, totals.stages) == (1.5, 0.5, EPOCH.stages)
    twice = totals + totals
    assert twice.stages == StageSeconds(fetch=2.0, idle=4.0)
    for field in fields(Totals):
        if field.name != "stages":
            assert getattr(twice, field.name) == 2 * getattr(totals, field.name)


@given(st.data())
def test_what_epochs_did_is_in_the_sums_at_any_time(data: st.DataObject) -> None:
    """Epochs begin, go on, overlap and end in any order, and sums are asked for now and then."""
    life, live, delivered, begun = life_of_told(), [], 0, 0
    for _ in range(data.draw(st.integers(0, 30))):
        step = data.draw(st.sampled_from(["begin", "deliver", "end", "look"]))
        if step == "begin":
            live.append(Told())
            life.begin(live[-1])
            begun += 1
        elif step == "look":
            assert (life.totals.epochs, life.totals.delivered) == (begun, delivered)
        elif live:
            epoch: Any = data.draw(st.sampled_from(live))
            if step == "deliver":
                epoch.now = replace(epoch.now, delivered=epoch.now.delivered + 1)
                delivered += 1
            else:
                epoch.closed = True
                live.remove(epoch)
    assert (life.totals.epochs, life.totals.delivered) == (begun, delivered)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs_of_a_loader_add_up_however_they_end(num_workers: int) -> None:
    life = Life(snapshot)
    with nl.DataLoader(Numbers(12), 2, num_workers=num_workers) as loader:

        def begin() -> nl.LoaderIterator:
            iterator = iter(loader)
            life.begin(iterator._run)
            return iterator

        list(begin())
        left = begin()
        next(left)
        del left
        one, other = begin(), begin()
        next(one)
        next(other)
        next(one)
        assert (life.totals.epochs, life.totals.delivered, life.totals.batches) == (4, 20, 10)
        one.close()
        list(other)
    assert (life.totals.epochs, life.totals.delivered, life.totals.batches) == (4, 30, 15)
    assert not life._epochs
    assert life.totals.seconds > 0
    assert life.totals == life.totals


def test_a_child_of_a_fork_can_ask_although_somebody_was_asking(run_script: RunScript) -> None:
    result = run_script(
        """
        import os
        from nogil_loader.engine.totals import Life, Totals
        life = Life(lambda epoch: epoch)
        with life._lock:
            child = os.fork()
            if not child:
                assert life.totals == Totals()
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert (result.returncode, result.stderr) == (0, "")
