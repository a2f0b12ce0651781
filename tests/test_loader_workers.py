"""What user code meets in a worker: its context, its id, its own copy of the dataset, and no stray threads."""

from __future__ import annotations

import contextvars
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.engine import run as run_module
from nogil_loader.engine import worker as worker_module
from tests.conftest import loader_threads
from tests.loading import PATIENCE, Conducted, Conductor, Counter, Numbers, Stream, samples_of
from tests.scripts import RunScript

setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")


# Context


class ReadsSetting(Numbers):
    def __getitem__(self, index: Any) -> Any:
        return setting.get()


@pytest.mark.parametrize("num_workers", [0, 1, 5])
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_f08_context_variables_reach_the_workers_anew_in_each_epoch(
    num_workers: int, persistent_workers: bool
) -> None:
    with nl.DataLoader(
        ReadsSetting(6), 2, num_workers=num_workers, persistent_workers=persistent_workers
    ) as loader:
        for value in ("first", "second"):
            token = setting.set(value)
            try:
                assert samples_of(loader) == [value] * 6
            finally:
                setting.reset(token)
        assert samples_of(loader) == ["unset"] * 6


def test_f08_context_variables_reach_the_reader_of_an_iterable_collate_and_worker_init_fn() -> None:
    class Reads(Stream):
        def __iter__(self) -> Any:
            yield setting.get()

    seen: list[str] = []

    def collate(samples: list[str]) -> list[str]:
        return [*samples, setting.get(), *seen[:1]]

    token = setting.set("mine")
    try:
        with nl.DataLoader(
            Reads(1),
            num_workers=2,
            collate_fn=collate,
            worker_init_fn=lambda worker_id: seen.append(setting.get()),
        ) as loader:
            assert list(loader) == [["mine"] * 3]
    finally:
        setting.reset(token)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_f08_numpys_errstate_holds_in_the_workers(num_workers: int) -> None:
    class Divides(Numbers):
        def __getitem__(self, index: Any) -> Any:
            return np.array([1.0]) / np.array([float(index)])

    with nl.DataLoader(Divides(3), num_workers=num_workers) as loader:
        with np.errstate(divide="ignore"):
            assert [float(batch[0, 0]) for batch in loader] == [np.inf, 1.0, 0.5]
        with np.errstate(divide="raise"):
            with pytest.raises(nl.DeadWorkerError) as caught:
                list(loader)
            assert isinstance(caught.value.__cause__, FloatingPointError)


def test_f08_a_rebuilt_worker_has_the_context_as_well() -> None:
    class DiesOnce(ReadsSetting):
        deaths = [SystemExit, ValueError]

        def __getitem__(self, index: Any) -> Any:
            if index in (1, 3) and self.deaths:
                raise self.deaths.pop()
            return super().__getitem__(index)

    DiesOnce.deaths = [SystemExit, ValueError]
    token = setting.set("mine")
    try:
        with nl.DataLoader(DiesOnce(8), 1, num_workers=1, on_failure="rebuild") as loader:
            assert samples_of(loader) == ["mine"] * 8
            assert loader.statistics().rebuilds == 2
    finally:
        setting.reset(token)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_f08_what_a_worker_sets_stays_in_the_worker(num_workers: int) -> None:
    class Sets(Numbers):
        def __getitem__(self, index: Any) -> Any:
            nl.sample_rng()
            return index

    token = setting.set("mine")
    try:
        iterator = iter(nl.DataLoader(Sets(4), num_workers=num_workers))
        next(iterator)
        assert setting.get() == "mine"
        with pytest.raises(RuntimeError, match="outside a loader"):
            nl.sample_rng()
        assert nl.get_worker_info() is None
        iterator.close()
    finally:
        setting.reset(token)


# Identity


def together(count: int) -> Any:
    """A dataset that needs ``count`` workers at once for each of its first samples."""

    class Together(Numbers):
        barrier = threading.Barrier(count)

        def __getitem__(self, index: Any) -> Any:
            self.barrier.wait(PATIENCE)
            return nl.get_worker_info()

    return Together(count * 3)


def test_get_worker_info_is_as_in_torch() -> None:
    dataset = together(3)
    with nl.DataLoader(
        dataset, 1, num_workers=3, seed=2**64 - 1, collate_fn=lambda infos: infos[0]
    ) as loader:
        infos = set(loader)
    assert {info.id for info in infos} == {0, 1, 2}
    for info in infos:
        assert info.num_workers == 3
        assert info.seed == (loader.seed + info.id) % 2**64
        assert info.dataset is dataset
    assert nl.get_worker_info() is None
    (info,) = set(nl.DataLoader(together(1), 3, num_workers=0, collate_fn=lambda infos: infos[0]))
    assert info is None


def test_a_workers_seed_follows_a_state_that_brings_another_one() -> None:
    class Tells(Numbers):
        def __getitem__(self, index: Any) -> Any:
            info = nl.get_worker_info()
            assert info is not None
            return np.uint64((info.seed - info.id) % 2**64)

    state = nl.DataLoader(Tells(4), seed=77).state_dict()
    with nl.DataLoader(Tells(4), num_workers=2) as loader:
        assert set(samples_of(loader)) == {loader.seed}
        loader.load_state_dict(state)
        assert set(samples_of(loader)) == {77}


@pytest.mark.parametrize("num_workers", [1, 3])
def test_worker_init_fn_runs_once_in_each_worker_before_the_first_batch(num_workers: int) -> None:
    calls: list[tuple[int, int]] = []

    def init(worker_id: int) -> None:
        info = nl.get_worker_info()
        assert info is not None
        assert info.id == worker_id
        calls.append((worker_id, threading.get_ident()))

    class KnowsItsThread(Numbers):
        def __getitem__(self, index: Any) -> Any:
            assert any(thread == threading.get_ident() for _, thread in calls)
            return index

    with nl.DataLoader(KnowsItsThread(40), num_workers=num_workers, worker_init_fn=init) as loader:
        iterator = iter(loader)
        next(iterator)
        assert sorted(worker_id for worker_id, _ in calls) == list(range(num_workers))
        list(iterator)
        for _ in range(3):  # persistent workers are not started again
            list(loader)
        assert len(calls) == num_workers
    with nl.DataLoader(
        KnowsItsThread(4), num_workers=num_workers, worker_init_fn=init, persistent_workers=False
    ) as loader:
        calls.clear()
        for epochs in (1, 2):
            list(loader)
            assert len(calls) == num_workers * epochs
    assert list(nl.DataLoader(Numbers(1), num_workers=0, worker_init_fn=init)) == [0]
    assert len(calls) == num_workers * 2


def test_b13_a_failing_worker_init_fn_is_raised_at_the_first_next() -> None:
    def init(worker_id: int) -> None:
        if worker_id == 1:
            raise PermissionError("no such device")

    with nl.DataLoader(Numbers(9), num_workers=3, worker_init_fn=init) as loader:
        iterator = iter(loader)
        with pytest.raises(nl.DeadWorkerError, match="worker 1 died in worker_init_fn") as caught:
            next(iterator)
        assert caught.value.worker_id == 1
        assert isinstance(caught.value.__cause__, PermissionError)


# A dataset of one's own for each worker


class OnSelf(Numbers):
    """Keeps parameters of a call on itself, as transforms do, and is interrupted in between."""

    def __init__(self, length: int, pause: Any) -> None:
        super().__init__(length)
        self.pause = pause
        self.offset = -1

    def __deepcopy__(self, memo: Any) -> OnSelf:
        return OnSelf(self.length, self.pause)

    def __getitem__(self, index: Any) -> Any:
        self.offset = index
        self.pause(index)
        image = self.offset
        self.pause(index)
        mask = self.offset
        return image == mask == index


@pytest.mark.parametrize(
    "clone", [True, lambda worker_id: OnSelf(48, meeting())], ids=["deep copy", "factory"]
)
def test_d09_parameters_kept_on_self_do_not_mix_between_clones(clone: Any) -> None:
    pause = meeting()
    if callable(clone):

        def make(worker_id: int) -> OnSelf:
            return OnSelf(48, pause)

        clone = make
    with nl.DataLoader(OnSelf(48, pause), 1, num_workers=8, clone_dataset=clone) as loader:
        assert samples_of(loader) == [True] * 48
    shared = OnSelf(48, meeting())
    with nl.DataLoader(shared, 1, num_workers=8) as loader:  # the case that the option is for
        assert not all(samples_of(loader))


def meeting() -> Any:
    """A pause in which eight workers meet, so that their calls overlap for sure."""
    barrier = threading.Barrier(8)

    def pause(index: int) -> None:
        barrier.wait(PATIENCE)

    return pause


def test_d10_each_clone_may_seek_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"".join(number.to_bytes(8, "little") * 64 for number in range(40)))

    class Records(Numbers):
        def __init__(self, barrier: threading.Barrier) -> None:
            super().__init__(40)
            self.barrier = barrier
            self.file = path.open("rb", buffering=0)

        def __deepcopy__(self, memo: Any) -> Records:
            return Records(self.barrier)

        def __getitem__(self, index: Any) -> Any:
            self.file.seek(index * 512)
            self.barrier.wait(PATIENCE)  # all four have sought before any of them reads
            record = self.file.read(512)
            self.barrier.wait(PATIENCE)
            return record == index.to_bytes(8, "little") * 64

    made: list[Records] = []

    def own(worker_id: int) -> Records:
        made.append(Records(barrier))
        return made[-1]

    barrier = threading.Barrier(4)
    shared = Records(barrier)
    made.append(shared)
    with nl.DataLoader(shared, 1, num_workers=4, clone_dataset=own) as loader:
        assert samples_of(loader) == [True] * 40
    with nl.DataLoader(shared, 1, num_workers=4) as loader:  # one handle for all: records get mixed
        assert not all(samples_of(loader))
    for records in made:
        records.file.close()


class Database(Numbers):
    def __init__(self, path: Path) -> None:
        super().__init__(6)
        self.path = path
        self.connection = sqlite3.connect(path)

    def __getitem__(self, index: Any) -> Any:
        ((value,),) = self.connection.execute("select value from numbers where id = ?", [index])
        return value


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table numbers (id integer, value integer)")
        connection.executemany(
            "insert into numbers values (?, ?)", [(index, index * 10) for index in range(6)]
        )
    connection.close()
    return path


@pytest.mark.parametrize("on_failure", ["raise", "rebuild"])
def test_d11_a_connection_of_the_main_thread_is_named_with_advice(database: Path, on_failure: str) -> None:
    dataset = Database(database)
    with nl.DataLoader(dataset, 2, num_workers=2, on_failure=on_failure) as loader:
        with pytest.raises(nl.DeadWorkerError) as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, sqlite3.ProgrammingError)
        assert "worker_init_fn" in str(caught.value)
        assert "clone_dataset" in str(caught.value)
        assert loader.statistics().rebuilds <= 2 * 3  # no storm of restarts
    dataset.connection.close()


def test_d11_a_connection_made_in_each_worker_works(database: Path) -> None:
    main = Database(database)
    made: list[tuple[int, Database]] = []

    def connect(worker_id: int) -> Database:
        own = Database(database)
        own.connection.close()
        own.connection = sqlite3.connect(database, check_same_thread=True)
        made.append((threading.get_ident(), own))
        return own

    with nl.DataLoader(main, 2, num_workers=2, clone_dataset=connect) as loader:
        assert samples_of(loader) == [0, 10, 20, 30, 40, 50]
    assert samples_of(nl.DataLoader(main, 2, num_workers=0)) == [0, 10, 20, 30, 40, 50]
    assert threading.get_ident() not in {thread for thread, _ in made}
    main.connection.close()
    made.clear()


@pytest.mark.parametrize("clone", [True, "callable"])
def test_clones_are_made_once_per_worker_and_seen_by_get_worker_info(clone: Any) -> None:
    class Counted(Numbers):
        def __getitem__(self, index: Any) -> Any:
            info = nl.get_worker_info()
            assert info is not None
            return info.dataset is self and info.dataset is not original

    original = Counted(20)
    made: list[Counted] = []

    def factory(worker_id: int) -> Counted:
        made.append(Counted(20))
        return made[-1]

    argument = True if clone is True else factory
    with nl.DataLoader(original, num_workers=3, clone_dataset=argument) as loader:
        for _ in range(2):
            assert samples_of(loader) == [True] * 20
    assert len(made) == (0 if clone is True else 3)


def test_without_workers_a_factory_makes_one_dataset_and_a_deep_copy_is_not_needed() -> None:
    made: list[Numbers] = []

    def factory(worker_id: int) -> Numbers:
        assert worker_id == 0
        made.append(Numbers(3))
        return made[-1]

    class CannotBeCopied(Numbers):
        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("copied for nobody")

    loader = nl.DataLoader(Numbers(3), num_workers=0, clone_dataset=factory)
    assert [samples_of(loader), samples_of(loader)] == [[0, 1, 2]] * 2
    assert len(made) == 1
    assert samples_of(nl.DataLoader(CannotBeCopied(3), num_workers=0, clone_dataset=True)) == [0, 1, 2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_failing_clone_is_named_as_what_it_is(num_workers: int) -> None:
    def clone(worker_id: int) -> Any:
        raise OSError("too many connections")

    with nl.DataLoader(Numbers(4), num_workers=num_workers, clone_dataset=clone) as loader:
        with pytest.raises(nl.DeadWorkerError, match="clone_dataset") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, OSError)


# Threads


def native_threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("num_workers", [0, 1, 4])
@pytest.mark.parametrize("dataset", [Numbers(60), Stream(60)], ids=["map-style", "iterable"])
def test_e09_the_loader_adds_exactly_its_workers_and_a_reader(dataset: Any, num_workers: int) -> None:
    before, known = native_threads(), set(threading.enumerate())
    reader = int(isinstance(dataset, Stream) and num_workers > 0)
    with nl.DataLoader(dataset, 2, num_workers=num_workers) as loader:
        iterator = iter(loader)
        next(iterator)
        assert len(native_threads() - before) == num_workers + reader
        assert iterator.statistics().workers_alive == num_workers
        started = set(threading.enumerate()) - known
        assert len(started) == num_workers + reader
        list(iterator)
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@needs_proc
def test_e09_two_epochs_of_persistent_workers_use_the_same_threads() -> None:
    class Tells(Numbers):
        barrier = threading.Barrier(3)

        def __getitem__(self, index: Any) -> Any:
            self.barrier.wait(PATIENCE)
            return threading.get_native_id()

    with nl.DataLoader(Tells(9), 1, num_workers=3) as loader:
        first, second = set(samples_of(loader)), set(samples_of(loader))
    assert len(first) == 3
    assert first == second


def test_e04_e05_kernels_are_compiled_once_and_before_any_worker_runs(
    run_script: RunScript, tmp_path: Path
) -> None:
    result = run_script(
        """
        import threading
        import numpy as np
        import nogil_loader as nl
        from nogil_loader.kernels import pad_rows

        meeting = threading.Barrier(8)

        class Ragged:
            def __len__(self):
                return 64

            def __getitem__(self, index):
                assert pad_rows.compiled_signatures == 1, "left to the workers"
                if index % 8 == 7:
                    meeting.wait(30)  # all workers finish their first batch, and call the kernel, together
                return np.full(1 + index % 5, index, np.float32)

        collate = nl.pad_collate()
        with nl.DataLoader(Ragged(), 8, num_workers=8, timeout=30, collate_fn=collate) as loader:
            batches = list(loader)
        assert pad_rows.compiled_signatures == 1
        for number, batch in enumerate(batches):
            assert batch.values[:, 0].tolist() == list(range(number * 8, number * 8 + 8))
            assert batch.lengths.tolist() == [1 + index % 5 for index in range(number * 8, number * 8 + 8)]
        print("complete")
        """,
        timeout=55,
        environment={"NUMBA_CACHE_DIR": str(tmp_path / "cold")},
    )
    assert (result.returncode, result.stdout) == (0, "complete\n"), result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_e08_children_of_a_fork_pool_may_load_and_compute_after_the_loader_ran(run_script: RunScript) -> None:
    result = run_script(
        """
        import multiprocessing
        import warnings
        import numpy as np
        import nogil_loader as nl

        # From Python 3.12 on, forking beside threads warns; that it works nonetheless is what is tested.
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        table = nl.ArrayDataset(np.arange(240.0).reshape(60, 4))
        loader = nl.DataLoader(table, 8, shuffle=True, num_workers=2, seed=0)

        def load(number):
            return sum(float(batch.sum()) for batch in loader)

        def compute(number):
            return float((np.ones((64, 64)) @ np.ones((64, 64))).sum())

        expected = sum(float(batch.sum()) for batch in loader)
        half = iter(loader)
        next(half)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(load, range(4)).get(25) == [expected] * 4
            assert pool.map_async(compute, range(4)).get(25) == [64.0**3] * 4
        assert sum(len(batch) for batch in half) == 52
        loader.close()
        print("complete")
        """,
        timeout=55,
    )
    assert (result.returncode, result.stdout) == (0, "complete\n"), result.stderr


def test_workers_wait_for_nothing_but_their_turn() -> None:
    """All workers load at once: the last sample of each round lets the others go."""
    arrived = Counter()

    class Rounds(Numbers):
        def __getitem__(self, index: Any) -> Any:
            arrived.add()
            arrived.wait_for((index // 4 + 1) * 4)
            return index

    with nl.DataLoader(Rounds(32), 1, num_workers=4, prefetch_factor=1) as loader:
        assert samples_of(loader) == list(range(32))


def test_closing_while_every_worker_waits_ends_all_of_them() -> None:
    conductor = Conductor(lambda waiting: waiting[0], lambda played: 3)
    with nl.DataLoader(Conducted(Numbers(20), conductor), 1, num_workers=3) as loader:
        iterator = iter(loader)
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("nogil_loader-")]
        iterator.close()  # returns although the workers cannot
        with conductor.conducting():
            pass  # its end lets everybody go
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.mark.parametrize("attempt", range(5))
def test_every_thread_is_told_to_end_the_replaced_ones_as_well(
    attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (run_module, worker_module):  # nobody gets away with looking again after a while
        monkeypatch.setattr(module, "IDLE_STEP", 3600.0)

    class Moody(Numbers):
        def __init__(self) -> None:
            super().__init__(40)
            self.bad = {3, 17, 30}

        def __getitem__(self, index: Any) -> Any:
            if index in self.bad:
                self.bad.discard(index)
                raise ConnectionError(index)
            return index

    before = loader_threads()
    with nl.DataLoader(Moody(), 4, num_workers=3, on_failure="rebuild") as loader:
        assert samples_of(loader) == list(range(40))
        next(iter(loader))
    while left := loader_threads() - before:
        for thread in left:
            if thread.ident is not None:  # else its predecessor is just about to start it
                thread.join(PATIENCE)
                assert not thread.is_alive()
