"""Statistics as log records: when one is written, what people read and what machines read."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import nogil_loader as nl
from nogil_loader.engine.statistics import Statistics
from nogil_loader.observe import logs, watching
from nogil_loader.observe.logs import log_statistics
from nogil_loader.observe.progress import progress
from tests.loading import Numbers, Stream, samples_of

NAME = "nogil_loader.statistics"


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    logger, handler = logging.getLogger(NAME), Kept()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def loader() -> Iterator[nl.DataLoader]:
    with nl.DataLoader(Numbers(20), 4, num_workers=2) as opened:
        yield opened


def numbers(record: logging.LogRecord) -> dict[str, Any]:
    """What a JSON formatter would write, and find again."""
    read: dict[str, Any] = json.loads(json.dumps(record.__dict__["nogil_loader"], allow_nan=False))
    return read


def states(records: list[logging.LogRecord]) -> list[str]:
    return [numbers(record)["state"] for record in records]


class Clock:
    """A clock that a test moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_epoch_is_told_at_its_end(loader: nl.DataLoader, records: list[logging.LogRecord]) -> None:
    watched = log_statistics(loader)
    assert len(watched) == len(loader)
    assert samples_of(watched) == list(range(20))
    (record,) = records
    assert (record.name, record.levelno) == (NAME, logging.INFO)
    assert record.getMessage().startswith("epoch 0: complete, 20/20 samples, 0:00 at ")
    assert "waits for data" in record.getMessage()
    told = numbers(record)
    assert (told["state"], told["samples_done"], told["samples_total"]) == ("complete", 20, 20)
    assert (told["epoch"], told["delivered"], told["batches"]) == (0, 20, 5)
    assert set(told["stages"]) > {"fetch", "collate", "idle"}
    assert told["memory"]["limit"] > 0
    assert "events" not in told["memory"]
    assert told["bottleneck"] in ("loader", "consumer", "balanced")


def test_in_between_a_record_comes_after_so_many_seconds_at_most(
    loader: nl.DataLoader, records: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(watching, "perf_counter", clock)
    batches = iter(log_statistics(loader, every=30.0))
    for seconds, written in [(1, 0), (29, 1), (29, 1), (100, 2)]:
        clock.now += seconds
        next(batches)
        assert len(records) == written
    list(batches)
    assert states(records) == ["running", "running", "complete"]
    assert [numbers(record)["samples_done"] for record in records] == [8, 16, 20]


def test_with_nothing_in_between_each_batch_is_told(
    loader: nl.DataLoader, records: list[logging.LogRecord]
) -> None:
    list(log_statistics(loader, every=0))
    assert states(records) == ["running"] * 5 + ["complete"]


def test_each_epoch_is_told_with_the_name_of_its_loader(
    loader: nl.DataLoader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    watched = log_statistics(loader, name="val", logger=logging.getLogger("mine"), level="DEBUG")
    for _ in range(2):
        list(watched)
    assert [record.getMessage()[:21] for record in caplog.records] == [
        "val epoch 0: complete",
        "val epoch 1: complete",
    ]
    assert {(record.name, record.levelname) for record in caplog.records} == {("mine", "DEBUG")}
    assert {numbers(record)["loader"] for record in caplog.records} == {"val"}


def test_an_epoch_that_is_left_is_told_as_such(
    loader: nl.DataLoader, records: list[logging.LogRecord]
) -> None:
    for _ in log_statistics(loader):
        break
    with iter(log_statistics(loader)) as batches:
        next(batches)
        next(batches)
    assert states(records) == ["stopped", "stopped"]
    assert [numbers(record)["samples_done"] for record in records] == [4, 8]


def test_an_epoch_that_fails_is_told_before_its_error(records: list[logging.LogRecord]) -> None:
    class Damaged(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 9:
                raise ValueError("damaged")
            return index

    with nl.DataLoader(Damaged(20), 4, num_workers=2) as loader, pytest.raises(nl.DeadWorkerError):
        list(log_statistics(loader))
    assert states(records) == ["failed"]
    assert numbers(records[0])["samples_done"] == 8


def test_an_iterable_of_unknown_length_has_no_total(records: list[logging.LogRecord]) -> None:
    with (
        nl.DataLoader(Stream(1000), 4, num_workers=2) as loader,
        iter(log_statistics(loader, every=0)) as batches,
    ):
        next(batches)
    assert numbers(records[0])["samples_total"] is None
    assert records[0].getMessage().startswith("epoch 0: 4 samples")


def test_memory_is_left_out_where_it_is_off(records: list[logging.LogRecord]) -> None:
    with nl.DataLoader(Numbers(4), num_workers=0, memory="off") as loader:
        list(log_statistics(loader))
    assert numbers(records[0])["memory"] is None
    assert "memory" not in records[0].getMessage()


def test_nothing_is_read_for_a_record_that_nobody_wants(
    loader: nl.DataLoader, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, NAME)

    def read(iterator: nl.LoaderIterator) -> Statistics:
        raise AssertionError("nobody wants to know")

    monkeypatch.setattr(nl.LoaderIterator, "statistics", read)
    assert samples_of(log_statistics(loader, every=0)) == list(range(20))
    assert caplog.records == []


def test_bars_and_logs_go_together(loader: nl.DataLoader, records: list[logging.LogRecord]) -> None:
    assert samples_of(progress(log_statistics(loader))) == list(range(20))
    assert samples_of(log_statistics(progress(loader))) == list(range(20))
    assert states(records) == ["complete", "complete"]
    for _ in progress(log_statistics(loader)):
        break
    assert states(records)[2:] == ["stopped"]
    assert loader.statistics().workers_alive == 0


def test_no_thread_is_started(loader: nl.DataLoader) -> None:
    before = set(threading.enumerate())
    batches = iter(log_statistics(loader, every=0))
    started = set(threading.enumerate()) - before
    assert all(thread.name.startswith("nogil_loader-worker-") for thread in started)
    list(batches)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"loader": "train"},
            TypeError,
            r"^loader='train': expected a DataLoader or one of its iter.*, not str",
        ),
        ({"name": None}, TypeError, r"^name=None: expected a string, not NoneType"),
        ({"every": -1}, ValueError, r"^every=-1: expected a finite number of seconds ≥ 0"),
        ({"every": "30"}, TypeError, r"^every='30': expected seconds ≥ 0, not str"),
        ({"logger": "mine"}, TypeError, r"^logger='mine': expected a logging.Logger, not str"),
        ({"level": "LOUD"}, ValueError, r"^level='LOUD': expected a number or one of .*INFO"),
        ({"level": 1.5}, TypeError, r"^level=1.5: expected a number or a name, not float"),
        ({"level": True}, TypeError, r"^level=True: expected a number or a name, not bool"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        log_statistics(**{"loader": nl.DataLoader(Numbers(4), num_workers=0), **arguments})


def test_every_number_of_the_statistics_is_in_the_record() -> None:
    told = logs.numbers_of(Statistics())
    assert set(Statistics.__dataclass_fields__) - set(told) == {"tuning"}
