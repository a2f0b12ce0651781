"""Trees keep their types: dicts, lists, tuples, named tuples, dataclasses, mappings."""

from __future__ import annotations

import time
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, default_collate
from nogil_loader.errors import CollateError

Point = namedtuple("Point", "x y")


class Tuple(tuple[Any, ...]):
    """A plain tuple subclass, which cannot be built like a named tuple."""


class Strict(tuple[Any, ...]):
    def __new__(cls, left: int, right: int) -> Strict:
        return super().__new__(cls, (left, right))


class Tagged(dict[str, Any]):
    tag = "unset"


class TaggedList(list[Any]):
    tag = "unset"


class Shared(MutableMapping[str, Any]):
    """A mapping whose shallow copy shares its storage, as copy.copy makes it of any plain class."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Record:
    value: Any
    extra: int = field(init=False, default=3)
    unset: Any = field(init=False, repr=False)
    kinds: ClassVar[int] = 0


@dataclass
class Checked:
    value: Any

    def __post_init__(self) -> None:
        if not isinstance(self.value, float):
            raise TypeError("a constructor that takes no batch")


def test_a20_strings_and_bytes_are_collected_in_a_list() -> None:
    assert default_collate([{"s": b"abc"}, {"s": b"ABC"}]) == {"s": [b"abc", b"ABC"]}
    assert default_collate(["abc", "de"]) == ["abc", "de"]
    assert default_collate([np.str_("abc"), np.str_("de")]) == ["abc", "de"]
    assert default_collate([np.bytes_(b"a"), b"bc"]) == [b"a", b"bc"]


@pytest.mark.parametrize("count", [1, 2])
def test_a20_lists_of_strings_have_one_structure_at_any_batch_size(count: int) -> None:
    assert default_collate([["x", "y"]] * count) == [["x"] * count, ["y"] * count]


def test_a21_named_tuples_survive() -> None:
    batch = default_collate([Point(1, np.zeros(2)), Point(2, np.ones(2))])
    assert type(batch) is Point
    assert batch.x.tolist() == [1, 2]
    assert batch.y.tolist() == [[0, 0], [1, 1]]


def test_a21_dict_subclasses_keep_their_type_and_attributes() -> None:
    first, second = Tagged(a=1), Tagged(a=2)
    first.tag = "kept"
    batch = default_collate([first, second])
    assert type(batch) is Tagged
    assert batch.tag == "kept"
    assert batch["a"].tolist() == [1, 2]
    assert first == {"a": 1}


def test_a21_list_subclasses_keep_their_type_and_attributes() -> None:
    first = TaggedList([1, 2])
    first.tag = "kept"
    batch = default_collate([first, TaggedList([3, 4])])
    assert type(batch) is TaggedList
    assert batch.tag == "kept"
    assert [column.tolist() for column in batch] == [[1, 3], [2, 4]]
    assert first == [1, 2]


@pytest.mark.parametrize("make", [OrderedDict, UserDict, lambda items: defaultdict(list, items)])
def test_a21_known_mappings_survive(make: Any) -> None:
    batch = default_collate([make({"b": 1, "a": 2}), make({"a": 4, "b": 3})])
    assert type(batch) is type(make({}))
    assert list(batch) == ["b", "a"]
    assert batch["b"].tolist() == [1, 3]


def test_a_defaultdict_is_not_made_to_invent_missing_keys() -> None:
    second = defaultdict(int, {"b": 1})
    with pytest.raises(CollateError, match="lacks 'a'"):
        default_collate([defaultdict(int, {"a": 1}), second])
    assert second == {"b": 1}


def test_a22_tuple_subclasses_survive_without_their_constructor() -> None:
    for make in (lambda a, b: Tuple((a, b)), Strict):
        batch = default_collate([make(1, 2), make(3, 4)])
        assert type(batch) is type(make(0, 0))
        assert [column.tolist() for column in batch] == [[1, 3], [2, 4]]


def test_a22_frozen_dataclasses_with_slots_survive_without_their_constructor() -> None:
    batch = default_collate([Record(np.array(1.0)), Record(np.array(2.0))])
    assert type(batch) is Record
    assert batch.value.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(batch.extra, [3, 3])
    assert not hasattr(batch, "unset")


def test_a22_a_dataclass_whose_constructor_takes_no_arrays_survives() -> None:
    batch = default_collate([Checked(1.0), Checked(2.0)])
    assert type(batch) is Checked
    assert batch.value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [Shared, MappingProxyType])
def test_a22_a_mapping_nobody_can_rebuild_becomes_a_dict(make: Any) -> None:
    first = make({"a": 1, "b": "text"})
    batch = default_collate([first, make({"a": 2, "b": "more"})])
    assert type(batch) is dict
    assert batch["a"].tolist() == [1, 2]
    assert dict(first) == {"a": 1, "b": "text"}


def test_a22_a_tuple_that_is_a_c_structure_becomes_a_tuple() -> None:
    batch = default_collate([time.gmtime(0), time.gmtime(1)])
    assert type(batch) is tuple
    assert batch[5].tolist() == [0, 1]


def test_a22_nested_types_survive_together() -> None:
    samples = [{"p": Point(Record(np.array(value)), [value, "s"])} for value in (1.5, 2.5)]
    batch = default_collate(samples)
    assert type(batch["p"]) is Point
    assert type(batch["p"].x) is Record
    assert batch["p"].x.value.tolist() == [1.5, 2.5]
    assert batch["p"].y[1] == ["s", "s"]


def test_mappings_compare_by_keys_and_not_by_order_or_type() -> None:
    batch = default_collate([{"a": 1, "b": 2}, OrderedDict(b=4, a=3)])
    assert {key: column.tolist() for key, column in batch.items()} == {"a": [1, 3], "b": [2, 4]}


@pytest.mark.parametrize("empty", [{}, [], ()])
def test_empty_containers_stay_empty_containers(empty: Any) -> None:
    assert default_collate([empty, empty]) == empty


def test_objects_without_an_array_form_are_collected_in_a_list() -> None:
    things = [object(), ValueError("a value, not a failure"), {1, 2}]
    assert default_collate(things) == things


def test_a_blank_that_cannot_be_written_to_falls_back_to_the_plain_type() -> None:
    class Locked(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            raise TypeError("locked")

    class Vain(list[Any]):
        def __copy__(self) -> Vain:
            return self

    assert type(default_collate([Locked(a=1)])) is dict
    sample = Vain([1])
    assert type(default_collate([sample])) is list
    assert sample == [1]


@pytest.mark.parametrize(
    "samples",
    [
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1, "b": 2}, {"a": 1}],
        [{"a": 1}, {"b": 1}],
        [{"a": 1}, [1]],
        [[1], {"a": 1}],
        [Point(1, 2), (1, 2)],
        [(1, 2), Point(1, 2)],
        [Record(1), {"value": 1}],
        ["text", 1],
        [1, "text"],
        [object(), np.zeros(2)],
        [np.zeros(2), object()],
        [{"a": {"b": 1}}, {"a": 1}],
    ],
)
def test_samples_of_different_structure_are_refused(samples: list[Any]) -> None:
    with pytest.raises(CollateError) as caught:
        default_collate.collate(samples, ["first", "second"])
    assert caught.value.indices == ("first", "second")
    assert "'second' (position 1 in the batch)" in str(caught.value)


def test_a_key_error_of_the_samples_own_making_is_not_taken_for_a_missing_key() -> None:
    class Broken(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise KeyError("the sample's own")

    with pytest.raises(KeyError, match="own"):
        default_collate([{"a": 1}, Broken(a=1)])


def test_per_key_collates_parts_of_a_sample_in_their_own_way() -> None:
    collate = DefaultCollate(per_key={"meta": DefaultCollate(none="list")})
    assert collate([{"meta": 1, "x": "a"}, {"meta": None, "x": "b"}]) == {"meta": [1, None], "x": ["a", "b"]}
    with pytest.raises(CollateError, match="'x'"):
        collate([{"meta": 1, "x": "a"}, {"meta": 1, "x": None}])


def test_arguments_are_checked_when_they_are_given() -> None:
    with pytest.raises(ValueError, match="none='drop': expected 'raise' or 'list'"):
        DefaultCollate(none="drop")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"per_key\['a'\]"):
        DefaultCollate(per_key={"a": np.stack})  # type: ignore[dict-item]
    assert hash(DefaultCollate()) == hash(default_collate)
    assert DefaultCollate() == default_collate
