"""The tickets of an iterable: its samples in order, each once, and never a look behind its end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.engine.stream import IteratorMemory, StreamSource
from nogil_loader.engine.ticket import Ticket
from nogil_loader.errors import DatasetError
from tests.naming import told


class Letters:
    """Gives ``length`` samples, counts, and may raise on the way."""

    def __init__(self, length: int, raises: dict[int, BaseException] | None = None) -> None:
        self.length = length
        self.raises = raises or {}
        self.opened = 0
        self.asked = 0

    def __iter__(self) -> Iterator[str]:
        self.opened += 1
        return _LettersIterator(self)


class _LettersIterator(Iterator[str]):
    def __init__(self, letters: Letters) -> None:
        self.letters = letters
        self.position = 0
        self.over = False

    def __next__(self) -> str:
        assert not self.over, "asked again after its end or after it raised"
        self.letters.asked += 1
        position = self.position
        if position == self.letters.length:
            self.over = True
            raise StopIteration
        if position in self.letters.raises:
            self.over = True
            raise self.letters.raises.pop(position)
        self.position += 1
        return sample(position)


def sample(position: int) -> str:
    return f"sample {position}"


def source(
    dataset: Any, batch_size: int | None = 2, *, drop_last: bool = False, start: int = 0
) -> StreamSource:
    return StreamSource(
        dataset, batch_size=batch_size, drop_last=drop_last, start=start, memory=IteratorMemory()
    )


def read_all(stream: StreamSource) -> list[Ticket]:
    tickets = []
    while (ticket := stream.read()) is not None:
        stream.advance(ticket)
        tickets.append(ticket)
    return tickets


@given(st.integers(0, 20), st.none() | st.integers(1, 7), st.booleans(), st.integers(0, 20))
def test_tickets_cover_what_was_not_received_each_position_once(
    length: int, batch_size: int | None, drop_last: bool, start: int
) -> None:
    start = min(start, length)
    letters = Letters(length)
    stream = source(letters, batch_size, drop_last=drop_last and batch_size is not None, start=start)
    tickets = read_all(stream)
    size = batch_size or 1
    end = start + (length - start) // size * size if drop_last and batch_size else length
    assert [key for ticket in tickets for key in ticket.keys] == list(range(start, end))
    for number, ticket in enumerate(tickets):
        assert ticket.number == number
        assert ticket.start == start + number * size
        assert ticket.span == len(ticket.keys) == size or ticket is tickets[-1]
        assert ticket.samples == [sample(key) for key in ticket.keys]
    assert stream.ended
    assert stream.read_samples == length
    assert letters.opened == 1
    asked = letters.asked
    assert asked == length + 1
    assert stream.read() is None
    assert letters.asked == asked


def test_it_is_opened_when_it_is_first_read_and_not_before() -> None:
    letters = Letters(3)
    stream = source(letters)
    assert letters.opened == 0
    stream.read()
    assert (letters.opened, letters.asked) == (1, 2)


def test_what_was_not_noted_as_planned_comes_again_after_reopening() -> None:
    letters = Letters(6)
    stream = source(letters)
    first = stream.read()
    assert first is not None
    stream.advance(first)
    lost = stream.read()
    stream.reopen()
    again = stream.read()
    assert again == lost
    assert letters.opened == 2


@pytest.mark.parametrize("breaks_at", range(7))
@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(), GeneratorExit(), KeyboardInterrupt()])
def test_an_error_passes_through_says_where_and_costs_nothing_after_reopening(
    breaks_at: int, error: BaseException
) -> None:
    letters = Letters(7, {breaks_at: error})
    stream = source(letters, 3)
    tickets = []
    with pytest.raises(type(error)) as caught:
        while (ticket := stream.read()) is not None:
            stream.advance(ticket)
            tickets.append(ticket)
    assert caught.value is error
    assert (stream.at, stream.ended) == (breaks_at, False)
    stream.reopen()
    tickets += read_all(stream)
    assert stream.at is None
    assert [key for ticket in tickets for key in ticket.keys] == list(range(7))
    assert [ticket.number for ticket in tickets] == [0, 1, 2]


def test_at_tells_which_sample_is_being_read_and_is_none_in_between() -> None:
    places: list[int | None] = []

    class Looking:
        def __iter__(self) -> Iterator[int]:
            for number in range(5):
                places.append(stream.at)
                yield number

    stream = source(Looking(), 2, start=1)
    assert stream.at is None
    while (ticket := stream.read()) is not None:
        assert stream.at is None
        stream.advance(ticket)
    assert places == [0, 1, 2, 3, 4]


def test_a_shorter_iterable_cannot_be_resumed_behind_its_end() -> None:
    with pytest.raises(DatasetError, match="ended after 3 samples where 5 were read before"):
        source(Letters(3), start=5).read()
    assert source(Letters(5), start=5).read() is None


def test_a_stop_iteration_of_iter_itself_is_no_end() -> None:
    class Stops:
        def __iter__(self) -> Iterator[int]:
            raise StopIteration

    with pytest.raises(DatasetError, match=r"Stops\.__iter__ raised StopIteration") as caught:
        source(Stops()).read()
    assert isinstance(caught.value.__cause__, StopIteration)


@pytest.mark.parametrize("iterator", [(n for n in range(9)), iter(range(9)), map(str, range(9))], ids=told)
def test_an_iterator_that_was_read_before_is_not_taken_for_a_new_one(iterator: Iterator[Any]) -> None:
    memory = IteratorMemory()
    first = StreamSource(iterator, batch_size=2, drop_last=False, start=0, memory=memory)
    assert first.read() is not None
    for stream in (first, StreamSource(iterator, batch_size=2, drop_last=False, start=0, memory=memory)):
        stream.reopen()
        with pytest.raises(DatasetError, match="same iterator as before"):
            stream.read()


def test_a_new_iterator_at_the_address_of_an_old_one_is_new() -> None:
    memory = IteratorMemory()
    for _ in range(20):
        assert not memory.is_used(iter(Letters(1)))
        assert not memory.is_used(n for n in range(3))
        assert not memory.is_used(iter([1, 2]))


def test_iterators_that_can_be_referred_to_weakly_are_not_kept() -> None:
    memory = IteratorMemory()
    generator = (n for n in range(3))
    reference = weakref.ref(generator)
    memory.is_used(generator)
    del generator
    gc.collect()
    assert reference() is None


def test_the_iterator_is_let_go_of_at_the_end_and_at_reopening() -> None:
    released: list[str] = []

    class Closing:
        def __iter__(self) -> Iterator[int]:
            try:
                yield from range(3)
            finally:
                released.append("closed")

    stream = source(Closing())
    stream.read()
    assert released == []
    stream.reopen()
    assert released == ["closed"]
    read_all(stream)
    assert released == ["closed", "closed"]


def test_an_iterator_that_has_ended_is_not_kept() -> None:
    kept: list[weakref.ref[Any]] = []

    class Remembered(Letters):
        def __iter__(self) -> Iterator[str]:
            iterator = super().__iter__()
            kept.append(weakref.ref(iterator))
            return iterator

    stream = source(Remembered(3))
    read_all(stream)
    assert stream.ended
    assert [reference() for reference in kept] == [None]


def test_values_that_look_like_signals_are_values() -> None:
    values = [None, StopIteration(), StopIteration, ValueError("a value"), NotImplemented, ...]
    tickets = read_all(source(values, 4))
    assert [value for ticket in tickets for value in ticket.samples or []] == values
