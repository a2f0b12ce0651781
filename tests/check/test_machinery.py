"""What the check is built on: threads with limits, places in code, copies of datasets, random states."""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
import time
import zipfile
from collections import Counter, deque
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader.check.crew import Crew, Hand
from nogil_loader.check.fingerprint import fingerprint
from nogil_loader.check.fresh import Fresh
from nogil_loader.check.instructions import instructions
from nogil_loader.check.outcome import Hung
from nogil_loader.check.places import Place, Profile, Stop, choose
from nogil_loader.check.randomness import NUMPY, PYTHON, Randomness, changed
from nogil_loader.check.reading import Memory
from nogil_loader.check.twin import NoTwinError, state_of, twin_of
from nogil_loader.check.walk import generators_of, handles_of

PATIENCE = 20.0


# Threads


def call(event: threading.Event) -> Any:
    """Return a job that is in a call until the event is set."""

    def job(hand: Hand) -> str:
        hand.at = 7, time.monotonic()
        assert event.wait(PATIENCE)
        hand.at = None
        return "returned"

    return job


def test_a_call_that_does_not_return_is_given_up_on_and_another_thread_takes_over() -> None:
    never = threading.Event()
    with Crew(2, 0.1) as crew:
        lost = crew.hands[0]
        hung = crew.do(lost, call(never))
        assert isinstance(hung, Hung)
        assert any("event.wait(PATIENCE)" in line for line in hung.stack)
        assert crew.hands[0] is not lost
        assert crew.do(crew.hands[0], lambda hand: hand.number) == 0
        never.set()  # what comes back too late is nobody's
        assert crew.do(crew.hands[0], lambda hand: "mine") == "mine"


def test_jobs_that_are_stuck_are_told_once_and_the_others_come_back() -> None:
    never = threading.Event()
    told: list[list[Hand]] = []
    with Crew(3, 0.2) as crew:
        stuck = crew.hands[1]
        jobs = [(hand, call(never) if hand is stuck else lambda hand: hand.number) for hand in crew.hands]
        results = crew.do_all(jobs, told.append)
        never.set()
    assert told == [[stuck]]
    assert sorted(results.values()) == [0, 2]


def test_what_a_job_raises_is_raised_where_it_was_given() -> None:
    def fail(hand: Hand) -> NoReturn:
        raise KeyError("mine")

    with Crew(1, PATIENCE) as crew, pytest.raises(KeyError, match="mine"):
        crew.do(crew.hands[0], fail)


def test_all_threads_end_with_the_crew() -> None:
    with Crew(4, PATIENCE) as crew:
        hands = crew.hands
    for hand in hands:
        hand.join(PATIENCE)
    assert not [each for each in threading.enumerate() if each.name.startswith("check-")]


def test_a_thread_tells_where_it_is_and_whether_it_sleeps() -> None:
    never = threading.Event()
    with Crew(1, PATIENCE) as crew:
        hand = crew.hands[0]
        job = crew.begin(hand, call(never))
        while hand.at is None or not hand.is_asleep():
            pass
        assert hand.spot() == hand.spot()
        never.set()
        assert crew.collect({job: hand}, lambda late: None) == {hand: "returned"}


# Places


class Account:
    def __init__(self) -> None:
        self.balance = 0

    def add(self, amount: int) -> int:
        for _ in range(3):
            self.balance += amount
        return self.balance


def profile_of(account: Account) -> list[Place]:
    profile = Profile()
    with profile.watch():
        account.add(1)
    return [place for place in profile.places() if place.code is Account.add.__code__]


def test_a_call_is_stopped_at_each_of_its_places_while_another_thread_goes_on() -> None:
    places = profile_of(Account())
    assert {place.time for place in places} > {1}
    lost = 0
    for place in places:
        account, arrived = Account(), threading.Event()
        stop = Stop(place, arrived.set, PATIENCE)

        def run(stop: Stop = stop, account: Account = account) -> None:
            with stop.watch():
                account.add(1)

        thread = threading.Thread(target=run)
        thread.start()
        assert arrived.wait(PATIENCE), place
        account.add(10)
        stop.let_go()
        thread.join(PATIENCE)
        assert stop.arrived
        if "balance" in stop.between:  # it has read the balance and is about to write it
            assert account.balance < 33
            lost += 1
        else:
            assert account.balance == 33
    assert lost


def test_a_place_that_is_never_passed_stops_nobody() -> None:
    stop = Stop(Place(Account.__init__.__code__, 0), lambda: None, PATIENCE)
    account = Account()
    with stop.watch():
        assert account.add(1) == 3
    assert not stop.arrived


def test_only_the_calling_thread_is_watched_and_only_in_the_block() -> None:
    seen: Counter[int] = Counter()
    begin, end = threading.Barrier(2), threading.Barrier(2)

    def other() -> None:
        begin.wait(PATIENCE)
        Account().add(1)
        end.wait(PATIENCE)

    thread = threading.Thread(target=other)
    thread.start()
    with instructions(lambda frame, offset: seen.update([threading.get_ident()])):
        begin.wait(PATIENCE)
        Account().add(1)
        end.wait(PATIENCE)
    thread.join(PATIENCE)
    count = seen[threading.get_ident()]
    assert count > 10
    assert set(seen) == {threading.get_ident()}
    Account().add(1)
    assert seen[threading.get_ident()] == count


@pytest.mark.skipif(sys.version_info < (3, 12), reason="has no monitoring")
def test_watching_works_where_all_tools_are_taken() -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    taken = [tool for tool in range(6) if monitoring.get_tool(tool) is None]
    for tool in taken:
        monitoring.use_tool_id(tool, "somebody")
    try:
        profile_of(Account())  # the first time, traced code of these versions says nothing
        assert profile_of(Account())
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)


def test_places_of_the_datasets_own_file_come_first() -> None:
    own = compile("\n".join(f"a{at}" for at in range(50)), "own.py", "exec")
    foreign = compile("b", "library.py", "exec")
    places = [Place(foreign, at) for at in range(100)] + [Place(own, at) for at in range(50)]
    chosen = choose(places, 60, "own.py")
    assert len(chosen) == 60
    assert sum(place.code is own for place in chosen) == 30
    assert choose(places[:20], 60, "own.py") == places[:20]
    assert all(place.code is own for place in choose(places, 150, "own.py")[:50])


# Copies


class Inner:
    def __init__(self) -> None:
        self.items = [1, 2]


class Outer:
    def __init__(self) -> None:
        self.inner = Inner()
        self.me = self
        self.small, self.large = np.zeros(3), np.zeros(100_000)
        self.lock = threading.Lock()
        self.count, self.seen, self.recent = 0, Counter[str](), deque([1])
        self.method = self.bump

    def bump(self) -> None:
        self.count += 1


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = [1]


class Closing:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __del__(self) -> None:
        if self.handle is not None:
            self.handle.close()


def test_a_twin_has_its_own_state_and_shares_data_and_locks() -> None:
    outer = Outer()
    twin = twin_of(outer)
    twin.inner.items.append(3)
    twin.small[0] = 1
    twin.seen["a"] += 1
    twin.method()
    assert outer.inner.items == [1, 2]
    assert outer.small[0] == 0
    assert not outer.seen
    assert (outer.count, twin.count) == (0, 1)
    assert twin.me is twin
    assert twin.large is outer.large
    assert twin.lock is outer.lock
    assert twin_of(Slotted()).value == [1]


@pytest.mark.parametrize("dataset", [[1], np.zeros(3), {"a": 1}, range(3), random.Random()])
def test_only_plain_objects_have_twins(dataset: Any) -> None:
    with pytest.raises(NoTwinError):
        twin_of(dataset)


def test_what_a_copy_might_close_at_its_end_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    with path.open("rb") as file:
        closing = Closing(file)
        with pytest.raises(NoTwinError):
            twin_of(closing)
        assert not file.closed
        closing.handle = None
        twin = twin_of(closing)
        twin.handle = path.open("rb")
        handle = twin.handle
        del twin
        assert handle.closed
        assert file.read() == b"data"


def test_an_archive_is_shared_and_stays_open(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"data")
    holder = Outer()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        holder.method = archive  # type: ignore[assignment]
        twin = twin_of(holder)
        assert twin.method is archive
        del twin
        assert archive.read("a") == b"data"


def test_states_tell_how_far_counts_have_got() -> None:
    outer = Outer()
    outer.seen["a"] = 5
    state = state_of(outer)
    assert state[".count"] == 0
    assert state[".seen['a']"] == 5
    assert state["len(.inner.items)"] == 2
    assert state["sum(.small)"] == 0


class Lazy:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = self.path.open("rb")
        return index


def test_handles_that_calls_open_on_new_datasets_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    dataset = Lazy(path)
    fresh = Fresh.of(dataset, None)
    assert fresh is not None
    dataset[0]
    with dataset.file, fresh.lent() as new:
        assert new.file is None
        new[0]
        opened = fresh.handles(new)
        (first,) = opened.values()
        assert opened == {"dataset.file": new.file}
        new.file = None
        new[0]
        assert list(fresh.lost(opened, new)) == [("dataset.file", "an open file")]
        assert first.closed
        (second,) = fresh.handles(new).values()
        assert not second.closed
    assert second.closed


def test_a_dataset_that_cannot_be_copied_is_made_anew() -> None:
    fresh = Fresh.of([1], lambda: [2])
    assert fresh is not None
    with fresh.lent() as made:
        assert made == [2]
    assert Fresh.of([1], None) is None


# What a dataset holds

_shared = np.random.default_rng(0)


class Holder:
    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(folder / "data.db")
        self.parts = [{"numbers": iter([1])}, random.Random(0)]
        self.local = np.random.RandomState(0)
        self.random = random.random

    def __getitem__(self, index: int) -> float:
        return float(_shared.random())


def test_handles_and_generators_are_found_with_the_way_there(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    try:
        assert handles_of(holder) == [
            ("dataset.connection", "a connection of sqlite3"),
            ("dataset.parts[0]['numbers']", "an iterator"),
        ]
        assert {path for path, _ in generators_of(holder)} == {"_shared", "dataset.parts[1]", "dataset.local"}
    finally:
        holder.connection.close()


def test_random_states_are_set_told_and_put_back() -> None:
    own = Outer()
    own.method = np.random.default_rng(3)  # type: ignore[assignment]
    randomness = Randomness(own)
    before = random.random(), np.random.rand(), own.method.random()  # type: ignore[attr-defined]
    with randomness.kept():
        randomness.seed(5)
        states = randomness.read()
        assert changed(states, randomness.read()) == ()
        drawn = random.random(), np.random.rand(), own.method.random()  # type: ignore[attr-defined]
        assert {name for name, _ in changed(states, randomness.read())} == {PYTHON, NUMPY, "dataset.method"}
        randomness.seed(5)
        assert drawn == (random.random(), np.random.rand(), own.method.random())  # type: ignore[attr-defined]
    after = random.random(), np.random.rand(), own.method.random()  # type: ignore[attr-defined]
    assert len({*before, *drawn, *after}) == 9


def test_no_more_samples_are_kept_than_there_is_room_for() -> None:
    memory = Memory(most=100)
    prints = (fingerprint([1]),)
    for position in range(3):
        memory.keep(position, [[1]], prints, 40)
    assert memory.samples.keys() == {0, 1}
    memory.samples[1][0].append(2)
    assert memory.find_changed() == [1]
    assert memory.find_changed() == []
    assert 0 < Memory().most <= 1 << 28
