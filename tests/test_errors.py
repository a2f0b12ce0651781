"""Errors say what happened whatever they describe, keep it for programs, and survive pickling and copying."""

from __future__ import annotations

import copy
import io
import pickle
import sqlite3
import subprocess
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.errors import (
    CollateError,
    DatasetError,
    DeadWorkerError,
    LoaderError,
    MemoryBudgetError,
    ResumeError,
    WorkerTimeoutError,
    describe,
    describe_exception,
    describe_index,
    describe_indices,
)

HEADLINE = "Dataloader worker thread should be alive"


class Unprintable:
    """Raises whatever it is told to when it is printed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> NoReturn:
        raise self.error

    __str__ = __repr__


class UnprintableError(Exception):
    def __str__(self) -> NoReturn:
        raise ValueError("no text for you")

    __repr__ = __str__


class NonsenseError(Exception):
    def __str__(self) -> Any:
        return 7


class HostileText(str):
    """A str that is one by type only."""

    def __len__(self) -> NoReturn:
        raise RuntimeError("no length")

    def __getitem__(self, key: Any) -> NoReturn:
        raise RuntimeError("no items")

    def __format__(self, specification: str) -> NoReturn:
        raise RuntimeError("no format")


class HostileTextError(Exception):
    def __str__(self) -> str:
        return HostileText("the text itself")


class KeywordError(Exception):
    def __init__(self, *, needed: int) -> None:
        super().__init__(f"needed {needed}")
        self.needed = needed


def cyclic_list() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


def deep_list() -> list[Any]:
    items: list[Any] = []
    for _ in range(100_000):
        items = [items]
    return items


def cyclic_error() -> ValueError:
    error = ValueError("goes round in circles")
    error.args = (error,)
    error.__context__ = KeyError("the context")
    error.__context__.__context__ = error
    return error


AWKWARD_CAUSES: list[Callable[[], BaseException]] = [
    UnprintableError,
    NonsenseError,
    HostileTextError,
    cyclic_error,
    lambda: KeywordError(needed=3),
    lambda: ValueError("x" * 10_000_000),
    lambda: ValueError("lone surrogate \udc80 and NUL \0"),
    lambda: ValueError(Unprintable(SystemExit(1))),
    lambda: ValueError(deep_list()),
    lambda: SystemExit(3),
    lambda: KeyboardInterrupt(),
    lambda: StopIteration(),
    lambda: ExceptionGroup("several", [ValueError("one"), UnprintableError()]),
    lambda: subprocess.CalledProcessError(2, ["decode", "a.jpg"]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
]


@pytest.mark.parametrize("make_cause", AWKWARD_CAUSES)
@pytest.mark.parametrize("error_class", [DeadWorkerError, WorkerTimeoutError])
def test_building_and_printing_never_fails(
    error_class: type[DeadWorkerError], make_cause: Callable[[], BaseException]
) -> None:
    """B01: whatever killed the worker, its name arrives."""
    cause = make_cause()
    error = error_class(
        worker_id=1,
        cause=cause,
        epoch=0,
        batch=2,
        index=Unprintable(RuntimeError()),
        indices=[Unprintable(KeyboardInterrupt()), "\udcff"],
        memory=Unprintable(MemoryError()),
    )
    assert str(error).splitlines()[0].startswith(f"{HEADLINE}: worker 1 died")
    assert error.__cause__ is cause
    assert len(str(error)) < 10_000
    str(error).encode("utf-8")
    repr(error)


@pytest.mark.parametrize("make_cause", AWKWARD_CAUSES)
def test_the_traceback_with_its_cause_can_be_printed(make_cause: Callable[[], BaseException]) -> None:
    output = io.StringIO()
    traceback.print_exception(DeadWorkerError(worker_id=0, cause=make_cause()), file=output)
    assert HEADLINE in output.getvalue()


def test_the_message_names_worker_sample_batch_epoch_and_cause() -> None:
    """B27: the failing sample is in the message, and in the attributes."""
    error = DeadWorkerError(
        worker_id=2,
        cause=OSError("image file is truncated"),
        epoch=4,
        batch=30,
        indices=[7, 123, 9],
        index=123,
        during="fetch",
        rebuilds=3,
    )
    lines = str(error).splitlines()
    assert lines[0] == (
        "Dataloader worker thread should be alive: "
        "worker 2 died in fetch on sample 123 of batch 30, epoch 4: OSError: image file is truncated"
    )
    assert "samples of the batch: [7, 123, 9]" in lines[1]
    assert "3 rebuilt worker(s)" in lines[2]
    assert (error.worker_id, error.epoch, error.batch, error.index) == (2, 4, 30, 123)
    assert (error.indices, error.rebuilds, error.during) == ((7, 123, 9), 3, "fetch")


def test_the_message_says_what_to_do() -> None:
    text = str(DeadWorkerError(worker_id=0, cause=MemoryError(), memory="3.9 of 4.0 GiB"))
    assert "__cause__" in text
    assert 'on_failure="rebuild"' in text
    assert "loader.rebuild()" in text
    assert "memory pressure" in text
    assert "3.9 of 4.0 GiB" in text


def test_d11_an_object_of_another_thread_comes_with_advice_on_where_to_make_it() -> None:
    connection = sqlite3.connect(":memory:")
    caught: list[sqlite3.Error] = []

    def use_in_another_thread() -> None:
        try:
            connection.execute("select 1")
        except sqlite3.Error as error:
            caught.append(error)

    thread = threading.Thread(target=use_in_another_thread)
    thread.start()
    thread.join()
    connection.close()
    assert "worker_init_fn" in str(DeadWorkerError(worker_id=0, cause=caught[0]))
    assert "worker_init_fn" not in str(DeadWorkerError(worker_id=0, cause=sqlite3.ProgrammingError("syntax")))


def test_nothing_is_said_about_what_is_not_known() -> None:
    first, *advice = str(DeadWorkerError(worker_id="reader")).splitlines()
    assert first == f"{HEADLINE}: worker reader died: it ended without a word"
    assert "None" not in "\n".join([first, *advice])


def test_an_error_outside_a_batch_still_names_the_epoch() -> None:
    error = DeadWorkerError(worker_id=1, cause=ValueError("no"), epoch=2, during="worker_init_fn")
    assert "worker 1 died in worker_init_fn in epoch 2: ValueError: no" in str(error)


def test_a_timeout_shows_the_stack_and_advises_on_hangs() -> None:
    error = WorkerTimeoutError(worker_id=0, index=5, timeout=1.5, stack='  File "d.py", line 3, in read\n')
    assert "worker 0 died on sample 5: no progress for 1.5 s" in str(error).splitlines()[0]
    assert str(error).endswith('  File "d.py", line 3, in read')
    assert "timeout=" in str(error)
    assert (error.timeout, error.stack) == (1.5, '  File "d.py", line 3, in read\n')


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (WorkerTimeoutError(worker_id=0, timeout=1), (TimeoutError, DeadWorkerError)),
        (CollateError("no fit"), (ValueError,)),
        (ResumeError("no fit"), (ValueError,)),
        (MemoryBudgetError("too big"), (MemoryError,)),
        (DatasetError("count"), ()),
        (DeadWorkerError(worker_id=0), ()),
    ],
)
def test_every_error_is_a_loader_error_and_what_its_kind_is_usually_caught_as(
    error: LoaderError, also: tuple[type[Exception], ...]
) -> None:
    kinds: tuple[type[Exception], ...] = (LoaderError, *also)
    for kind in kinds:
        with pytest.raises(kind):
            raise error


ERRORS: list[LoaderError] = [
    DatasetError("3 items for 4 indices"),
    ResumeError("length differs", field="length"),
    CollateError("no fit", path="boxes[0]", indices=[1, 2], shapes=[(1,), (2,)], dtypes=[np.dtype("f4")]),
    MemoryBudgetError("too big", needed=5, budget=4, limit=3, source="cgroup"),
    DeadWorkerError(
        worker_id=1, cause=KeywordError(needed=1), epoch=0, batch=1, indices=["a.jpg"], index="a.jpg"
    ),
    WorkerTimeoutError(worker_id=1, timeout=2.0, stack="stack", indices=[3], index=3),
]


def through_pickle(protocol: int) -> Callable[[LoaderError], LoaderError]:
    def duplicate(error: LoaderError) -> LoaderError:
        restored: LoaderError = pickle.loads(pickle.dumps(error, protocol))
        return restored

    duplicate.__name__ = f"pickle protocol {protocol}"
    return duplicate


DUPLICATIONS = [copy.copy, copy.deepcopy, *map(through_pickle, range(pickle.HIGHEST_PROTOCOL + 1))]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("duplicate", DUPLICATIONS)
def test_pickling_and_copying_keep_message_attributes_and_notes(
    error: LoaderError, duplicate: Callable[[LoaderError], LoaderError]
) -> None:
    noted = copy.copy(error)
    noted.add_note("rank 3")
    other = duplicate(noted)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.args == error.args
    assert vars(other) == {**vars(error), "__notes__": ["rank 3"]}


def test_numpy_indices_are_shown_as_plain_numbers() -> None:
    error = DeadWorkerError(worker_id=0, batch=0, indices=list(np.arange(3)), index=np.int64(2))
    assert "on sample 2 of batch 0" in str(error)
    assert "[0, 1, 2]" in str(error)
    assert describe_index(np.str_("a.jpg")) == "'a.jpg'"


def test_many_indices_are_shown_in_part_with_their_number() -> None:
    assert describe_indices(range(16)) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]"
    assert (
        describe_indices(range(17)) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, … 17 in all]"
    )


def test_a_long_text_is_shortened_and_says_how_long_it_was() -> None:
    assert describe("x" * 100, limit=10) == "'xxxxxxxxx… (102 characters)"


def test_a_cyclic_value_is_described() -> None:
    assert describe(cyclic_list()) == "[1, [...]]"


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    assert describe(Unprintable(KeyError("k"))) == "<Unprintable whose repr() raises KeyError>"
    assert describe_exception(UnprintableError()) == (
        "UnprintableError: <UnprintableError whose str() raises ValueError>"
    )
    assert describe_exception(HostileTextError()) == "HostileTextError: the text itself"


@given(text=st.text(alphabet=st.characters(exclude_categories=[])), limit=st.integers(1, 50))
def test_any_text_becomes_printable(text: str, limit: int) -> None:
    describe_exception(ValueError(text)).encode("utf-8")
    describe(text, limit).encode("utf-8")
