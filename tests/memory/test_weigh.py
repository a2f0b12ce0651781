"""Samples and batches of every make are weighed, and the owners of a batch's memory are found."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import hypothesis.extra.numpy as nps
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from nogil_loader.memory.weigh import owners_of, size_of


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Record:
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class Slotted:
    first: Any
    second: Any


class OwnList(list):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("reads what is not there yet")


class Sized:
    def __init__(self, nbytes: Any) -> None:
        self.nbytes = nbytes


ARRAY = np.zeros((3, 5), np.float32)
BATCH = np.zeros((8, 5), np.int16)


@given(nps.arrays(nps.scalar_dtypes(), nps.array_shapes(min_dims=0, min_side=0)))
def test_an_array_weighs_its_bytes(array: np.ndarray) -> None:
    assert size_of(array) == array.nbytes
    assert size_of(array[()]) == array[()].nbytes  # a scalar where there are no dimensions


@pytest.mark.parametrize(
    "pack",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, b),
        Pair,
        lambda a, b: {"a": a, 2: b},
        lambda a, b: OrderedDict(a=a, b=b),
        lambda a, b: UserDict(a=a, b=b),
        Record,
        Slotted,
        lambda a, b: OwnList([a, b]),
        lambda a, b: deque([a, b]),
        lambda a, b: [{"deep": (Pair(a, [Record(b, b"")]),)}],
    ],
)
def test_containers_weigh_what_is_in_them(pack: Callable[[Any, Any], Any]) -> None:
    assert size_of(pack(ARRAY, BATCH)) == 60 + 80
    assert size_of(pack(ARRAY, pack(BATCH, "grün"))) == 60 + 80 + 4
    assert {id(owner): used for owner, used in owners_of(pack(ARRAY, BATCH))} == {
        id(ARRAY): 60,
        id(BATCH): 80,
    }


@pytest.mark.parametrize(
    ("leaf", "nbytes"),
    [
        (b"12345", 5),
        (bytearray(7), 7),
        (memoryview(bytearray(12)).cast("i"), 12),
        ("text", 4),
        (np.float64(1), 8),
        (np.datetime64(1, "s"), 8),
        (np.str_("ab"), 2),
        (1.5, sys.getsizeof(1.5)),
        (10**50, sys.getsizeof(10**50)),
        (None, sys.getsizeof(None)),
        (Sized(99), 99),
        (Sized(np.int64(99)), 99),
        (ARRAY[1:, ::2], 24),
        (np.broadcast_to(ARRAY, (4, 3, 5)), 240),
        (np.array(["a", {}], object), 16),
        (np.ma.masked_array(ARRAY, mask=ARRAY == 0), 60),
        (frozenset({b"123", b"1"}), 4),
    ],
)
def test_leaves(leaf: Any, nbytes: int) -> None:
    assert size_of(leaf) == nbytes
    assert size_of([leaf, leaf]) == 2 * nbytes


@pytest.mark.parametrize("nbytes", ["many", -5, True, 1.5, None, len])
def test_an_nbytes_that_is_no_count_is_passed_over(nbytes: Any) -> None:
    sized = Sized(nbytes)
    assert size_of(sized) == sys.getsizeof(sized)
    assert owners_of(sized) == []


def test_a_long_list_of_numbers_is_weighed_by_its_first() -> None:
    class Counted(list):
        """Not a plain list, so that it is read to its end."""

    assert size_of([1.5] * 1_000_000) == 1_000_000 * sys.getsizeof(1.5)
    assert size_of(tuple(np.float32(1) for _ in range(100))) == 400
    assert size_of([1.5, *[ARRAY] * 100]) == sys.getsizeof(1.5) + 6_000
    assert size_of(Counted([1.5] * 100)) == 100 * sys.getsizeof(1.5)


def test_more_containers_than_are_looked_into_are_taken_to_be_alike() -> None:
    many = [(b"12345678", ARRAY) for _ in range(100_000)]
    assert size_of(many) == pytest.approx(100_000 * 68, rel=0.01)


def test_structures_that_hold_themselves_come_to_an_end() -> None:
    ring: list[Any] = [ARRAY]
    ring += [ring, {"back": ring}]
    assert size_of(ring) == 60
    assert owners_of(ring) == [(ARRAY, 60)]
    doubled: list[Any] = [ARRAY]
    for _ in range(200):
        doubled = [doubled, doubled]
    assert size_of(doubled) >= 60
    assert owners_of(doubled) == [(ARRAY, 60)]
    deep: Any = ARRAY
    for _ in range(10_000):
        deep = [deep]
    assert size_of(deep) == 60


class Endless(Mapping[str, Any]):
    """A mapping with ever more of itself."""

    def __getitem__(self, key: str) -> Any:
        return Endless()

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Countless(Endless):
    def __getitem__(self, key: str) -> Any:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, count())


class BreaksOff(Endless):
    def __getitem__(self, key: str) -> Any:
        if key == "self":
            return self
        raise RuntimeError("no more")

    def __iter__(self) -> Iterator[str]:
        return iter(["self", "next"])


class Hostile:
    """Fails at whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __sizeof__(self) -> int:
        raise RuntimeError


class HostileType(type):
    def __hash__(cls) -> int:
        raise RuntimeError


class OfHostileType(metaclass=HostileType):
    pass


def half_made() -> Any:
    @dataclass
    class HalfMade:
        there: Any
        missing: Any = None

    record = HalfMade(ARRAY)
    del record.missing
    HalfMade.missing = property(lambda self: 1 / 0)
    return record


@pytest.mark.parametrize("make", [Endless, Countless, BreaksOff, Hostile, half_made])
def test_no_object_makes_weighing_fail(make: Callable[[], Any]) -> None:
    value = make()
    assert size_of(value) >= 0
    assert isinstance(owners_of(value), list)
    assert size_of([value, ARRAY, (BATCH, value)]) >= 80
    assert sum(used for _, used in owners_of([value, ARRAY])) == 60


def test_a_class_that_cannot_be_looked_up_makes_nothing_fail() -> None:
    assert size_of(OfHostileType()) == size_of([OfHostileType()]) == 0
    assert owners_of([OfHostileType(), ARRAY]) in ([], [(ARRAY, 60)])


TREES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5) | st.just(ARRAY),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(), inner, max_size=4),
)


@given(TREES)
def test_any_tree_weighs_the_sum_of_its_parts(tree: Any) -> None:
    if isinstance(tree, list):
        assert size_of(tree) == sum(map(size_of, tree))
    elif isinstance(tree, dict):
        assert size_of(tree) == sum(map(size_of, tree.values()))
    assert all(weakref.ref(owner)() is owner for owner, _ in owners_of(tree))


def test_an_owner_is_what_every_view_keeps_alive() -> None:
    whole = np.zeros(1000)
    views = {"a": whole[:400].reshape(20, 20), "b": [whole[600:]], "text": "x", "number": 1}
    [(owner, used)] = owners_of(views)
    assert owner is whole
    assert used == 800 * 8


def test_more_views_than_memory_use_all_of_it_once() -> None:
    array = np.zeros(100)
    assert owners_of([array, array[::2], np.broadcast_to(array, (9, 100))]) == [(array, 800)]


def test_a_view_of_much_larger_memory_does_not_own_it() -> None:
    dataset = np.zeros((1000, 10))
    batch = np.zeros((4, 10))
    assert owners_of([dataset[:4], batch]) == [(batch, 320)]
    assert len(owners_of([dataset[:500]])) == 1  # half of it: the rest is not much larger


def test_memory_under_foreign_objects_is_owned_by_the_array_on_it() -> None:
    memory = bytearray(80)
    array = np.frombuffer(memory, np.float64)
    [(owner, used)] = owners_of(array[2:])
    assert owner is array
    assert used == 64


def test_what_declares_no_size_owns_nothing() -> None:
    assert owners_of([object(), print, type, 1, "text", b"bytes", None, np.float32(1), {1, 2}]) == []


@pytest.mark.torch
def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(10, 10, dtype=torch.float64)
    assert size_of(tensor) == size_of({"x": tensor}) == 800
    assert size_of(tensor[:5].t()) == 400
    assert owners_of(tensor[:2]) == []  # a view of more than twice as much


@pytest.mark.torch
def test_a_tensor_s_memory_is_free_when_its_last_view_is_gone() -> None:
    torch = pytest.importorskip("torch")
    freed: list[int] = []
    batch = {"x": torch.zeros(10, 10), "y": torch.from_numpy(np.zeros(50, np.float32))}
    owners = owners_of([batch, batch["x"][1:]])
    assert sorted(used for _, used in owners) == [200, 400]
    for owner, used in owners:
        weakref.finalize(owner, freed.append, used)
    del owners, owner
    view, held = batch["x"][3].numpy(), batch["y"].detach()
    batch.clear()
    gc.collect()
    assert freed == []
    del view
    assert freed == [400]
    del held
    assert freed == [400, 200]


def test_a_storage_that_is_made_anew_for_each_question_owns_nothing() -> None:
    class Tensor(Sized):
        def untyped_storage(self) -> Sized:
            return Sized(self.nbytes)

    tensor = Tensor(1000)
    assert owners_of([tensor]) == [(tensor, 1000)]


def test_images() -> None:
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.new("RGB", (20, 10))
    assert size_of(image) == 600
    assert size_of([image.convert("L"), image.convert("F")]) == 200 + 800
    assert owners_of([image]) == [(image, 600)]
