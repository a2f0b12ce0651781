from __future__ import annotations

import sys
from enum import Enum
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.plan.digest import KeyDigest
from tests.scripts import RunScript

keys_of_any_kind = st.one_of(
    st.integers(),
    st.text(max_size=8),
    st.booleans(),
    st.none(),
    st.tuples(st.text(max_size=3), st.integers()),
)


def digest_of(keys: list[object], start: int = 0) -> KeyDigest:
    digest = KeyDigest()
    digest.add(start, keys)
    return digest


@given(st.lists(keys_of_any_kind, max_size=12), st.data())
def test_pieces_in_any_order_give_the_digest_of_the_whole(keys: list[object], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(keys)))
    digest = KeyDigest()
    digest.add(cut, keys[cut:])
    digest.add(0, keys[:cut])
    assert digest == digest_of(keys)


@given(st.lists(keys_of_any_kind, min_size=2, max_size=12, unique_by=repr), st.data())
def test_two_keys_that_changed_places_change_the_digest(keys: list[object], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(keys) - 2))
    other = data.draw(st.integers(first + 1, len(keys) - 1))
    swapped = list(keys)
    swapped[first], swapped[other] = swapped[other], swapped[first]
    assert digest_of(swapped) != digest_of(keys)


def test_an_integer_counts_the_same_alone_and_among_strings() -> None:
    mixed = digest_of([7, "x"])
    mixed.add(2, [9])
    apart = digest_of([7])
    apart.add(1, ["x"])
    apart.add(2, [9])
    assert mixed == apart


def test_keys_that_look_alike_are_told_apart() -> None:
    digests = {
        digest_of([key]).hex() for key in [1, "1", True, (1,), [1], b"1", 1.0, 1 + 2**64, -1, 2**64 - 1]
    }
    assert len(digests) == 10


class Split(Enum):
    TRAIN = 1


def test_the_digest_is_pinned_for_saved_states() -> None:
    assert KeyDigest().hex() == "0" * 16
    assert digest_of([3, 1, -2]).hex() == "70fdc33398511eb0"
    assert (
        digest_of(["a/1.jpg", ("b", 2), Split.TRAIN, PurePosixPath("c"), 2**70]).hex() == "e3dd7f415d0cc9c1"
    )


class Opaque:
    pass


class Unprintable:
    def __repr__(self) -> str:
        sys.exit("no repr for you")


@pytest.mark.parametrize("kind", [Opaque, Unprintable])
def test_objects_without_a_repr_of_their_own_count_by_their_type(kind: type) -> None:
    assert digest_of([kind()]) == digest_of([kind()])
    assert digest_of([(kind(), 1)]) != digest_of([(kind(), 2)]) or kind is Unprintable


def test_a_digest_shows_and_compares_by_value() -> None:
    assert repr(digest_of([])) == "KeyDigest('0000000000000000')"
    assert digest_of([1]) == KeyDigest(digest_of([1]).value)
    assert KeyDigest() != 0


def test_text_that_no_encoding_holds_is_a_key_like_any_other() -> None:
    assert digest_of(["\ud800"]) != digest_of(["a"])


def test_the_digest_does_not_depend_on_the_process(run_script: RunScript) -> None:
    keys = [frozenset("abcdef"), "a", (1, "b"), None]
    outcome = run_script(
        """
        from nogil_loader.plan.digest import KeyDigest
        digest = KeyDigest()
        digest.add(0, [frozenset("abcdef"), "a", (1, "b"), None])
        print(digest.hex())
        """,
    )
    assert outcome.stdout.strip() == digest_of(list(keys)).hex()
