"""`catch_panics`: whatever ends a callable becomes a value, in the caller's hand and in the listener's."""

from __future__ import annotations

import queue
import threading
from typing import Any, NoReturn

import pytest

from nogil_loader import DeadWorkerError, catch_panics
from nogil_loader.engine import panic
from tests.faults.test_death import SHAPES
from tests.faults.traps import PATIENCE, killed


def fail(error: BaseException) -> NoReturn:
    raise error


@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_is_raised_comes_back_as_a_value(shape: str) -> None:
    error = SHAPES[shape]()
    heard: list[DeadWorkerError] = []
    death = catch_panics(fail, on_death=heard.append)(error)
    assert isinstance(death, DeadWorkerError)
    assert death.__cause__ is error
    assert heard == [death]
    assert death.worker_id == "fail"
    assert str(death).startswith("Dataloader worker thread should be alive: worker fail died: ")


def test_what_is_returned_comes_back_as_it_is() -> None:
    heard: list[DeadWorkerError] = []
    guarded = catch_panics(divmod, on_death=heard.append)
    assert guarded(7, 2) == (3, 1)
    assert heard == []


def test_an_exception_that_is_returned_is_no_death() -> None:
    value = ValueError()
    heard: list[DeadWorkerError] = []
    assert catch_panics(lambda: value, on_death=heard.append)() is value
    assert heard == []


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_the_owner_of_a_thread_that_is_killed_from_outside_hears_of_it(error: type[BaseException]) -> None:
    deaths: queue.SimpleQueue[DeadWorkerError] = queue.SimpleQueue()
    thread = threading.Thread(target=catch_panics(killed(error), name=3, on_death=deaths.put), args=[0])
    thread.start()
    death = deaths.get(timeout=PATIENCE)
    thread.join(PATIENCE)
    assert type(death.__cause__) is error
    assert death.worker_id == 3


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_broken_listener_does_not_bring_back_the_silent_end(error: type[BaseException]) -> None:
    def listen(death: DeadWorkerError) -> NoReturn:
        raise error

    original = ValueError("first")
    death = catch_panics(fail, on_death=listen)(original)
    assert isinstance(death, DeadWorkerError)
    assert death.__cause__ is original


def test_it_is_a_decorator_with_and_without_arguments() -> None:
    @catch_panics
    def plain(value: int) -> int:
        """Says what it does."""
        return 10 // value

    heard: list[DeadWorkerError] = []

    @catch_panics(name="divider", on_death=heard.append)
    def named(value: int) -> int:
        return 10 // value

    assert (plain(2), named(5)) == (5, 2)
    assert (plain.__name__, plain.__doc__) == ("plain", "Says what it does.")
    assert isinstance(plain(0), DeadWorkerError)
    death = named(0)
    assert heard == [death]
    assert "worker divider died: ZeroDivisionError" in str(death)


def test_methods_and_callable_objects_may_be_wrapped() -> None:
    class Counter:
        total = 0

        def add(self, value: int) -> int:
            self.total += value
            return self.total

        def __call__(self, value: int) -> NoReturn:
            raise ValueError(value)

    counter = Counter()
    assert catch_panics(counter.add)(3) == 3
    death = catch_panics(counter)(3)
    assert isinstance(death, DeadWorkerError)
    assert death.worker_id == "Counter"


def test_the_death_carries_a_reading_of_memory_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    death = catch_panics(fail)(ValueError())
    assert isinstance(death, DeadWorkerError)
    assert death.memory is not None
    monkeypatch.setattr(panic, "read_memory", lambda: None)
    death = catch_panics(fail)(ValueError())
    assert isinstance(death, DeadWorkerError)
    assert death.memory is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": 3}, "target=3: expected a callable, not int"),
        ({"target": print, "on_death": 3}, "on_death=3: expected a callable or None"),
        ({"on_death": "put"}, "on_death='put': expected a callable or None"),
    ],
)
def test_what_cannot_be_called_is_refused_when_it_is_given(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        catch_panics(**arguments)
    assert words in str(caught.value)
