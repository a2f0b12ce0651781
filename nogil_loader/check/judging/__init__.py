"""From what was seen of a dataset to what is wrong with it. Pure: no threads, no clocks, no dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding
from nogil_loader.check.judging.batches import judge_batches, judge_hints
from nogil_loader.check.judging.bound import judge_bound
from nogil_loader.check.judging.fit import judge_census, judge_sizes
from nogil_loader.check.judging.harm import judge_damage, judge_losses, judge_stalls, judge_twice
from nogil_loader.check.judging.samples import (
    judge_ends,
    judge_hung,
    judge_overwritten,
    judge_raised,
    judge_randomness,
    judge_restless,
)
from nogil_loader.check.judging.stream import judge_stream
from nogil_loader.check.judging.threads import judge_threads
from nogil_loader.check.stream import Streaming

__all__ = ["judge", "judge_iterable"]


def judge(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what is wrong with a dataset that is read by index, the gravest first."""
    return _ranked(
        [
            *judge_bound(evidence),
            *judge_threads(evidence),
            *judge_stalls(evidence),
            *judge_losses(evidence.losses),
            *judge_twice(evidence.twice),
            *judge_damage(evidence),
            *_judge_data(evidence),
        ]
    )


def judge_iterable(evidence: Evidence, streaming: Streaming) -> tuple[Finding, ...]:
    """Return what is wrong with an iterable, the gravest first."""
    return _ranked([*judge_stream(evidence, streaming), *_judge_data(evidence)])


def _judge_data(evidence: Evidence) -> Iterator[Finding]:
    yield from judge_raised(evidence)
    yield from judge_hung(evidence)
    yield from judge_ends(evidence)
    yield from judge_overwritten(evidence)
    yield from judge_batches(evidence)
    yield from judge_hints(evidence)
    yield from judge_randomness(evidence)
    yield from judge_restless(evidence)
    if evidence.collates:
        yield from judge_census(evidence)
    yield from judge_sizes(evidence)


def _ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.level != "error"))
