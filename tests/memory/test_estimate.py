"""What pieces are thought to need, against what they then take."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.memory.estimate import Estimate, Hints

SIZES = st.lists(st.integers(0, 10**9), min_size=1, max_size=600)


def taught(sizes: list[int], **details: Any) -> Estimate:
    estimate = Estimate(scratch=0.0, **details)
    for size in sizes:
        estimate.learn(size)
    return estimate


def test_nothing_is_known_before_the_first_sample() -> None:
    estimate = Estimate()
    assert estimate.need(4) is None
    assert estimate.need(0) == 0
    assert estimate.fit(4, 0) == 4
    assert estimate.need(2, [30, 10]) == 40 + 30, "one sample is there twice while it is written"


@given(st.integers(1, 10**10), st.integers(1, 600), st.integers(1, 1000))
def test_for_samples_of_one_size_it_is_exact(size: int, seen: int, count: int) -> None:
    need = taught([size] * seen).need(count)
    assert need is not None
    assert abs(need - count * size) <= 1 + count * size * 1e-12


@given(SIZES, st.integers(1, 64))
def test_it_never_exceeds_the_largest_seen_nor_falls_below_the_mean(sizes: list[int], count: int) -> None:
    need = taught(sizes).need(count)
    window = sizes[-512:]
    assert need is not None
    assert need <= count * max(window) + 1
    assert need >= math.floor(count * sum(window) / len(window) * (1 - 1e-12))


def test_sums_of_skewed_sizes_seldom_exceed_it() -> None:
    dice = random.Random(2)
    sizes = [int(dice.lognormvariate(14.0, 1.0)) for _ in range(512)]
    need = taught(sizes).need(32)
    assert need is not None
    sums = [sum(int(dice.lognormvariate(14.0, 1.0)) for _ in range(32)) for _ in range(2000)]
    assert sum(total > need for total in sums) <= 40
    assert need < 32 * max(sizes) / 4, "and it is no mere multiple of the largest"


def test_only_the_latest_samples_count() -> None:
    estimate = taught([10**9] + [100] * 511)
    assert (estimate.need(1) or 0) > 10**6
    estimate.learn(100)
    assert estimate.need(7) == 700


@given(SIZES, st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.booleans(), st.integers(0, 10**10))
def test_fit_is_the_most_that_fits(sizes: list[int], hints: list[int], hinted: bool, room: int) -> None:
    estimate = taught(sizes)
    said = hints if hinted else None
    fit = estimate.fit(len(hints), room, said)
    assert 0 <= fit <= len(hints)
    assert fit == 0 or (estimate.need(fit, said and said[:fit]) or 0) <= room
    if fit < len(hints):
        assert (estimate.need(fit + 1, said and said[: fit + 1]) or 0) > room


@given(
    st.lists(st.tuples(st.integers(0, 10**8), st.floats(1.0, 10.0)), min_size=1, max_size=200),
    st.floats(0.0, 4.0),
)
def test_hints_that_are_upper_bounds_make_upper_bounds(
    pairs: list[tuple[int, float]], scratch: float
) -> None:
    estimate = Estimate(scratch=scratch)
    sizes = [size for size, _ in pairs]
    hints = [math.ceil(size * loose) for size, loose in pairs]
    for size, hint in zip(sizes, hints, strict=True):
        assert (estimate.need(1, [hint]) or 0) >= size + scratch * size - 1
        estimate.learn(size, hint)
    assert (estimate.need(len(hints), hints) or 0) >= sum(sizes) + scratch * max(sizes) - 1


def test_hints_that_are_too_low_by_a_factor_are_corrected_by_it() -> None:
    estimate = Estimate(scratch=0.0)
    for size in (40, 80, 120, 40):
        estimate.learn(size, size // 4)
    need = estimate.need(3, [10, 20, 30])
    assert need is not None
    assert 0.95 * 240 <= need <= 240


def test_one_absurd_hint_does_not_spoil_the_others_and_is_forgotten() -> None:
    estimate = Estimate(scratch=0.0)
    for _ in range(20):
        estimate.learn(100, 100)
    estimate.learn(100, 1)
    assert estimate.need(3, [100, 100, 100]) == 300
    assert estimate.need(1, [1000]) == 1000
    for _ in range(600):
        estimate.learn(100, 100)
    assert estimate.need(1, [10]) == 10


def test_samples_that_were_said_to_be_empty_change_nothing_for_others() -> None:
    estimate = Estimate(scratch=0.0)
    estimate.learn(100, 0)
    assert estimate.need(1, [200]) == 200


def test_scratch_is_what_was_declared_else_the_middle_of_three_measurements_and_a_tenth() -> None:
    declared = Estimate(scratch=2.0)
    assert not declared.wants_calibration
    declared.calibrate(1000, 100)
    assert declared.need(1, [100]) == 300
    measured, needs = Estimate(), []
    for peak in (200, 150, 400):
        assert measured.wants_calibration
        measured.calibrate(peak, 100)
        needs.append(measured.need(1, [100]))
    assert needs == [100 + 110, 100 + 110, 100 + 110], "the only one, the larger of two, the middle of three"
    assert not measured.wants_calibration
    measured = Estimate()
    measured.calibrate(5, 0)
    assert measured.need(1, [100]) == 200, "an empty sample measures nothing"
    assert measured.wants_calibration


def test_a_measurement_that_another_thread_disturbed_changes_nothing_and_is_forgotten() -> None:
    measured = Estimate()
    for _ in range(3):
        measured.calibrate(150, 100)
    calm = measured.need(1, [100])
    measured.calibrate(10**9, 100)
    assert measured.need(1, [100]) == calm
    for _ in range(3):
        measured.calibrate(100, 100)
    assert measured.need(1, [100]) == 100, "the latest three say that there is none"


def test_scratch_that_was_measured_over_some_samples_is_that_of_the_largest() -> None:
    measured = Estimate()
    measured.calibrate(330 + 200, 330, 100)
    assert measured.need(1, [100]) == 100 + 220


def test_a_batch_that_is_collated_from_a_list_is_there_twice() -> None:
    assert taught([10] * 4, copies=2).need(8) == 160
    assert taught([10] * 4, copies=2).need(3, loaded=50) == 160
    assert taught([10] * 4, copies=2).need(0, loaded=80) == 160


def test_batches_that_are_larger_than_their_samples_are_planned_larger() -> None:
    estimate = taught([10] * 4)
    estimate.learn_batch(100, 250)
    assert estimate.need(10) == 250
    for _ in range(300):
        estimate.learn_batch(100, 90)
    assert estimate.need(10) == 100


def test_how_often_a_batch_is_there_is_guessed_until_one_was_seen() -> None:
    estimate = taught([10] * 4, copies=2)
    estimate.learn_batch(0, 0)
    assert estimate.need(10) == 200
    estimate.learn_batch(100, 100)  # a list of the samples, of which nothing is copied
    assert estimate.need(10) == 100
    estimate.learn_batch(100, 300)  # samples, and a batch that was padded to twice as much
    assert estimate.need(10) == 300


@given(st.lists(st.lists(st.integers(0, 10**9), max_size=40), min_size=1, max_size=60), st.integers(1, 64))
def test_samples_that_are_told_together_teach_the_same_as_one_by_one(
    reports: list[list[int]], count: int
) -> None:
    together, singly = Estimate(scratch=1.0), Estimate(scratch=1.0)
    for sizes in reports:
        hints = [size // 2 for size in sizes]
        together.learn_all(sizes, hints)
        for size, hint in zip(sizes, hints, strict=True):
            singly.learn(size, hint)
    if sum(map(len, reports)) <= 512:  # the window ends at whole reports
        assert together.need(count) == singly.need(count)
    assert (together.need(1, [10**6]) or 0) >= (singly.need(1, [10**6]) or 0)


def test_pieces_of_which_only_the_sum_is_known_leave_hints_that_are_right_alone() -> None:
    estimate = Estimate(scratch=0.0)
    estimate.learn_mean(4, 1030, [1000, 10, 10, 10])
    assert estimate.need(2, [10, 20]) == 30
    assert estimate.need(1) == 257
    estimate.learn_mean(0, 0)
    assert estimate.need(1) == 257


@given(SIZES, st.integers(1, 64))
def test_a_bound_is_that_many_of_the_largest(sizes: list[int], count: int) -> None:
    bound = taught(sizes, copies=2).bound(count)
    assert bound == 2 * count * max(sizes[-512:])


def test_a_bound_takes_hints_only_after_they_were_compared_and_never_below_the_usual() -> None:
    estimate = Estimate(scratch=0.0)
    assert estimate.bound(4) is None
    assert estimate.bound(4, [10] * 4) is None
    estimate.learn(100, 50)
    assert estimate.bound(4, [500] * 4) == 2000, "larger than all that was seen: hints may be right about it"
    assert estimate.bound(4, [1] * 4) == 400, "or wrong about samples that nobody looks at"


class Sized:
    """A dataset that answers for the size of a sample with whatever it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def nbytes(self, index: int) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(("answer", "size"), [(7, 7), (np.int32(7), 7), (6.5, 7), (np.float64(7), 7), (0, 0)])
def test_a_hint_is_any_number_of_bytes(answer: Any, size: int) -> None:
    hints = Hints(Sized(answer))
    assert hints.of([1, 2]) == [size, size]
    assert hints.ignored is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (KeyError("no such row"), "raised KeyError: 'no such row'"),
        (None, "returned None"),
        (-1, "returned -1"),
        (True, "returned True"),
        (float("nan"), "returned nan"),
        (float("inf"), "returned inf"),
        ("7", "returned '7'"),
    ],
)
def test_a_hint_that_raises_or_makes_no_sense_is_ignored_once_with_its_reason(
    answer: Any, reason: str
) -> None:
    dataset = Sized(answer)
    hints = Hints(dataset)
    assert hints.of([3, 4]) is None
    assert hints.ignored is not None
    assert hints.ignored.startswith("nbytes(3) ")
    assert reason in hints.ignored
    dataset.answer = 7
    assert hints.of([3]) is None, "it is not asked again"


def test_an_array_s_number_of_bytes_is_no_hint() -> None:
    hints = Hints(np.zeros((4, 5)))
    assert hints.of([0]) is None
    assert hints.ignored is None


def test_a_dataset_whose_attribute_raises_gives_no_hints() -> None:
    class Broken:
        @property
        def nbytes(self) -> Any:
            raise OSError("not open")

    assert Hints(Broken()).of([0]) is None
