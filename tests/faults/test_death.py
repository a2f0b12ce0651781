"""A worker is ended by something, and the consumer is told by what: the exception itself, where, on which sample.

Peers lose the type of the exception, or its attributes; die of a constructor that wants arguments; or take
SystemExit for a worker's orderly end and wait for ever.
"""

from __future__ import annotations

import email.message
import io
import itertools
import subprocess
import threading
import traceback
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from nogil_loader import DataLoader, DeadWorkerError
from tests.faults.traps import (
    KINDS,
    PATIENCE,
    WORKERS,
    Samples,
    Trap,
    cut,
    indices,
    killed,
    make,
    raises,
    until_death,
)
from tests.scripts import RunScript


class NeedsArguments(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.first, self.second = first, second


class KeywordOnly(Exception):
    def __init__(self, *, path: str) -> None:
        super().__init__(path)
        self.path = path


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)


class TextOfWrongType(Exception):
    def __str__(self) -> str:
        return 17  # type: ignore[return-value]


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class UndecidedTruth(Exception):
    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    __hash__ = None  # type: ignore[assignment]


class Falsy(Exception):
    def __len__(self) -> int:
        return 0


class DirectBase(BaseException):
    pass


def chained() -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = UndecidedTruth("inner")
    return error


def its_own_cause() -> Exception:
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    return first


SHAPES: dict[str, Callable[[], BaseException]] = {
    "ordinary": lambda: ValueError("bad sample"),
    "needs arguments": lambda: NeedsArguments(1, 2),
    "keyword-only arguments": lambda: KeywordOnly(path="a.png"),
    "CalledProcessError": lambda: subprocess.CalledProcessError(3, ["convert", "a.png"]),
    "HTTPError": lambda: urllib.error.HTTPError("http://a", 404, "no", email.message.Message(), io.BytesIO()),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "broken __str__": BrokenText,
    "exiting __str__": ExitingText,
    "__str__ of a wrong type": TextOfWrongType,
    "unpicklable": Unpicklable,
    "truth and equality raise": lambda: UndecidedTruth("x"),
    "a cause whose truth raises": chained,
    "falsy": Falsy,
    "its own cause": its_own_cause,
    "lone surrogate": lambda: OSError("\udcff.png"),
    "a megabyte of text": lambda: ValueError("x" * 1_000_000),
    "KeyError": lambda: KeyError("image"),
    "RecursionError": lambda: RecursionError("too deep"),
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(3),
    "SystemExit(0)": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "a BaseException of its own": DirectBase,
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("a"), OSError("b")]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("b")]),
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_b01_b05_whatever_ended_a_worker_is_itself_the_cause(shape: str, kind: str, workers: int) -> None:
    if workers == 0 and shape == "KeyboardInterrupt":
        pytest.skip("without workers Ctrl-C is the consumer's own; see test_interrupt.py")
    error = SHAPES[shape]()
    loader = DataLoader(make(kind, 10, Trap(raises(error), at={5})), batch_size=2, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == [[0, 1], [2, 3]]
    assert death.__cause__ is error
    assert str(death).startswith("Dataloader worker thread should be alive")
    shown = "".join(traceback.format_tb(error.__traceback__))
    assert "in spring\n    raise error" in shown  # the very line
    assert repr(death)
    if kind == "samples":
        assert (death.index, death.indices, death.batch, death.epoch) == (5, (4, 5), 2, 0)
    elif kind == "batches":
        assert (death.index, death.indices, death.batch, death.epoch) == (None, (4, 5), 2, 0)
    else:
        assert (death.index, death.worker_id, death.batch, death.epoch) == (5, "reader", 2, 0)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit, ValueError, NeedsArguments])
def test_b05_a_worker_that_is_killed_from_outside_in_user_code_is_reported(
    error: type[BaseException], kind: str, workers: int
) -> None:
    if error is NeedsArguments:
        error = RuntimeError if workers == 0 else KeyboardInterrupt
    loader = DataLoader(make(kind, 10, Trap(killed(error), at={5})), batch_size=2, num_workers=workers)
    batches, death = until_death(loader)
    assert batches == [[0, 1], [2, 3]]
    assert type(death.__cause__) is error


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", [0, 1, 19, 20, 38, 39])
def test_b09_a_death_at_any_position_ends_the_epoch_with_an_error(
    position: int, kind: str, workers: int, in_order: bool
) -> None:
    trap = Trap(raises(OSError), at={position})
    loader = DataLoader(make(kind, 40, trap), batch_size=2, num_workers=workers, in_order=in_order)
    batches, death = until_death(loader)
    assert isinstance(death.__cause__, OSError)
    assert death.batch == position // 2
    if in_order:
        assert batches == cut(40, 2)[: position // 2]
    else:
        assert all(batch in cut(40, 2) for batch in batches)
        assert [position // 2 * 2, position // 2 * 2 + 1] not in batches


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 3])
def test_b09_a_death_while_the_queue_is_full_is_reported_after_what_was_ready(
    kind: str, workers: int
) -> None:
    died = threading.Event()
    last = 2 * workers * 3 - 1  # the last sample that may be loaded before the consumer takes the first batch

    def die(index: int) -> NoReturn:
        died.set()
        raise OSError(index)

    loader = DataLoader(make(kind, 100, Trap(die, at={last})), batch_size=2, num_workers=workers)
    iterator = iter(loader)
    assert died.wait(PATIENCE)  # the consumer has not asked for anything yet
    batches, death = until_death(iterator)
    assert batches == cut(100, 2)[: last // 2]
    assert death.batch == last // 2


@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_all_workers_may_die_at_once(kind: str) -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def die(index: int) -> NoReturn:
        barrier.wait()
        raise SystemExit(index)

    loader = DataLoader(make(kind, 12, Trap(die, at={0, 1, 2})), num_workers=3)
    batches, death = until_death(loader)
    assert batches == []
    assert death.batch == 0
    assert isinstance(death.__cause__, SystemExit)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_fast_failure_does_not_overtake_earlier_batches(workers: int) -> None:
    failed = threading.Event()

    def fail(index: int) -> NoReturn:
        failed.set()
        raise ValueError(index)

    def wait_for_the_failure(index: int) -> None:
        if workers > 1:
            assert failed.wait(PATIENCE)

    slow, fast = Trap(wait_for_the_failure, at={0, 1}), Trap(fail, at={2})

    def both(index: int) -> None:
        slow(index)
        fast(index)

    batches, death = until_death(DataLoader(Samples(8, both), batch_size=2, num_workers=workers))
    assert batches == [[0, 1]]
    assert death.indices == (2, 3)


def test_b03_the_cause_keeps_its_type_and_attributes(tmp_path: Path) -> None:
    class Files:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            if index == 2:
                (tmp_path / "missing.bin").open()
            return index

    with pytest.raises(DeadWorkerError) as caught:
        list(DataLoader(Files(), num_workers=2))
    cause = caught.value.__cause__
    assert isinstance(cause, FileNotFoundError)
    assert cause.filename == str(tmp_path / "missing.bin")
    assert cause.errno == 2
    assert "missing.bin" in str(caught.value)


@pytest.mark.parametrize("workers", WORKERS)
def test_b27_a_truncated_file_is_named_by_its_index_in_a_shuffled_batch(workers: int) -> None:
    def read(index: int) -> NoReturn:
        raise ValueError("truncated file")

    loader = DataLoader(
        Samples(200, Trap(read, at={123})), batch_size=8, shuffle=True, seed=1, num_workers=workers
    )
    _, death = until_death(loader)
    assert death.index == 123
    assert 123 in death.indices
    assert len(death.indices) == 8
    assert "on sample 123 of batch" in str(death)
    assert "truncated file" in str(death)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_b30_a_dead_iterator_stays_dead_with_the_same_error(kind: str, workers: int) -> None:
    loader = DataLoader(
        make(kind, 20, Trap(raises(ValueError), at={10}, times=1)), batch_size=2, num_workers=workers
    )
    iterator = iter(loader)
    batches: list[list[int]] = []
    errors: list[DeadWorkerError] = []
    for _ in range(30):
        try:
            batches.append(indices(next(iterator)))
        except DeadWorkerError as error:
            errors.append(error)
    assert batches == cut(20, 2)[:5]
    assert len(errors) == 25
    assert all(error is errors[0] for error in errors)
    assert len(traceback.extract_tb(errors[0].__traceback__)) < 10  # it does not grow with each raise


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_loader_says_so_at_iter_until_it_is_rebuilt(kind: str, workers: int) -> None:
    trap = Trap(raises(ValueError), at={5}, times=1)
    loader = DataLoader(make(kind, 10, trap), batch_size=2, num_workers=workers)
    _, death = until_death(loader)
    for _ in range(2):
        with pytest.raises(DeadWorkerError) as caught:
            iter(loader)
        assert caught.value.index == death.index
        assert caught.value.__cause__ is death.__cause__
    loader.rebuild()
    assert [indices(batch) for batch in loader] == cut(10, 2)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["samples", "batches"])
def test_a_state_taken_after_a_death_resumes_at_what_was_not_delivered(
    kind: str, workers: int, in_order: bool
) -> None:
    def new(trap: Trap) -> DataLoader:
        return DataLoader(
            make(kind, 40, trap), batch_size=2, shuffle=True, seed=3, num_workers=workers, in_order=in_order
        )

    loader = new(Trap(raises(ValueError), at={21}, times=1))
    before, _ = until_death(loader)
    state = loader.state_dict()
    loader.rebuild()
    loader.load_state_dict(state)
    after = [indices(batch) for batch in loader]
    other = new(Trap(raises(ValueError), at={}))
    other.load_state_dict(state)
    assert sorted(indices(batch) for batch in other) == sorted(after)
    assert sorted(itertools.chain(*before, *after)) == list(range(40))
    if in_order:
        undisturbed = new(Trap(raises(ValueError), at={}))
        assert before + after == [indices(batch) for batch in undisturbed]


@pytest.mark.parametrize("workers", WORKERS)
def test_objects_that_other_loaders_use_as_signals_are_ordinary_samples(workers: int) -> None:
    values: list[Any] = [None, StopIteration(), SystemExit(3), DeadWorkerError(worker_id=0), Ellipsis, ()]

    class Values:
        def __len__(self) -> int:
            return len(values)

        def __getitem__(self, index: int) -> Any:
            return values[index]

    assert list(DataLoader(Values(), batch_size=None, num_workers=workers)) == values
    received = list(DataLoader(Values(), num_workers=workers, collate_fn=lambda samples: samples[0]))
    assert all(one is other for one, other in zip(received, values, strict=True))


def test_b05_exiting_in_a_worker_neither_ends_the_process_nor_leaves_a_thread(run_script: RunScript) -> None:
    result = run_script(
        """
        import sys, threading
        from nogil_loader import DataLoader, DeadWorkerError

        class Exits:
            def __len__(self):
                return 20
            def __getitem__(self, index):
                if index == 5:
                    sys.exit(3)
                return index

        loader = DataLoader(Exits(), num_workers=4)
        try:
            for batch in loader:
                pass
        except DeadWorkerError as error:
            print(type(error.__cause__).__name__, error.__cause__.code, error.index)
        loader.close()
        print([thread.name for thread in threading.enumerate()])
        """
    )
    assert result.stdout == "SystemExit 3 5\n['MainThread']\n"
    assert result.stderr == ""
    assert result.returncode == 0


def test_a_sample_that_destroys_its_keys_does_not_change_what_is_loaded_again() -> None:
    class Empties:
        calls = 0

        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            raise AssertionError("batches are fetched")

        def __getitems__(self, keys: list[int]) -> list[int]:
            self.calls += 1
            samples = list(keys)
            keys.clear()
            if self.calls == 1:
                raise OSError
            return samples

    batches = list(DataLoader(Empties(), batch_size=3, num_workers=1, on_failure="rebuild"))
    assert np.array_equal(batches, [[0, 1, 2], [3, 4, 5]])
