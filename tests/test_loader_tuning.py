"""G4 with ``num_workers="auto"``: whatever the tuner decides, and whenever, the stream is that of a fixed number.

A tuner that follows a script changes the setting at every look, so that a short epoch sees many changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nogil_loader as nl
from nogil_loader.engine.autotune import Autotune
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.engine.tuner import Tuner
from nogil_loader.engine.tuning import Interval, Setting, TuningEvent, most_workers
from tests.conftest import loader_threads
from tests.faults.test_threads_left import gone
from tests.faults.traps import Samples, Trap, cut, indices, killed, make, raises, until_death
from tests.loading import Noisy, Numbers, Stream

SETTINGS = st.builds(Setting, num_workers=st.integers(1, 6), prefetch_factor=st.integers(1, 4))


class Script(Tuner):
    """Says the settings of a script one after the other, again and again."""

    def __init__(self, script: Sequence[Setting]) -> None:
        super().__init__(start=script[0].num_workers, most=64)
        self._script = itertools.cycle(script)
        self.setting = next(self._script)
        self.intervals: list[Interval] = []
        self.told: list[TuningEvent] = []
        self.least_batches = 0

    @property
    def events(self) -> tuple[TuningEvent, ...]:
        return tuple(self.told)

    def enough(self, batches: int, seconds: float) -> bool:
        return batches >= self.least_batches

    def begin_epoch(self) -> None:
        pass

    def observe(self, interval: Interval) -> Setting:
        self.intervals.append(interval)
        before, self.setting = self.setting, next(self._script)
        at = float(len(self.intervals))
        change = before.num_workers, self.setting.num_workers
        self.told.append(TuningEvent(at, "num_workers", *change, "the script says so"))
        return self.setting


def tuned(loader: nl.DataLoader, script: Sequence[Setting]) -> tuple[nl.DataLoader, Script]:
    """Let a loader be tuned by a script."""
    tuner = Script(script)
    loader._autotune = loader._staff.autotune = Autotune(tuner, 64, period=0.0)
    return loader, tuner


def stream_of(loader: Iterable[Any]) -> list[Any]:
    return [{key: value.tolist() for key, value in batch.items()} for batch in loader]


@given(st.lists(SETTINGS, min_size=1, max_size=8), st.integers(1, 7), st.booleans())
@settings(max_examples=30, deadline=None)
def test_g4_batches_are_the_same_whatever_the_tuner_does(
    script: list[Setting], batch_size: int, shuffle: bool
) -> None:
    def make_loader(**options: Any) -> nl.DataLoader:
        return nl.DataLoader(Noisy(60), batch_size, shuffle, seed=7, **options)

    expected = stream_of(make_loader(num_workers=0))
    loader, _ = tuned(make_loader(num_workers="auto"), script)
    with loader:
        assert stream_of(loader) == expected
        assert stream_of(loader) != expected or not shuffle  # the next epoch has its own order
        loader.set_epoch(0)
        assert stream_of(loader) == expected


@given(st.lists(SETTINGS, min_size=2, max_size=6))
@settings(max_examples=15, deadline=None)
def test_g1_an_iterable_is_delivered_once_and_in_order(script: list[Setting]) -> None:
    loader, _ = tuned(nl.DataLoader(Stream(101), 4, num_workers="auto"), script)
    with loader:
        assert [value for batch in loader for value in batch.tolist()] == list(range(101))


@pytest.mark.parametrize("kind", ["samples", "batches", "stream"])
def test_g1_workers_that_die_while_their_number_changes_lose_nothing(kind: str) -> None:
    trap = Trap(killed(), {5, 11, 23, 42, 77}, times=1)
    script = [Setting(count, 1) for count in (4, 1, 6, 2, 1, 3)]
    loader, _ = tuned(
        nl.DataLoader(make(kind, 100, trap), 3, num_workers="auto", on_failure="rebuild"), script
    )
    with loader:
        assert [indices(batch) for batch in loader] == cut(100, 3)
        assert loader.statistics().rebuilds == 5


def test_g3_an_error_comes_after_the_batches_before_it_and_names_its_worker() -> None:
    script = [Setting(count, 2) for count in (1, 5, 2, 4)]
    data = Samples(60, Trap(raises(ValueError("bad")), {31}))
    loader, _ = tuned(nl.DataLoader(data, 4, num_workers="auto"), script)
    with loader:
        batches, death = until_death(loader)
    assert batches == cut(60, 4)[:7]
    assert death.index == 31
    assert isinstance(death.worker_id, int)


def test_g1_a_leaving_worker_that_vanishes_gives_its_ticket_back() -> None:
    """It is in no place any more that the pool looks at, but what it was loading is not lost."""
    held, leave = threading.Event(), threading.Event()

    class Held(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 1 and not held.is_set():
                held.set()
                assert leave.wait(20)
                raise SystemExit  # a rebuild, were the worker still in its place
            return index

    loader = nl.DataLoader(Held(8), 1, num_workers="auto", on_failure="rebuild", prefetch_factor=1)
    loader, _ = tuned(loader, [Setting(2, 1), Setting(1, 1)])
    with loader:
        iterator = iter(loader)
        assert held.wait(20)
        pool = cast("Any", iterator._crew).pool
        pool.resize(1)
        leave.set()
        assert [int(batch[0]) for batch in iterator] == list(range(8))


def test_g8_nothing_is_left_of_workers_that_came_and_went() -> None:
    before = loader_threads()
    script = [Setting(count, 1) for count in (8, 1, 5, 2)]
    loader, tuner = tuned(nl.DataLoader(Samples(200), 2, num_workers="auto"), script)
    for _ in range(3):
        assert [indices(batch) for batch in loader] == cut(200, 2)
    assert len(tuner.intervals) > 4
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    loader.close()
    assert gone(loader_threads() - before)


def test_g8_closing_in_the_middle_of_changes_ends_those_that_leave_too() -> None:
    before = loader_threads()
    for taken in range(12):
        loader, _ = tuned(nl.DataLoader(Samples(60), 1, num_workers="auto"), [Setting(6, 1), Setting(1, 1)])
        iterator = iter(loader)
        for _ in range(taken):
            next(iterator)
        loader.close()
    assert gone(loader_threads() - before)


def test_memory_stays_in_its_bounds_while_the_number_of_workers_changes() -> None:
    """The governor is told of each change, and what is in flight stays below the new capacity."""
    rows = np.arange(400 * 1000, dtype=np.float32).reshape(400, 1000)
    script = [Setting(count, 2) for count in (1, 6, 2)]
    loader, _ = tuned(nl.DataLoader(rows, 4, num_workers="auto", memory="3GiB"), script)
    with loader:
        for batch, start in zip(loader, range(0, 400, 4), strict=True):
            np.testing.assert_array_equal(batch, rows[start : start + 4])
            state = loader.statistics()
            assert state.memory is not None
            assert state.memory.in_flight_allowed <= state.queue.capacity


def test_what_was_tuned_is_told_in_the_statistics_and_outlives_the_epoch() -> None:
    loader, tuner = tuned(nl.DataLoader(Numbers(50), 1, num_workers="auto"), [Setting(2, 2), Setting(3, 1)])
    with loader:
        assert len(list(loader)) == 50
        told = loader.statistics()
        assert told.tuning == tuner.events
        assert {interval.samples >= 0 for interval in tuner.intervals} == {True}
        assert (told.num_workers, told.prefetch_factor) == (loader.num_workers, loader.prefetch_factor)
        assert str(told.tuning[0]).startswith("num_workers 2 → 3 after 1.0 s: the script says so")


def test_two_epochs_at_once_are_right_and_the_latest_is_tuned() -> None:
    loader, _ = tuned(nl.DataLoader(Numbers(40), 3, num_workers="auto"), [Setting(3, 1), Setting(1, 2)])
    with loader:
        pairs = zip(iter(loader), iter(loader), strict=True)
        for first, second in pairs:
            np.testing.assert_array_equal(first, second)


def test_auto_begins_with_the_cpus_and_fixed_numbers_are_left_alone() -> None:
    with nl.DataLoader(Numbers(4), num_workers="auto") as loader:
        assert loader.num_workers == available_cpus()
        assert loader._autotune is not None
        assert loader._autotune.most_workers == most_workers(available_cpus())
    for options in ({"num_workers": 2}, {"num_workers": 0, "prefetch_factor": "auto"}):
        with nl.DataLoader(Numbers(4), **cast("Any", options)) as loader:
            assert loader._autotune is None


@pytest.mark.parametrize("options", [{"worker_init_fn": lambda worker: None}, {"clone_dataset": True}])
def test_workers_that_run_code_of_the_callers_first_stay_as_many(options: dict[str, Any]) -> None:
    with nl.DataLoader(Numbers(4), num_workers="auto", **options) as loader:
        assert loader._autotune is None
    with nl.DataLoader(Numbers(4), num_workers="auto", prefetch_factor="auto", **options) as loader:
        assert loader._autotune is not None
        assert loader._autotune.most_workers == loader.num_workers


def test_user_code_in_a_worker_is_told_a_number_that_no_id_reaches() -> None:
    seen: set[tuple[int, int]] = set()

    class Asking(Numbers):
        def __getitem__(self, index: int) -> int:
            info = nl.get_worker_info()
            assert info is not None
            seen.add((info.id, info.num_workers))
            return index

    loader, _ = tuned(nl.DataLoader(Asking(60), 1, num_workers="auto"), [Setting(2, 1), Setting(7, 1)])
    with loader:
        assert len(list(loader)) == 60
    assert {count for _, count in seen} == {64}


@pytest.mark.parametrize("value", ["", "Auto", "2", "automatic"])
def test_f01_other_words_than_auto_are_refused_with_name_and_value(value: str) -> None:
    with pytest.raises(ValueError, match=rf"prefetch_factor={value!r}: expected an integer ≥ 1 or 'auto'"):
        nl.DataLoader(Numbers(4), prefetch_factor=value)


@pytest.mark.parametrize("value", [0, -1, True, 1.5])
def test_f01_wrong_numbers_ahead_are_refused_with_name_and_value(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"prefetch_factor={value}"):
        nl.DataLoader(Numbers(4), prefetch_factor=value)


def test_short_epochs_are_measured_together() -> None:
    """Each of them is shorter than any interval, and yet the tuner gets to see some."""
    loader, tuner = tuned(nl.DataLoader(Numbers(6), 2, num_workers="auto"), [Setting(2, 2)])
    tuner.least_batches = 10
    with loader:
        for _ in range(20):
            assert len(list(loader)) == 3
    assert len(tuner.intervals) >= 4
    assert all(interval.samples >= 2 * 9 for interval in tuner.intervals[1:])
