"""Judging is a function of what was seen: no thread, no dataset and no clock is needed to test it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nogil_loader.check.advice import recognise
from nogil_loader.check.crossing import Crossing, Loss, Stall, Twice
from nogil_loader.check.ends import Ends
from nogil_loader.check.evidence import Evidence, Load
from nogil_loader.check.finding import Finding
from nogil_loader.check.fingerprint import fingerprint
from nogil_loader.check.item import Item
from nogil_loader.check.judging import judge, judge_iterable
from nogil_loader.check.outcome import Hung, Outcome, Raised, Seen, Value
from nogil_loader.check.serial import Habit, SerialReadings
from nogil_loader.check.stream import Streaming
from nogil_loader.check.summary import Effort, Summary


def value(*samples: Any) -> Value:
    return Value(tuple(map(fingerprint, samples)))


def raised(error: BaseException) -> Raised:
    return Raised.of(error)


def evidence_of(*samples: Any, **more: Any) -> Evidence:
    """What is seen of a dataset of these samples if nothing is wrong."""
    outcomes: list[Outcome] = [
        each if isinstance(each, Value | Raised | Hung) else value(each) for each in samples
    ]
    first = {at: Seen(at, outcome, 0.001, 100) for at, outcome in enumerate(outcomes)}
    serial = SerialReadings(first, dict(first), dict.fromkeys(first, "steady"))
    items = [Item("sample", (at,)) for at in first]
    return replace(Evidence("Example", items, serial, length=len(items)), **more)


def only(evidence: Evidence) -> Finding:
    (finding,) = judge(evidence)
    return finding


def kinds(evidence: Evidence) -> list[str]:
    return [finding.kind for finding in judge(evidence)]


CLEAN = evidence_of(*range(10))


def test_nothing_is_wrong_with_what_is_the_same_everywhere() -> None:
    crossings = [Crossing(at, value(at), 5) for at in range(10)]
    assert judge(replace(CLEAN, crossings=crossings, again=CLEAN.serial.first)) == ()


def test_the_sample_that_a_wrong_value_belongs_to_is_named() -> None:
    finding = only(replace(CLEAN, crossings=[Crossing(3, value(4)), Crossing(5, value(5))]))
    assert (finding.kind, finding.level, finding.indices) == ("differs", "error", (3,))
    assert "sample 3: values; it is what sample 4 holds" in finding.details
    assert any("looks like a shared file position or a shared buffer" in line for line in finding.details)


def test_the_part_of_another_sample_is_named_unless_many_have_it() -> None:
    samples = [{"x": np.full(3, at), "label": at % 2} for at in range(10)]
    mixed = {"x": np.full(3, 7), "label": 0}
    finding = only(replace(evidence_of(*samples), crossings=[Crossing(2, value(mixed))]))
    assert "that part is what sample 7 holds" in finding.details[0]
    label = {"x": np.full(3, 2), "label": 1}
    finding = only(replace(evidence_of(*samples), crossings=[Crossing(2, value(label))]))
    assert "holds" not in finding.details[0]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (np.zeros(4), "shape"),
        (np.zeros(3, "f4"), "dtype"),
        ("text", "type"),
        ({"x": 1}, "structure"),
    ],
)
def test_how_a_value_differs_is_told(other: Any, told: str) -> None:
    evidence = evidence_of(np.zeros(3), np.ones(3))
    finding = only(replace(evidence, crossings=[Crossing(0, value(other))]))
    assert finding.kind == "differs"
    assert told in finding.details[0] or told == "structure"


def test_exceptions_that_came_alone_too_are_not_blamed_on_threads() -> None:
    evidence = evidence_of(0, raised(OSError("gone")))
    assert kinds(replace(evidence, crossings=[Crossing(1, raised(OSError("gone again")))])) == ["raises"]
    found = kinds(replace(evidence, crossings=[Crossing(0, raised(OSError("gone")))]))
    assert sorted(found) == ["raises", "raises-in-threads"]


@pytest.mark.parametrize(
    ("error", "sign"),
    [
        (RuntimeError("Already borrowed"), "one thread at a time"),
        (RuntimeError("already mutably borrowed: BorrowError"), "one thread at a time"),
        (ValueError("generator already executing"), "one thread at a time"),
        (RuntimeError("dictionary changed size during iteration"), "goes over it"),
        (ValueError("I/O operation on closed file."), "handle that one thread closes"),
        (ValueError("seek of closed file"), "handle that one thread closes"),
        (AttributeError("'NoneType' object has no attribute 'read'"), "has not opened yet"),
        (EOFError("Compressed file ended before the end-of-stream marker"), "shared file position"),
        (KeyError(17), "taken away"),
        (
            RuntimeError("SQLite objects created in a thread can only be used in that same thread"),
            "only in the thread that made it",
        ),
        (RuntimeError("Reader is unsendable, but sent to another thread"), "only in the thread that made it"),
        (OSError("Can't synchronously read data (h5py)"), "HDF5"),
        (RuntimeError("MDB_BAD_RSLOT: Invalid reuse of reader locktable slot"), "lmdb"),
        (ZeroDivisionError("no idea"), "something that threads share"),
    ],
)
def test_well_known_exceptions_come_with_advice(error: Exception, sign: str) -> None:
    known = recognise(raised(error))
    assert sign in known.name
    assert known.advice
    finding = only(replace(CLEAN, crossings=[Crossing(1, raised(error))]))
    assert finding.kind == ("thread-bound" if known.is_bound else "raises-in-threads")
    assert finding.advice == known.advice


def test_a_fault_of_pythons_own_is_not_the_datasets() -> None:
    fault = raised(SystemError("AST constructor recursion depth mismatch (before=45, after=41)"))
    evidence = replace(CLEAN, crossings=[Crossing(1, fault, 3)])
    assert judge(evidence) == ()
    summary = Summary.of(evidence, None, Effort())
    assert summary.python_failed == 3
    assert any("fault of Python 3.11" in line for line in summary.lines())
    assert kinds(replace(CLEAN, crossings=[Crossing(1, raised(SystemError("something else")))]))


def with_habit(habit: Habit, *, second: Mapping[int, Outcome]) -> Evidence:
    serial = CLEAN.serial
    seen = {at: Seen(at, second.get(at, each.outcome)) for at, each in serial.first.items()}
    habits: dict[int, Habit] = {at: habit if at in second else "steady" for at in serial.first}
    return replace(CLEAN, serial=SerialReadings(serial.first, seen, habits))


def test_random_samples_are_compared_only_where_nobody_else_drew() -> None:
    evidence = with_habit("random", second={2: value(77)})
    assert kinds(replace(evidence, crossings=[Crossing(2, value(99))])) == []
    assert kinds(replace(evidence, crossings=[Crossing(2, value("99"))])) == ["differs"]
    assert kinds(replace(evidence, crossings=[Crossing(2, value(99), is_apart=True)])) == ["differs"]
    assert kinds(replace(evidence, crossings=[Crossing(2, value(2), is_apart=True)])) == []


def test_restless_samples_are_compared_by_their_structure_if_that_stays() -> None:
    evidence = with_habit("restless", second={2: value(77), 3: value("three")})
    assert kinds(replace(evidence, crossings=[Crossing(2, value(5))])) == ["changes"]
    assert kinds(replace(evidence, crossings=[Crossing(2, value("five"))])) == ["differs", "changes"]
    assert kinds(replace(evidence, crossings=[Crossing(3, value(None))])) == ["changes"]
    assert kinds(replace(evidence, crossings=[Crossing(2, raised(KeyError(2)))])) == [
        "raises-in-threads",
        "changes",
    ]


def test_what_changes_because_threads_share_an_iterator_is_an_error() -> None:
    evidence = with_habit("restless", second={2: value(77)})
    assert only(evidence).level == "warning"
    assert only(replace(evidence, handles=[("dataset.numbers", "an iterator")])).level == "error"


def test_what_raises_in_other_threads_alone_belongs_to_one_thread() -> None:
    evidence = with_habit("thread", second={4: raised(RuntimeError("same thread, please"))})
    assert kinds(evidence) == ["thread-bound"]
    here = evidence_of(0, raised(RuntimeError("not mine")))
    here.serial.caller[1] = Seen(1, value(1))
    assert kinds(here) == ["thread-bound"]


def test_what_differs_in_other_threads_alone_depends_on_the_thread() -> None:
    assert kinds(with_habit("thread", second={4: value(5)})) == ["depends-on-thread"]


@pytest.mark.parametrize(("count", "kind"), [(1, "hangs-in-threads"), (2, "deadlock"), (5, "deadlock")])
def test_calls_that_never_return_are_told_with_their_stacks(count: int, kind: str) -> None:
    stacks = tuple((f"data.py:{at % 2} in wait: lock.acquire()",) for at in range(count))
    finding = only(replace(CLEAN, stalls=[Stall(tuple(range(count)), stacks, 2.0)]))
    assert finding.kind == kind
    assert any("data.py:0 in wait: lock.acquire()" in line for line in finding.details)
    assert finding.indices == tuple(range(count))


def test_lost_counts_open_files_and_damage_are_told() -> None:
    evidence = replace(
        CLEAN,
        losses=[Loss(".count", 1, 2, "data.py:3 in __getitem__")],
        twice=[Twice("dataset.file", "an open file", "data.py:4 in __getitem__")],
        again={6: Seen(6, value(60))},
    )
    found = {finding.kind: finding for finding in judge(evidence)}
    assert found.keys() == {"lost-update", "opened-twice", "damaged"}
    assert "dataset.count was 1 after two calls that overlapped, 2 after" in found["lost-update"].details[0]
    assert found["opened-twice"].level == "warning"
    assert found["damaged"].indices == (6,)


def test_samples_that_raise_are_listed_but_not_all_of_them() -> None:
    evidence = evidence_of(*(raised(ValueError(f"sample {at}")) for at in range(30)))
    finding = only(evidence)
    assert finding.title == "30 samples of 30 raised, with nobody else reading"
    assert finding.details[0] == "sample 0: ValueError: sample 0"
    assert finding.details[-1] == "… and 20 more"
    assert finding.indices == tuple(range(30))


def test_samples_beyond_the_end_are_told_once() -> None:
    evidence = evidence_of(
        0, 1, raised(IndexError("x")), raised(IndexError("x")), ends=Ends(4, 2, "IndexError: x")
    )
    assert only(evidence).kind == "length"
    assert only(evidence_of(0, 1, ends=Ends(2, 5, "IndexError: x"))).kind == "length"
    assert judge(evidence_of(0, 1, ends=Ends(2, 2))) == ()
    assert judge(evidence_of(0, 1, ends=Ends(2, None))) == ()


def batched(keys: tuple[int, ...], outcome: Outcome, *samples: Any) -> Evidence:
    evidence = evidence_of(*samples)
    at = len(samples)
    evidence.serial.first[at] = evidence.serial.second[at] = Seen(at, outcome)
    evidence.serial.habits[at] = "steady"
    return replace(evidence, items=[*evidence.items, Item("batch", keys)])


def test_batches_have_to_be_made_of_their_samples() -> None:
    assert judge(batched((2, 0), value("c", "a"), "a", "b", "c")) == ()
    wrong = only(batched((2, 0), value("a", "c"), "a", "b", "c"))
    assert (wrong.kind, wrong.level) == ("batches", "error")
    assert wrong.details == ("__getitems__([2, 0]): the right samples in a wrong order",)
    assert "dtype" in only(batched((0,), value(np.zeros(2, "f4")), np.zeros(2))).details[0]
    repeated = only(batched((1, 1), raised(ValueError("twice")), "a", "b"))
    assert repeated.details[0] == "only where an index is asked for twice:"
    failing = batched((1, 0), raised(ValueError("bad")), "a", raised(ValueError("bad")))
    assert kinds(failing) == ["raises"]


def hinted(told: int, real: int) -> Evidence:
    evidence = evidence_of("a", has_hint=True)
    evidence.serial.first[0] = Seen(0, value("a"), 0.001, real)
    evidence.serial.first[1] = Seen(1, value(told), 0.001, told)
    return replace(evidence, items=[*evidence.items, Item("size", (0,))])


@pytest.mark.parametrize(
    ("told", "real", "fine"),
    [(100, 100, True), (100, 190, True), (40, 100, False), (900, 100, False), (-1, 9, False)],
)
def test_size_hints_may_be_half_or_twice_the_size(told: int, real: int, fine: bool) -> None:
    assert kinds(hinted(told, real)) == ([] if fine else ["hint"])


def sized(*sizes: int, **more: Any) -> Evidence:
    evidence = evidence_of(*range(len(sizes)), **more)
    for at, nbytes in enumerate(sizes):
        evidence.serial.first[at] = replace(evidence.serial.first[at], nbytes=nbytes)
    return evidence


def test_a_heavy_tail_asks_for_hints_unless_there_are_any() -> None:
    assert kinds(sized(*[1000] * 9, 100_000)) == ["heavy-tail"]
    assert kinds(sized(*[1000] * 9, 100_000, has_hint=True)) == []
    assert kinds(sized(*[1000] * 9, 5_000)) == []
    assert kinds(sized(*[10] * 9, 500)) == []  # a few bytes are no matter


def test_batches_of_the_largest_samples_have_to_fit() -> None:
    load = Load(batch_size=8, batches=6, room=48_000, source="cgroup")
    assert kinds(sized(1000, 1000, load=load)) == []
    assert kinds(sized(1000, 1001, load=load)) == ["memory"]


def test_samples_that_do_not_fit_together_come_with_a_collate_function() -> None:
    ragged = only(evidence_of({"x": np.zeros(3)}, {"x": np.zeros(4)}))
    assert ragged.kind == "ragged"
    assert "pad_collate(keys=['x'])" in ragged.advice[0]
    assert "keys=[0]" in only(evidence_of((np.zeros(3), 1), (np.zeros(4), 1))).advice[0]
    assert "resize" in only(evidence_of(np.zeros((3, 3)), np.zeros((3, 4)))).advice[0]
    assert judge(evidence_of(np.zeros(3), np.zeros(4), collates=False)) == ()
    assert kinds(evidence_of({"x": 1}, {"x": None})) == ["none"]
    assert kinds(evidence_of({"x": {"y": 1}}, {"x": None})) == ["none"]
    assert kinds(evidence_of({"x": 1}, {"x": "one"})) == ["structure"]
    assert kinds(evidence_of(np.zeros(2), np.zeros(2, "f4"))) == ["dtypes"]


def test_errors_come_before_warnings() -> None:
    evidence = replace(evidence_of(np.zeros(3), np.zeros(4)), crossings=[Crossing(0, raised(KeyError(0)))])
    assert [finding.level for finding in judge(evidence)] == ["error", "warning"]


def test_an_iterable_that_can_be_read_once_is_told() -> None:
    streaming = Streaming(first=CLEAN.serial.first, is_whole=True, is_iterator=True)
    assert [finding.kind for finding in judge_iterable(CLEAN, streaming)] == ["not-repeatable"]
    short = Streaming(first=CLEAN.serial.first, is_whole=True, ended_early=4)
    (finding,) = judge_iterable(CLEAN, short)
    assert "4 samples instead of 10" in finding.title
    whole = Streaming(first=CLEAN.serial.first, is_whole=True)
    assert judge_iterable(CLEAN, whole) == ()
    assert [finding.kind for finding in judge_iterable(replace(CLEAN, length=12), whole)] == ["length"]
