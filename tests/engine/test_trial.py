"""Comparisons of two settings: how sure they are, and how soon."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from nogil_loader.engine.trial import Noise, Trial


def run(rate: Callable[[bool, int], float], by: float = 0.04, noise: Noise | None = None) -> Trial:
    """A trial of a challenger that loads ``rate(True, n)`` in interval n."""
    trial = Trial(noise or Noise(), by)
    won, number = trial.take(rate(False, 0)), 0
    while won is None:
        number += 1
        won = trial.take(rate(trial.challenges, number))
    return trial


def noisy(gain: float, scatter: float, seed: int) -> Trial:
    dice = random.Random(seed)
    return run(lambda challenger, _: (1 + gain * challenger) * math.exp(dice.gauss(0, scatter)))


@pytest.mark.parametrize(("factor", "won"), [(2.0, True), (0.5, False)])
def test_two_intervals_tell_a_large_difference(factor: float, won: bool) -> None:
    trial = run(lambda challenger, _: factor if challenger else 1.0)
    assert (trial.won, trial.intervals) == (won, 2)
    assert trial.rates == (1.0, factor)


@pytest.mark.parametrize("drift", [-0.06, 0.06])
def test_a_drift_of_the_machine_is_no_gain_and_no_loss(drift: float) -> None:
    assert run(lambda _, number: math.exp(drift * number)).won is False
    assert run(lambda challenger, number: (1.15 if challenger else 1) * math.exp(drift * number)).won is True


@pytest.mark.parametrize(
    ("gain", "scatter", "least", "most"),
    [
        (0.0, 0.06, 0.0, 0.08),
        (-0.05, 0.06, 0.0, 0.01),
        (0.12, 0.06, 0.95, 1.0),
        (0.2, 0.06, 0.99, 1.0),
        (-0.3, 0.15, 0.0, 0.01),
        (0.4, 0.15, 0.97, 1.0),
    ],
)
def test_how_often_a_gain_is_found_in_noise(gain: float, scatter: float, least: float, most: float) -> None:
    trials = [noisy(gain, scatter, seed) for seed in range(400)]
    assert least <= sum(trial.won is True for trial in trials) / len(trials) <= most


def test_every_trial_ends_and_the_larger_the_difference_the_sooner() -> None:
    lengths = [
        sum(noisy(gain, 0.06, seed).intervals for seed in range(200)) / 200 for gain in (1.0, 0.4, 0.2, 0.08)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < 2.2
    assert max(noisy(0.04, 0.3, seed).intervals for seed in range(200)) == 17


def test_a_setting_may_be_taken_although_it_is_a_little_slower() -> None:
    assert run(lambda challenger, _: 0.99 if challenger else 1.0, by=-0.02).won is True
    assert run(lambda challenger, _: 0.95 if challenger else 1.0, by=-0.02).won is False


def test_a_trial_teaches_its_scatter_but_not_its_gain() -> None:
    calm, wild = Noise(), Noise()
    for _ in range(5):
        calm.learn(0.0)
        wild.learn(0.3)
    before = calm.variance
    trial = run(lambda challenger, _: 1.2 if challenger else 1.0, noise=calm)
    trial.teach()
    assert calm.variance <= before
    assert wild.variance > before
    assert run(lambda challenger, _: 1.5 if challenger else 1.0, noise=wild).intervals > trial.intervals
