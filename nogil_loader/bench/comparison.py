"""By how much two results differ, with a confidence interval: pure.

The rates of one setting differ from repeat to repeat, in no particular distribution and seldom more than a
handful of times. So the interval comes from ranks: it is exact for any distribution, however few the repeats are,
and where they are too few for the confidence that is wanted, there is none. Nothing is drawn at random.

Two results are compared setting by setting, as ratios. A machine that was slower on the one day than on the other
cannot be told from slower code.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nogil_loader.bench.result import Result, Setting

#: Of the intervals, at least.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """How many times as fast as before, and between which bounds that is.

    Attributes:
        ratio: The estimate; 1.0 for no difference.
        low: Lower bound; None where there are too few repeats.
        high: Upper bound; the same.
    """

    ratio: float
    low: float | None
    high: float | None

    @property
    def percent(self) -> float:
        """The estimate as a change: negative for slower."""
        return 100.0 * (self.ratio - 1.0)

    @property
    def is_slower(self) -> bool:
        """Whether there is no doubt that it is slower than before."""
        return self.high is not None and self.high < 1.0

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.percent:+.1f} % (too few repeats for an interval)"
        low, high = (100.0 * (bound - 1.0) for bound in (self.low, self.high))
        return f"{self.percent:+.1f} % ({low:+.1f} % to {high:+.1f} %)"


@dataclass(frozen=True)
class Change:
    """One setting in both results.

    Attributes:
        now: The setting.
        earlier: What it was.
        interval: By how much it differs.
    """

    now: Setting
    earlier: Setting
    interval: Interval


@dataclass(frozen=True)
class Comparison:
    """Two results of one target.

    Attributes:
        changes: One for each setting of ours that was measured both times.
        overall: The same for all of them together: one ratio that is common to all.
        notes: What else differs, so that the ratio may have other causes.
    """

    changes: tuple[Change, ...]
    overall: Interval
    notes: tuple[str, ...] = ()


def compare(now: Result, earlier: Result) -> Comparison:
    """Compare the settings that both results have.

    Raises:
        ValueError: There is none.
    """
    before = {_key(setting): setting for setting in earlier.settings if setting.rates}
    pairs = [
        (setting, before[_key(setting)])
        for setting in now.settings
        if setting.rates and _key(setting) in before
    ]
    if not pairs:
        raise ValueError("no setting was measured both now and then")
    changes = tuple(Change(new, old, interval_of([(new.rates, old.rates)])) for new, old in pairs)
    overall = interval_of([(new.rates, old.rates) for new, old in pairs])
    return Comparison(changes, overall, tuple(_differences(now, earlier)))


def interval_of(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], confidence: float = CONFIDENCE
) -> Interval:
    """Estimate the ratio of rates that is common to all pairs.

    The estimate is that of Hodges and Lehmann (Estimates of location based on rank tests, Annals of Mathematical
    Statistics 34, 1963): the median of all ratios of a rate now to one then, within each pair. Its bounds are
    those of these ratios at which the test of Wilcoxon, Mann and Whitney ceases to tell them apart (Hollander,
    Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, sections 4.2 and 4.3); with several pairs, the
    sum of their statistics takes its place (van Elteren 1960).

    Args:
        pairs: Rates now and rates then, for each setting; above 0.
        confidence: That the bounds have to have; they have it exactly or a little more.

    Raises:
        ValueError: There is no pair, or one without rates.
    """
    if not pairs or not all(new and old for new, old in pairs):
        raise ValueError("expected rates now and then, at least one of each")
    differences = sorted(math.log(a) - math.log(b) for new, old in pairs for a in new for b in old)
    rank = _rank([(len(new), len(old)) for new, old in pairs], confidence)
    estimate = _exp(statistics.median(differences))
    if rank == 0:
        return Interval(estimate, None, None)
    return Interval(estimate, _exp(differences[rank - 1]), _exp(differences[-rank]))


def _exp(logarithm: float) -> float:
    """Return the ratio; what is too large for a float is infinite."""
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


def can_tell(sizes: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> bool:
    """Whether so many repeats of each setting, now and then, suffice for an interval."""
    return _rank(sizes, confidence) > 0


def _rank(sizes: Sequence[tuple[int, int]], confidence: float) -> int:
    """Which of the ordered differences, counted from either end, is a bound; 0 if none is."""
    share = np.ones(1)
    for ours, theirs in sizes:
        share = np.convolve(share, wins(ours, theirs))
    # The bound is the difference with this rank if fewer wins than the rank are improbable enough.
    below = np.cumsum(share)
    return int(np.searchsorted(below, (1.0 - confidence) / 2 * (1 + 1e-9), side="right"))


def wins(ours: int, theirs: int) -> npt.NDArray[np.float64]:
    """Return the distribution of the statistic of Mann and Whitney where nothing differs.

    Entry *u* is the probability that *u* of the ``ours * theirs`` comparisons are won. The counts are the
    coefficients of a Gaussian binomial, which are whole numbers.
    """
    most = ours * theirs
    counts = [1] + [0] * most
    for factor in range(1, ours + 1):
        for power in range(most, theirs + factor - 1, -1):  # times 1 - q ** (theirs + factor)
            counts[power] -= counts[power - theirs - factor]
        for power in range(factor, most + 1):  # divided by 1 - q ** factor
            counts[power] += counts[power - factor]
    total = math.comb(ours + theirs, ours)
    return np.array([count / total for count in counts])


def _key(setting: Setting) -> tuple[str, int, int | None, int | None]:
    ahead = setting.prefetch_factor if setting.num_workers else None
    return setting.loader, setting.num_workers, ahead, setting.batch_size


def _differences(now: Result, earlier: Result) -> list[str]:
    """Say what else is not the same."""
    sides = [
        ("target", now.target, earlier.target),
        ("dataset", now.dataset, earlier.dataset),
        ("memory limit", now.memory_limit, earlier.memory_limit),
        ("processor", now.machine.cpu, earlier.machine.cpu),
        ("cores", now.machine.cores, earlier.machine.cores),
        ("Python", now.machine.python, earlier.machine.python),
        *(
            (name, version, earlier.machine.packages[name])
            for name, version in now.machine.packages.items()
            if name in earlier.machine.packages
        ),
    ]
    return [f"{what}: {new} now, {old} then" for what, new, old in sides if new != old]
