"""Judges what is particular to iterables: whether they can be read again, and tell their length. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding
from nogil_loader.check.stream import Streaming


def judge_stream(evidence: Evidence, streaming: Streaming) -> Iterator[Finding]:
    """Yield what is wrong with an iterable as such."""
    if streaming.is_iterator:
        yield Finding(
            "not-repeatable",
            "warning",
            "it can be read once only: iter() returns the dataset itself",
            ("an epoch after the first finds nothing, and after a failure it cannot be read again",),
            ("pass an object whose __iter__ begins anew, such as one with a generator function",),
        )
    elif streaming.ended_early is not None:
        yield Finding(
            "not-repeatable",
            "warning",
            f"read again, it gives {streaming.ended_early:,} samples instead of {len(streaming.first):,}",
            (),
            ("let __iter__ begin anew each time, with a file or generator of its own",),
        )
    came = len(streaming.first)
    if evidence.length is not None and streaming.is_whole and evidence.length != came:
        yield Finding(
            "length",
            "warning",
            f"len() is {evidence.length:,}, but it gives {came:,} samples",
            ("it is read to its end all the same; len(loader) and the totals of progress are off",),
            (f"return {came} from __len__",),
        )
