"""Whether one setting loads faster than another: a few intervals tell a large gain, more of them a small one.

The two settings take turns, A B A B, and each step from one interval to the next gives one difference of the
logarithms of their rates. With the sign of the direction these differences are averaged. A drift of the machine
enters every second one with the opposite sign, so it cancels; what does not cancel is the gain, and noise.

For intervals whose logarithms scatter by sigma, the mean of N such differences scatters by
``sigma * sqrt(4 N - 2) / N``: each interval but the two at the ends is in two of them.
"""

from __future__ import annotations

import math

# The scatter of an interval's rate, as a share, while nothing is known: what short intervals show on a quiet
# machine. It weighs as much as so many differences that were seen.
_PRIOR = 0.05
_PRIOR_WEIGHT = 4.0
# So many of the latest differences are remembered; the machine's neighbours change.
_MEMORY = 40.0
# No difference counts as more than a factor of about three, or one outlier would outweigh all others.
_CLIP = 1.2
# How many of its standard errors a gain must be above what is asked for, and how many below to be given up. The
# first is strict, because a wrong change is paid for ever; the second is mild, because giving up late is paid now.
_SURE = 2.0
_HOPELESS = 1.4
# By how much a single difference is less sure than its standard error says, since the scatter is hardly known.
_FEW = 1.5
# Differences after which the mean decides.
_MOST_STEPS = 16


class Noise:
    """How much the rates of intervals scatter with nothing changed."""

    def __init__(self) -> None:
        self._variance = _PRIOR**2
        self.weight = _PRIOR_WEIGHT

    @property
    def variance(self) -> float:
        """Of the logarithm of an interval's rate."""
        return self._variance

    def learn(self, difference: float) -> None:
        """Take in how much the logarithms of the rates of two intervals differ, other than by their settings."""
        square = min(abs(difference), _CLIP) ** 2 / 2
        self.weight = min(_MEMORY, self.weight + 1)
        self._variance += (square - self._variance) / self.weight


class Trial:
    """One comparison of a challenger with the setting in use.

    Args:
        noise: What is known of the scatter; it learns from the trial.
        by: How much faster the challenger has to be: 0.05 for 5 %. Less than 0 lets it be a little slower.

    Attributes:
        won: Whether the challenger is faster by so much; None as long as that is open.
    """

    def __init__(self, noise: Noise, by: float) -> None:
        self._noise = noise
        self._bar = math.log1p(by)
        self._rates: list[float] = []
        self._differences: list[float] = []
        self.won: bool | None = None

    @property
    def challenges(self) -> bool:
        """Whether it is the challenger's turn."""
        return len(self._rates) % 2 == 1

    def take(self, rate: float) -> bool | None:
        """Take in the rate of the next interval, of whose turn it is; return `won`."""
        if self._rates:
            step = math.log(rate / self._rates[-1])
            self._differences.append(max(-_CLIP, min(_CLIP, step if self.challenges else -step)))
        self._rates.append(rate)
        if self._differences:
            self.won = self._judge()
        return self.won

    @property
    def gain(self) -> float:
        """How much faster the challenger is by what was seen: 0.1 for 10 %."""
        return math.expm1(self._mean)

    @property
    def rates(self) -> tuple[float, float]:
        """The mean rates of the setting in use and of the challenger."""
        use, challenger = self._rates[::2], self._rates[1::2]
        return sum(use) / len(use), sum(challenger) / max(1, len(challenger))

    @property
    def intervals(self) -> int:
        """How many intervals it took."""
        return len(self._rates)

    def teach(self) -> None:
        """Let the noise learn what this trial shows of it."""
        count = len(self._differences)
        if count > 1:
            widen = math.sqrt(count / (count - 1))
            for difference in self._differences:
                self._noise.learn((difference - self._mean) * widen)

    @property
    def _mean(self) -> float:
        return sum(self._differences) / max(1, len(self._differences))

    def _judge(self) -> bool | None:
        count, mean = len(self._differences), self._mean
        # What this trial shows of the scatter and what was known before, each by its weight.
        known = min(self._noise.weight, _PRIOR_WEIGHT + _MOST_STEPS / 2)
        total = known * self._noise.variance
        if count > 1:
            total += sum((one - mean) ** 2 for one in self._differences) * count / (2 * (count - 1))
        deviation = math.sqrt(total / (known + count - 1))
        error = deviation * math.sqrt(4 * count - 2) / count
        unsure = error * (1 + _FEW / count)
        if mean - _SURE * unsure > self._bar:
            return True
        if mean + _HOPELESS * unsure < self._bar:
            return False
        return (
            mean > (max(self._bar, error) if self._bar > 0 else self._bar) if count >= _MOST_STEPS else None
        )
