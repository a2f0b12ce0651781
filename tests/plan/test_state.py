from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.errors import LoaderError, ResumeError
from nogil_loader.plan import LoaderState, Received
from nogil_loader.plan.digest import KeyDigest
from nogil_loader.plan.mixing import MASK64

words = st.integers(0, MASK64)


@st.composite
def states(draw: st.DrawFn) -> LoaderState:
    received = Received(draw(st.integers(0, 50)))
    start = received.prefix
    for gap, size in draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=4)):
        received.add(start + gap, start + gap + size)
        start += gap + size
    kind = draw(st.sampled_from(["sequential", "random", "sampler", "batch_sampler", "iterable"]))
    if kind in ("sampler", "batch_sampler"):
        received.digest = KeyDigest(draw(words))
    length: int | None = draw(st.integers(start, 10**12))
    if kind not in ("sequential", "random"):
        length = draw(st.one_of(st.none(), st.just(length)))
    return LoaderState.of(
        sampler=kind,
        length=length,
        seed=draw(words),
        epoch=draw(st.integers(0, 10**6)),
        received=received,
        finished=draw(st.booleans()),
    )


RANDOM = LoaderState("random", length=100, seed=5, epoch=2, received=32, ahead=((40, 48),))


@given(states())
def test_d15_a_state_survives_json_and_is_taken_again_as_it_was(state: LoaderState) -> None:
    loaded = LoaderState.from_dict(json.loads(json.dumps(state.to_dict())))
    assert loaded == state
    assert loaded.to_dict() == state.to_dict()
    epoch, received = loaded.resume()
    again = LoaderState.of(
        sampler=loaded.sampler,
        length=loaded.length,
        seed=loaded.seed,
        epoch=epoch,
        received=received,
        finished=False,
    )
    if state.finished:
        assert (epoch, received.count) == (state.epoch + 1, 0)
        assert (received.digest is None) == (state.digest is None)
    else:
        assert again == state


def test_the_written_form_is_pinned() -> None:
    assert RANDOM.to_dict() == {
        "version": 1,
        "sampler": "random",
        "length": 100,
        "seed": 5,
        "epoch": 2,
        "received": 32,
        "ahead": [[40, 48]],
        "finished": False,
        "digest": None,
        "announced": False,
    }


def test_resuming_does_not_change_the_state() -> None:
    _, received = RANDOM.resume()
    received.add(32, 40)
    assert RANDOM.resume()[1].prefix == 32


@pytest.mark.parametrize("name", [*RANDOM.to_dict()])
def test_a_missing_field_is_named(name: str) -> None:
    fields = RANDOM.to_dict()
    del fields[name]
    with pytest.raises(ResumeError, match=f"state field '{name}' is") as caught:
        LoaderState.from_dict(fields)
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", 2),
        ("version", True),
        ("version", "1"),
        ("sampler", "shuffled"),
        ("sampler", 3),
        ("sampler", ["random"]),
        ("length", -1),
        ("length", "100"),
        ("length", 100.0),
        ("length", None),
        ("seed", None),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
        ("epoch", -1),
        ("epoch", 1.5),
        ("epoch", None),
        ("received", -1),
        ("received", True),
        ("received", math.nan),
        ("ahead", None),
        ("ahead", 3),
        ("ahead", [3]),
        ("ahead", [[40, 41, 42]]),
        ("ahead", [[40, "48"]]),
        ("ahead", [[48, 40]]),
        ("ahead", [[40, 40]]),
        ("ahead", [[32, 40]]),
        ("ahead", [[40, 48], [48, 50]]),
        ("ahead", [[40, 48], [44, 50]]),
        ("ahead", [[50, 60], [40, 48]]),
        ("ahead", [[40, 101]]),
        ("finished", 1),
        ("finished", None),
        ("digest", 7),
        ("digest", "0" * 15),
        ("digest", "G" * 16),
        ("digest", "0" * 16),
    ],
)
def test_a_damaged_field_is_named(name: str, value: Any) -> None:
    with pytest.raises(ResumeError, match=f"state field '?{name}") as caught:
        LoaderState.from_dict({**RANDOM.to_dict(), name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"received": 40}, "ahead"),
        ({"received": 101, "ahead": []}, "received"),
        ({"length": 40}, "ahead"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ResumeError) as caught:
        LoaderState.from_dict({**RANDOM.to_dict(), **changes})
    assert caught.value.field == field


def test_a_user_sampler_without_a_digest_is_damaged() -> None:
    fields = replace(RANDOM, sampler="sampler").to_dict()
    with pytest.raises(ResumeError, match="digest"):
        LoaderState.from_dict(fields)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(ResumeError, match="'batch_size' is unknown") as caught:
        LoaderState.from_dict({**RANDOM.to_dict(), "batch_size": 3})
    assert caught.value.field == "batch_size"


@pytest.mark.parametrize("state", [None, 3, "{}", [1], RANDOM])
def test_what_is_no_dict_is_refused(state: Any) -> None:
    with pytest.raises(ResumeError, match="expected the dict that state_dict"):
        LoaderState.from_dict(state)


def test_resume_errors_are_both_ours_and_value_errors() -> None:
    assert issubclass(ResumeError, LoaderError)
    assert issubclass(ResumeError, ValueError)


def test_a_fitting_loader_is_accepted() -> None:
    RANDOM.check_fits(sampler="random", length=100, seed=5)
    RANDOM.check_fits(sampler="random", length=100, seed=None)
    replace(RANDOM, sampler="iterable", length=None).check_fits(sampler="iterable", length=7, seed=5)
    replace(RANDOM, sampler="iterable").check_fits(sampler="iterable", length=None, seed=5)


@pytest.mark.parametrize(
    ("given", "field", "saved_value", "given_value"),
    [
        ({"sampler": "sequential"}, "shuffle", "True", "False"),
        ({"sampler": "sampler"}, "sampler", "'random'", "'sampler'"),
        ({"sampler": "iterable"}, "sampler", "'random'", "'iterable'"),
        ({"length": 101}, "length", "100", "101"),
        ({"seed": 6}, "seed", "5", "6"),
    ],
)
def test_a_misfit_is_named_with_both_values_and_advice(
    given: dict[str, Any], field: str, saved_value: str, given_value: str
) -> None:
    with pytest.raises(ResumeError) as caught:
        RANDOM.check_fits(**{"sampler": "random", "length": 100, "seed": 5, **given})
    assert caught.value.field == field
    message = str(caught.value)
    assert f"{saved_value}, this loader has {given_value}" in message
    assert "give the" in message
