"""What people do with a loader without thinking about it: scripts, notebooks, progress bars, pytest, logs."""

from __future__ import annotations

import io
import logging
import os
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from tests import scripts
from tests.conftest import loader_threads
from tests.loading import PATIENCE, Noisy, Numbers, Stream, samples_of
from tests.scripts import RunScript


def test_f04_a_script_without_a_main_guard_with_lambdas_and_local_classes_works(
    run_script: RunScript,
) -> None:
    result = run_script(
        """
        import nogil_loader as nl

        def make():
            class Local:
                def __len__(self):
                    return 10
                def __getitem__(self, index):
                    return index
            return Local()

        loader = nl.DataLoader(make(), 4, num_workers=3, collate_fn=lambda samples: sum(samples))
        print(list(loader))
        """
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "[6, 22, 17]\n", "")


@pytest.mark.parametrize("num_workers", [0, 3])
def test_f04_datasets_may_hold_what_cannot_be_pickled(num_workers: int) -> None:
    class Holding(Numbers):
        def __init__(self) -> None:
            super().__init__(10)
            self.lock = threading.Lock()
            self.socket = socket.socket()
            self.add: Callable[[int], int] = lambda index: index + 1

        def __getitem__(self, index: Any) -> Any:
            with self.lock:
                return self.add(index)

    dataset = Holding()
    with nl.DataLoader(dataset, 4, num_workers=num_workers) as loader:
        assert samples_of(loader) == list(range(1, 11))
    dataset.socket.close()


def test_f05_pytest_ends_although_tests_leave_iterators_and_a_blocked_worker_behind(tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(
        """
import threading
import nogil_loader as nl

kept = []

class Numbers:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return index

class Blocked(Numbers):
    begun = threading.Event()
    def __getitem__(self, index):
        self.begun.set()
        threading.Event().wait()

def test_half_read():
    iterator = iter(nl.DataLoader(Numbers(), num_workers=4))
    next(iterator)
    kept.append(iterator)

def test_half_read_in_a_cycle():
    loader = nl.DataLoader(Numbers(), num_workers=4)
    loader.mine = iter(loader)
    next(loader.mine)

def test_blocked():
    kept.append(iter(nl.DataLoader(Blocked(), num_workers=2)))
    assert Blocked.begun.wait(20)
"""
    )
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            ".",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(scripts.REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
    assert run.stderr == ""


def test_f06_read_only_samples_in_many_workers_warn_nobody_and_print_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = np.arange(400.0).reshape(100, 4)
    rows.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dataset in (list(rows), rows, nl.ArrayDataset(rows)):
            with nl.DataLoader(dataset, 4, num_workers=8, shuffle=True) as loader:
                for _ in range(2):
                    for batch in loader:
                        batch += 1  # theirs to write to
    assert (rows == np.arange(400.0).reshape(100, 4)).all()
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_f06_rebuilds_are_logged_quietly_by_the_librarys_logger_one_line_each(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(Numbers):
        def __init__(self, length: int) -> None:
            super().__init__(length)
            self.bad = {3, 17, 30}

        def __getitem__(self, index: Any) -> Any:
            if index in self.bad:
                self.bad.discard(index)
                raise ConnectionError(index)
            return index

    with (
        caplog.at_level(logging.INFO),
        nl.DataLoader(Moody(40), 4, num_workers=1, on_failure="rebuild") as loader,
    ):
        assert samples_of(loader) == list(range(40))
        loader.close()
        for thread in loader_threads():
            thread.join(PATIENCE)  # one that was replaced may be about to say so
    assert {record.name for record in caplog.records} == {"nogil_loader"}
    assert [record.levelno for record in caplog.records] == [logging.INFO] * 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_progress_bar_around_the_loader_knows_its_length(num_workers: int) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    shown = io.StringIO()
    with nl.DataLoader(Numbers(10), 3, num_workers=num_workers) as loader:
        assert samples_of(tqdm(loader, file=shown, ascii=True)) == list(range(10))
        assert "4/4" in shown.getvalue()
        shown = io.StringIO()
        endless = nl.DataLoader(Stream(10), 3, num_workers=num_workers)
        assert samples_of(tqdm(endless, file=shown, ascii=True)) == list(range(10))
        assert "4it" in shown.getvalue()


def test_enumerate_zip_list_and_star_read_whole_epochs() -> None:
    with nl.DataLoader(Numbers(5), 2, num_workers=2) as loader:
        assert [number for number, _ in enumerate(loader, 1)] == [1, 2, 3]
        assert [size for size, _ in zip(range(2), loader, strict=False)] == [0, 1]
        (first, second, third) = loader
        assert samples_of([first, second, third]) == list(range(5))
        assert [len(batch) for batch in reversed(list(loader))] == [1, 2, 2]
        assert max(map(len, loader)) == 2


def test_arguments_that_are_used_up_by_a_first_epoch_do_not_exist() -> None:
    """Everything that is given once serves every epoch."""
    with nl.DataLoader(
        dict(enumerate("abcdef")), 2, sampler=[5, 3, 1], num_workers=2, collate_fn="".join
    ) as loader:
        assert [list(loader) for _ in range(3)] == [["fd", "b"]] * 3


def test_a_loader_may_be_used_from_a_thread_and_closed_from_another() -> None:
    received: list[int] = []
    stop = threading.Event()
    paused = threading.Event()

    def consume(loader: nl.DataLoader) -> None:
        with pytest.raises(nl.LoaderError, match="closed"):
            for batch in loader:
                received.extend(batch.tolist())
                if len(received) == 6:
                    paused.set()
                    assert stop.wait(PATIENCE)
        received.append(-1)

    with nl.DataLoader(Numbers(50), 2, num_workers=2) as loader:
        thread = threading.Thread(target=consume, args=[loader])
        thread.start()
        assert paused.wait(PATIENCE)
        loader.close()
        stop.set()
        thread.join(PATIENCE)
    assert received == [0, 1, 2, 3, 4, 5, -1]


@pytest.mark.parametrize("dataset", [Noisy(100), Stream(100)], ids=["map-style", "iterable"])
def test_b19_many_half_read_epochs_pile_up_nothing(dataset: Any) -> None:
    before = set(threading.enumerate())
    loader = nl.DataLoader(dataset, 2, num_workers=4)
    for _ in range(50):
        next(iter(loader))
    left = set(threading.enumerate()) - before
    for thread in left:  # nobody but the garbage that was dropped told them to end
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert set(threading.enumerate()) <= before


def test_bad_news_from_a_notebook_cell_that_is_run_again_is_the_same_news_until_it_is_mended() -> None:
    class Corrupt(Numbers):
        mended = False

        def __getitem__(self, index: Any) -> Any:
            if not self.mended:
                raise ValueError("corrupt")
            return index

    dataset = Corrupt(4)
    loader = nl.DataLoader(dataset, num_workers=2)
    for _ in range(3):
        with pytest.raises(nl.DeadWorkerError, match="corrupt"):
            list(loader)
    dataset.mended = True
    with pytest.raises(nl.DeadWorkerError, match=r"loader\.rebuild\(\)"):
        list(loader)
    loader.rebuild()
    assert samples_of(loader) == [0, 1, 2, 3]
    loader.close()
