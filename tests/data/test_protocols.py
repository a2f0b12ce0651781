"""What counts as a dataset, and which of its methods may be used to read it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nogil_loader.data import (
    ArrayDataset,
    BatchSource,
    IterableDataset,
    MapDataset,
    Mapper,
    Subset,
    batched_fetch,
    batched_stream,
    check_dataset,
    dataset_length,
    is_map_style,
    stream_samples,
)
from nogil_loader.data.protocols import as_positional, check_map_style
from nogil_loader.errors import DatasetError
from tests.data.models import Batched, Forwarding, OneByOne, OneTooFew, Stream, Unsized


class Length:
    """A sized object whose ``__len__`` does what it is told."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def __len__(self) -> Any:
        return self.answer()


def raising(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "dataset",
    [[1], (1,), {"a": 1}, range(3), np.arange(3), OneByOne([1]), Batched([1]), Unsized(), Mapper([1], str)],
    ids=lambda dataset: type(dataset).__name__,
)
def test_whatever_can_be_indexed_is_map_style(dataset: Any) -> None:
    assert is_map_style(dataset)
    check_dataset(dataset)
    check_map_style(dataset)


@pytest.mark.parametrize("dataset", [Stream(), iter([1]), {1, 2}, (i for i in range(3))], ids=repr)
def test_what_can_only_be_iterated_is_a_dataset_but_not_map_style(dataset: Any) -> None:
    assert not is_map_style(dataset)
    check_dataset(dataset)
    with pytest.raises(TypeError, match=r"data=.*can only be iterated"):
        check_map_style(dataset, "data")


def test_a_getitem_switched_off_by_none_does_not_count() -> None:
    class Off(OneByOne):
        __getitem__ = None  # type: ignore[assignment]

    assert not is_map_style(Off([1]))
    with pytest.raises(TypeError, match="neither"):
        check_dataset(Off([1]))


@pytest.mark.parametrize("dataset", [None, 3, object(), len], ids=repr)
def test_what_can_be_neither_indexed_nor_iterated_is_refused_with_what_is_missing(dataset: Any) -> None:
    with pytest.raises(TypeError, match=r"train=.*neither __getitem__ nor __iter__.*__len__"):
        check_dataset(dataset, "train")


def test_a_class_passed_instead_of_an_instance_is_told_so() -> None:
    with pytest.raises(TypeError, match=r"dataset=OneByOne: .*instance"):
        check_dataset(OneByOne)


def test_an_unprintable_object_is_refused_with_a_message_all_the_same() -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise SystemExit("no")

    with pytest.raises(TypeError, match="Unprintable"):
        check_dataset(Unprintable())


def test_the_protocols_describe_plain_python_classes() -> None:
    map_style: MapDataset[Any] = OneByOne([1])
    iterable: IterableDataset[int] = Stream()
    assert isinstance(map_style, MapDataset)
    assert not isinstance(Unsized(), MapDataset)
    assert isinstance(iterable, IterableDataset)
    assert not isinstance(OneByOne([1]), IterableDataset)


@pytest.mark.parametrize(
    ("dataset", "length"),
    [
        ([1, 2], 2),
        (np.zeros((4, 2)), 4),
        (np.array(3.0), None),
        (Stream(), None),
        (Length(lambda: 5), 5),
        (Length(lambda: np.int32(5)), 5),
        (Length(lambda: sys.maxsize + 1), sys.maxsize + 1),
        (Length(raising(TypeError("unknown"))), None),
        (Length(raising(NotImplementedError())), None),
    ],
)
def test_a_length_is_told_or_it_is_none(dataset: Any, length: int | None) -> None:
    assert dataset_length(dataset) == length


def test_a_length_that_is_no_count_is_an_error_and_not_unknown() -> None:
    with pytest.raises(TypeError, match=r"len\(Length\)=3.5"):
        dataset_length(Length(lambda: 3.5))
    with pytest.raises(ValueError, match=r"len\(Length\)=-1"):
        dataset_length(Length(lambda: -1))
    with pytest.raises(OSError, match="disk"):
        dataset_length(Length(raising(OSError("disk"))))


def test_a_positional_dataset_has_a_length_and_no_keys() -> None:
    assert as_positional("x", [5, 6]) == 2
    with pytest.raises(TypeError, match=r"x=.*by key"):
        as_positional("x", {"a": 1})
    with pytest.raises(TypeError, match=r"x=.*Unsized does not tell its length"):
        as_positional("x", Unsized())
    with pytest.raises(TypeError, match=r"x=.*Mapper does not tell its length"):
        as_positional("x", Mapper(Unsized(), str))
    with pytest.raises(TypeError, match=r"x=.*can only be iterated"):
        as_positional("x", Stream())


# --- the batched fetch, and when it must not be used -------------------------------------------------------


def test_the_batched_fetch_of_a_dataset_is_found() -> None:
    fetch = batched_fetch(Batched("abc"))
    assert fetch is not None
    assert fetch([2, 0]) == ["c", "a"]
    assert batched_fetch(OneByOne("abc")) is None
    assert batched_fetch([1, 2]) is None


def test_d26_a_subclass_that_overrides_getitem_alone_wins_over_the_inherited_batched_fetch() -> None:
    class Augmented(Batched):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10

    class Deeper(Augmented):
        pass

    for cls in (Augmented, Deeper):
        assert batched_fetch(cls([1, 2])) is None
        assert list(stream_samples(cls([1, 2]), [1, 0])) == [20, 10]


def test_d26_a_mixin_that_overrides_getitem_wins_over_the_class_after_it() -> None:
    class Augment:
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10  # type: ignore[misc]

    class Augmented(Augment, Batched):
        pass

    assert batched_fetch(Augmented([1])) is None


def test_a_subclass_that_overrides_both_is_fetched_in_batches() -> None:
    class Both(Batched):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) * 10

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [sample * 10 for sample in super().__getitems__(indices)]

    fetch = batched_fetch(Both([1, 2]))
    assert fetch is not None
    assert fetch([1]) == [20]


def test_d26_a_wrapper_that_forwards_attributes_is_not_bypassed() -> None:
    wrapper = Forwarding(Batched([1, 2]))
    assert wrapper.__getitems__([0]) == [1], "the trap is set"
    assert batched_fetch(wrapper) is None
    assert list(stream_samples(wrapper, [0, 1])) == [-1, -2]


def test_a_method_set_on_the_object_itself_counts() -> None:
    dataset: Any = OneByOne([1, 2])
    dataset.__getitems__ = lambda indices: [100 + index for index in indices]
    fetch = batched_fetch(dataset)
    assert fetch is not None
    assert fetch([1]) == [101]


@pytest.mark.parametrize("value", [None, 3])
def test_a_batched_fetch_that_cannot_be_called_is_absent(value: Any) -> None:
    class Off(Batched):
        __getitems__ = value

    assert batched_fetch(Off([1])) is None
    switched_off: Any = Batched([1])
    switched_off.__getitems__ = value
    assert batched_fetch(switched_off) is None


@pytest.mark.parametrize("name", ["take", "stream"])
def test_methods_of_other_libraries_that_have_our_names_are_left_alone(name: str) -> None:
    class Namesake(OneByOne):
        def take(self, indices: Any) -> Any:
            raise AssertionError

        stream = take

    assert batched_fetch(np.arange(3), name) is None
    assert batched_fetch(Namesake([1]), name) is None


def test_d26_an_override_of_either_fetch_keeps_take_from_being_used() -> None:
    class Single(ArrayDataset):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index) + 1

    class Many(ArrayDataset):
        def __getitems__(self, indices: Any) -> list[Any]:
            return [sample + 1 for sample in super().__getitems__(indices)]

    assert batched_fetch(ArrayDataset(np.arange(3)), "take") is not None
    assert batched_fetch(Single(np.arange(3)), "take") is None
    assert batched_fetch(Many(np.arange(3)), "take") is None
    assert Subset(Single(np.arange(3)), [0]).take is None


def test_a_batch_source_without_take_is_read_by_samples() -> None:
    class Source(OneByOne, BatchSource):
        @property
        def take(self) -> None:
            return None

    assert batched_fetch(Source([1]), "take") is None


def test_d26_a_wrong_number_of_samples_is_an_error_that_names_both_numbers() -> None:
    with pytest.raises(DatasetError, match=r"OneTooFew.__getitems__ was asked for 3 samples and returned 2"):
        stream_samples(OneTooFew("abcd"), [0, 1, 2])


def test_a_failure_of_the_whole_fetch_is_raised_before_a_sample_is_drawn() -> None:
    class Failing(Batched):
        def __getitem__(self, index: int) -> Any:
            raise AssertionError

        def __getitems__(self, indices: list[int]) -> list[Any]:
            raise ConnectionError("server")

    with pytest.raises(ConnectionError):
        stream_samples(Failing([1]), [0])


def test_a_batched_fetch_may_spoil_the_list_that_it_is_given() -> None:
    class Sorting(Batched):
        def __getitem__(self, index: int) -> Any:
            raise AssertionError

        def __getitems__(self, indices: list[int]) -> Iterator[Any]:  # type: ignore[override]
            samples = [self.samples[index] for index in indices]
            indices.clear()
            return iter(samples)

    keys = [2, 0]
    assert list(stream_samples(Sorting("abc"), keys)) == ["c", "a"]
    assert keys == [2, 0]


def test_samples_in_memory_are_not_worth_a_batched_fetch() -> None:
    assert batched_stream(ArrayDataset(np.arange(3))) is None
    assert batched_stream(Subset(ArrayDataset(np.arange(3)), [0])) is None
    assert batched_stream(Subset(Batched([1]), [0])) is not None


# --- torch -------------------------------------------------------------------------------------------------


@pytest.mark.torch
def test_torch_datasets_are_told_apart_by_what_they_are() -> None:
    pytest.importorskip("torch")
    import torch
    from torch.utils import data

    class Map(data.Dataset):
        def __getitem__(self, index: int) -> int:
            return index

        def __len__(self) -> int:
            return 4

    class Forgot(data.Dataset):
        """Defines neither: torch's own ``__getitem__``, which raises, must not count."""

    class Iterates(data.Dataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    class Iterable(data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    class Both(Iterable):
        def __getitem__(self, index: int) -> int:
            raise AssertionError

    for dataset in (Map(), data.Subset(Map(), [1]), data.TensorDataset(torch.zeros(2)), torch.zeros(2)):
        assert is_map_style(dataset), dataset
        check_dataset(dataset)
    for dataset in (Iterates(), Iterable(), Both(), data.ChainDataset([Iterable()])):
        assert not is_map_style(dataset), dataset
        check_dataset(dataset)
    assert not is_map_style(Forgot())
    with pytest.raises(TypeError, match="Forgot defines neither"):
        check_dataset(Forgot())
    assert dataset_length(Iterable()) is None
    assert dataset_length(Forgot()) is None
    assert dataset_length(Map()) == 4


@pytest.mark.torch
def test_d26_a_subclass_of_torchs_subset_that_overrides_getitem_alone_wins() -> None:
    pytest.importorskip("torch")
    from torch.utils import data

    class Doubled(data.Subset):
        def __init__(self, dataset: Any, indices: list[int]) -> None:
            self.dataset, self.indices = (
                dataset,
                indices,
            )  # torch's own refuses such a class in newer versions

        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index) * 2

    inner: Any = [1, 2, 3]
    assert batched_fetch(data.Subset(inner, [2, 0])) is not None
    assert batched_fetch(Doubled(inner, [2, 0])) is None
    assert list(stream_samples(Doubled(inner, [2, 0]), [0, 1])) == [6, 2]


@pytest.mark.torch
def test_torch_datasets_nest_in_ours_and_ours_in_torchs() -> None:
    pytest.importorskip("torch")
    from torch.utils import data

    torch_subset: Any = data.Subset([10, 11, 12, 13], [3, 1, 0])
    mapped = Mapper(Subset(torch_subset, [2, 0]), str)
    assert list(mapped) == ["10", "13"]
    assert mapped.__getitems__ is not None
    assert mapped.__getitems__([1, 0]) == ["13", "10"]
    loader = data.DataLoader(mapped, batch_size=2)
    assert list(loader) == [["10", "13"]]
