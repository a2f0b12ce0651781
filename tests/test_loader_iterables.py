"""An iterable dataset is read once per epoch, by one reader, and each of its samples is delivered once."""

from __future__ import annotations

import inspect
import random
import threading
import warnings
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nogil_loader as nl
from tests.loading import Counter, Stream, samples_of
from tests.naming import told

WORKERS = (0, 1, 2, 5)


class Watched(Stream):
    """Counts what is asked of it, and refuses to be read by two at once or past its end."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.opened = 0
        self.reading = threading.Lock()
        self.readers: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        return _Watcher(self)


class _Watcher(Iterator[int]):
    def __init__(self, stream: Watched) -> None:
        self.stream = stream
        self.position = 0
        self.ended = False

    def __next__(self) -> int:
        assert self.stream.reading.acquire(blocking=False), "read by two threads at once"
        try:
            assert not self.ended, "asked again after its end"
            self.stream.readers.add(threading.get_ident())
            if self.position == self.stream.length:
                self.ended = True
                raise StopIteration
            self.position += 1
            return self.position - 1
        finally:
            self.stream.reading.release()


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("batch_size", [1, 7, 100, 101])
@pytest.mark.parametrize("in_order", [True, False])
def test_d23_an_iterable_is_opened_once_per_epoch_and_never_asked_after_its_end(
    num_workers: int, batch_size: int, in_order: bool
) -> None:
    stream = Watched(100)
    with nl.DataLoader(stream, batch_size, num_workers=num_workers, in_order=in_order) as loader:
        for epoch in range(1, 4):
            iterator = iter(loader)
            samples = samples_of(iterator)
            assert (samples if in_order else sorted(samples)) == list(range(100))
            assert list(iterator) == []
            assert stream.opened == epoch
            assert len(stream.readers) == 1
            stream.readers.clear()


@settings(max_examples=40)
@given(st.integers(0, 20), st.integers(1, 8), st.sampled_from(WORKERS), st.booleans())
def test_batches_are_cut_across_all_workers_and_only_the_last_may_be_incomplete(
    length: int, batch_size: int, num_workers: int, drop_last: bool
) -> None:
    with nl.DataLoader(Stream(length), batch_size, num_workers=num_workers, drop_last=drop_last) as loader:
        batches = [batch.tolist() for batch in loader]
    kept = length // batch_size * batch_size if drop_last else length
    assert batches == [list(range(kept))[start : start + batch_size] for start in range(0, kept, batch_size)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batch_size_none_hands_the_samples_of_an_iterable_through(num_workers: int) -> None:
    samples = [object(), None, "text", np.arange(2), StopIteration("a value")]

    class Objects:
        def __iter__(self) -> Iterator[Any]:
            return iter(samples)

    with nl.DataLoader(Objects(), None, num_workers=num_workers) as loader:
        assert all(came is kept for came, kept in zip(loader, samples, strict=True))


def test_an_endless_iterable_is_read_only_as_far_ahead_as_agreed() -> None:
    read = Counter()

    class Endless:
        def __iter__(self) -> Iterator[int]:
            while True:
                yield read.add()

    with nl.DataLoader(Endless(), 4, num_workers=2, prefetch_factor=2) as loader:
        iterator = iter(loader)
        for batches in range(1, 20):
            next(iterator)
            # Those delivered, the six that may exist beside them, and the one that is being read.
            assert read.count <= 4 * (batches + 2 * (2 + 1) + 1)
        with pytest.raises(TypeError, match="__len__"):
            len(loader)
        assert (iterator.progress().items_processed, iterator.progress().items_total) == (76, None)


# Lengths


@pytest.mark.parametrize(
    ("length", "batch_size", "batches"), [(1001, 10, 101), (1000, 10, 100), (0, 3, 0), (5, None, 5)]
)
def test_d22_len_counts_batches_of_an_iterable_with_a_length(
    length: int, batch_size: int | None, batches: int
) -> None:
    class Sized(Stream):
        def __len__(self) -> int:
            return self.length

    loader = nl.DataLoader(Sized(length), batch_size, num_workers=2)
    assert len(loader) == batches == len(list(loader))
    if batch_size is not None:
        dropping = nl.DataLoader(Sized(length), batch_size, num_workers=2, drop_last=True)
        assert len(dropping) == length // batch_size == len(list(dropping))


def test_d22_len_without_a_length_is_a_type_error() -> None:
    class Refusing(Stream):
        def __len__(self) -> int:
            raise TypeError("endless")

    for stream in (Stream(5), Refusing(5)):
        loader = nl.DataLoader(stream, 2, num_workers=2)
        with pytest.raises(TypeError, match=r"len\(loader\).*__len__"):
            len(loader)
        assert samples_of(loader) == list(range(5))


@pytest.mark.parametrize("told", [3, 9])
@pytest.mark.parametrize("num_workers", [0, 4])
def test_d22_a_wrong_length_truncates_nothing_and_is_said_once(told: int, num_workers: int) -> None:
    class Liar(Stream):
        def __len__(self) -> int:
            return told

    with (
        warnings.catch_warnings(record=True) as caught,
        nl.DataLoader(Liar(6), 2, num_workers=num_workers) as loader,
    ):
        warnings.simplefilter("always")
        for _ in range(3):
            delivered = []
            line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
            for batch in loader:
                delivered += batch.tolist()
            assert delivered == list(range(6))
    (warning,) = caught
    assert f"len(Liar) is {told}" in str(warning.message)
    assert "6 samples" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, line)


# Iterators that cannot be had twice


@pytest.mark.parametrize("num_workers", [0, 4])
def test_b22_a_generator_function_is_read_by_one_reader_whatever_the_number_of_workers(
    num_workers: int,
) -> None:
    with nl.DataLoader(Stream(50), 3, num_workers=num_workers) as loader:
        for _ in range(2):
            assert samples_of(loader) == list(range(50))


@pytest.mark.parametrize("num_workers", [0, 4])
@pytest.mark.parametrize("kind", ["generator object", "the same generator each time", "iterator of a list"])
def test_b22_an_iterator_that_is_handed_out_twice_is_an_error_that_says_so(
    num_workers: int, kind: str
) -> None:
    class Same:
        def __init__(self, iterator: Iterator[int]) -> None:
            self.iterator = iterator

        def __iter__(self) -> Iterator[int]:
            return self.iterator

    dataset: Any = {
        "generator object": (number for number in range(10)),
        "the same generator each time": Same(number for number in range(10)),
        "iterator of a list": Same(iter(list(range(10)))),
    }[kind]
    with nl.DataLoader(dataset, 4, num_workers=num_workers) as loader:
        assert samples_of(loader) == list(range(10))
        with pytest.raises(nl.DeadWorkerError, match="same iterator as before") as caught:
            list(loader)
        assert caught.value.worker_id == "reader"
        assert isinstance(caught.value.__cause__, nl.DatasetError)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_generator_that_was_left_half_way_is_not_taken_for_a_new_one(num_workers: int) -> None:
    with nl.DataLoader((number for number in range(30)), 2, num_workers=num_workers) as loader:
        iterator = iter(loader)
        next(iterator)
        iterator.close()
        with pytest.raises(nl.DeadWorkerError, match="same iterator as before"):
            list(loader)


# Resuming


def resumed(dataset: Any, state: dict[str, Any], **arguments: Any) -> nl.DataLoader:
    loader = nl.DataLoader(dataset, **arguments)
    loader.load_state_dict(state)
    return loader


class BufferShuffled(Stream):
    """A stream shuffled in a buffer, with a seed of its own: the same each time."""

    def __iter__(self) -> Iterator[int]:
        dice = random.Random(0)
        buffer: list[int] = []
        for sample in super().__iter__():
            buffer.append(sample)
            if len(buffer) == 10:
                yield buffer.pop(dice.randrange(10))
        yield from buffer


@pytest.mark.parametrize("num_workers", [0, 3])
def test_d17_a_buffer_shuffle_resumes_exactly_with_one_warning(num_workers: int) -> None:
    with nl.DataLoader(BufferShuffled(100), 1, num_workers=num_workers) as loader:
        iterator = iter(loader)
        received = samples_of(islice(iterator, 37))
        state = loader.state_dict()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with resumed(BufferShuffled(100), state, batch_size=8, num_workers=num_workers) as again:
            line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
            iterator = iter(again)
            rest = samples_of(iterator)
            again.load_state_dict(state)
            assert samples_of(again) == rest
            assert sorted(samples_of(again)) == list(range(100))
    assert sorted(received + rest) == list(range(100))
    assert received + rest == list(BufferShuffled(100))
    (warning,) = caught
    assert "reads over the 37 samples" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, line)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resuming_at_the_beginning_or_after_the_end_of_an_epoch_reads_over_nothing(num_workers: int) -> None:
    with nl.DataLoader(Stream(9), 2, num_workers=num_workers) as loader:
        before = loader.state_dict()
        assert samples_of(loader) == list(range(9))
        after = loader.state_dict()
    for state in (before, after):  # a warning would be an error here
        with resumed(Stream(9), state, num_workers=num_workers) as again:
            assert samples_of(again) == list(range(9))


# Failures


@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("breaks_at", [0, 1, 5, 9])
@pytest.mark.parametrize("error", [ValueError("bad shard"), SystemExit(3), KeyError("x")], ids=told)
def test_an_iterable_that_raises_gives_what_came_before_and_then_an_error(
    num_workers: int, breaks_at: int, error: BaseException
) -> None:
    class Breaking(Stream):
        def __iter__(self) -> Iterator[int]:
            for sample in super().__iter__():
                if sample == breaks_at:
                    raise error
                yield sample

    with nl.DataLoader(Breaking(10), 2, num_workers=num_workers) as loader:
        received = []
        with pytest.raises(nl.DeadWorkerError) as caught:
            for batch in loader:
                received += batch.tolist()
        assert received == list(range(breaks_at // 2 * 2))
        assert caught.value.worker_id == "reader"
        assert caught.value.index == breaks_at
        assert caught.value.__cause__ is error
        assert loader.state_dict()["received"] == len(received)


@pytest.mark.parametrize("num_workers", [0, 3])
def test_a_rebuilt_reader_goes_on_without_loss_or_repetition(num_workers: int) -> None:
    class Moody(Stream):
        broken = {3, 4, 11}

        def __iter__(self) -> Iterator[int]:
            for sample in super().__iter__():
                if sample in self.broken:
                    self.broken.discard(sample)
                    raise ConnectionError(sample)
                yield sample

    Moody.broken = {3, 4, 11}
    with nl.DataLoader(Moody(20), 3, num_workers=num_workers, on_failure="rebuild") as loader:
        assert samples_of(loader) == list(range(20))
        assert loader.statistics().rebuilds == 3


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_one_shot_iterable_that_cannot_be_opened_anew_keeps_its_own_error(num_workers: int) -> None:
    error = ConnectionError("gone")

    def numbers() -> Any:
        yield from range(5)
        raise error

    with (
        nl.DataLoader(numbers(), 2, num_workers=num_workers, on_failure="rebuild") as loader,
        pytest.raises(nl.DeadWorkerError) as caught,
    ):
        list(loader)
    chain: list[BaseException | None] = [caught.value]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert error in chain


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_collate_failure_in_an_iterables_batch_names_running_indices(num_workers: int) -> None:
    class Ragged(Stream):
        def __iter__(self) -> Iterator[Any]:
            for sample in super().__iter__():
                yield np.zeros(3 if sample == 5 else 2)

    with (
        nl.DataLoader(Ragged(8), 4, num_workers=num_workers) as loader,
        pytest.raises(nl.DeadWorkerError) as caught,
    ):
        list(loader)
    assert caught.value.indices == (4, 5, 6, 7)
    assert caught.value.index == 5


def test_sample_rng_in_a_collate_fn_is_keyed_by_the_running_index() -> None:
    def collate(samples: list[int]) -> list[float]:
        return [nl.sample_rng(index).random() for index in samples]

    def run(num_workers: int, batch_size: int) -> list[float]:
        loader = nl.DataLoader(Stream(12), batch_size, num_workers=num_workers, seed=3, collate_fn=collate)
        return samples_of(loader)

    assert run(0, 4) == run(3, 5)
    assert len(set(run(0, 4))) == 12


@pytest.mark.parametrize("num_workers", [0, 2])
def test_sample_rng_inside_an_iterable_says_that_there_is_no_sample_yet(num_workers: int) -> None:
    class Drawing(Stream):
        def __iter__(self) -> Iterator[Any]:
            yield nl.sample_rng().random()

    with (
        nl.DataLoader(Drawing(3), num_workers=num_workers) as loader,
        pytest.raises(nl.DeadWorkerError) as caught,
    ):
        list(loader)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "sample_rng" in str(caught.value)


@pytest.mark.parametrize("outer_workers", [0, 2])
def test_an_iterable_inside_another_loaders_dataset_does_not_see_the_outer_sample(outer_workers: int) -> None:
    class Drawing(Stream):
        def __iter__(self) -> Iterator[Any]:
            yield nl.get_worker_info() is None
            try:
                nl.sample_rng()
            except RuntimeError:
                yield True
            else:
                yield False

    class Outer:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            nl.sample_rng()
            with nl.DataLoader(Drawing(1), 2, num_workers=1) as inner:
                return next(iter(inner))

    for batch in nl.DataLoader(Outer(), 2, num_workers=outer_workers):
        assert batch.tolist() == [[True, True]] * 2


def test_an_iterable_is_let_go_of_when_its_epoch_is_left() -> None:
    class Closing(Stream):
        closed = Counter()

        def __iter__(self) -> Iterator[int]:
            try:
                yield from super().__iter__()
            finally:
                self.closed.add()

    for num_workers in (0, 2):
        Closing.closed = Counter()
        stream = Closing(1000)
        with nl.DataLoader(stream, num_workers=num_workers) as loader:
            iterator = iter(loader)
            next(iterator)
            iterator.close()
            del iterator
            Closing.closed.wait_for(1)
        reference = weakref.ref(stream)
        del stream, loader
        assert reference() is None


class Resetting:
    """The hand-written form: its own iterator, which starts anew in ``__iter__``."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.position = 0

    def __iter__(self) -> Resetting:
        self.position = 0
        return self

    def __next__(self) -> int:
        if self.position == self.length:
            raise StopIteration
        self.position += 1
        return self.position - 1


class Exhausted(Resetting):
    """The same, but without starting anew."""

    def __iter__(self) -> Exhausted:
        return self


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("length", [0, 7])
def test_b22_an_iterator_that_starts_anew_serves_every_epoch(workers: int, length: int) -> None:
    loader = nl.DataLoader(Resetting(length), batch_size=3, num_workers=workers)
    for _ in range(3):
        assert [int(n) for batch in loader for n in batch] == list(range(length))
    loader.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_b22_an_iterator_of_ones_own_that_has_nothing_more_to_give_is_no_empty_epoch(workers: int) -> None:
    loader = nl.DataLoader(Exhausted(7), batch_size=3, num_workers=workers)
    assert [int(n) for batch in loader for n in batch] == list(range(7))
    with pytest.raises(nl.DeadWorkerError) as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, nl.DatasetError)
    assert "nothing more to give" in str(caught.value)
    loader.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [Resetting, Exhausted])
def test_b22_an_iterator_of_ones_own_that_was_left_half_way_is_not_trusted(
    kind: type[Resetting], workers: int
) -> None:
    """Nobody can tell whether it goes on where it is, which would lose samples without a word."""
    loader = nl.DataLoader(kind(1000), batch_size=2, num_workers=workers)
    for _ in loader:
        break
    with pytest.raises(nl.DeadWorkerError, match="left half-way"):
        list(loader)
    loader.close()


class Hiccup(Exhausted):
    """Raises once on the way."""

    failed = False

    def __next__(self) -> int:
        if self.position == 5 and not self.failed:
            self.failed = True
            raise ConnectionError("hiccup")
        return super().__next__()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_g2_an_iterable_that_cannot_be_opened_anew_names_what_made_it_necessary(workers: int) -> None:
    loader = nl.DataLoader(Hiccup(20), batch_size=2, num_workers=workers, on_failure="rebuild")
    batches: list[Any] = []
    with pytest.raises(nl.DeadWorkerError, match="ConnectionError: hiccup") as caught:
        batches.extend(batch.tolist() for batch in loader)
    assert batches == [[0, 1], [2, 3]]
    assert isinstance(caught.value.__cause__, nl.DatasetError)
    assert isinstance(caught.value.__cause__.__cause__, ConnectionError)
    loader.close()
