"""Judges whether samples fit together, into batches and into memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nogil_loader.check.census import Part, Spread, take_census
from nogil_loader.check.evidence import Evidence
from nogil_loader.check.finding import Finding, plural, some
from nogil_loader.check.outcome import Value
from nogil_loader.errors import describe_bytes

# The largest sample is so many times the median, and not small: the memory that a loader sets aside for unknown
# samples, which follows what it has seen, is then far from what the next one takes.
_HEAVY = 8
_HEAVY_BYTES = 1_024


def judge_census(evidence: Evidence) -> Iterator[Finding]:
    """Yield what keeps samples from being stacked into a batch."""
    parts = take_census(evidence.samples())
    nones = [part.path for part in parts if part.has_none]
    for part in parts:
        is_below_none = any(part.path.startswith((f"{path}.", f"{path}[")) or not path for path in nones)
        place = f"at {part.path!r}" if part.path else "in the samples"
        details = [
            f"{spec} in {plural(count, 'sample')}, such as {evidence.key(part.examples[spec])}"
            for spec, count in part.specs.items()
        ]
        if part.has_mixed_kinds or (part.missing and not is_below_none):
            missing = (f"nothing in {plural(part.missing, 'sample')}",) if part.missing else ()
            title = "samples have different structures" if part.missing else "samples hold different things"
            yield _misfit(
                "structure", f"{title} {place}", [*details, *missing], "return the same keys and types always"
            )
            continue
        if part.has_none:
            where = f"None {place}" if part.path else "None"
            advice = 'collate_fn=nogil_loader.DefaultCollate(none="list"), or return a value instead of None'
            yield _misfit("none", f"{where} in {plural(part.kinds['none'], 'sample')}", details, advice)
        if len(part.dtypes) > 1:
            yield _misfit(
                "dtypes", f"dtypes differ {place}", details, "convert to one dtype; batches never convert"
            )
        if part.is_ragged:
            yield _misfit(
                "ragged", f"shapes differ {place}: {part.describe()}", details, *_ragged_advice(part)
            )


def _misfit(kind: str, title: str, details: Sequence[str], *advice: str) -> Finding:
    return Finding(kind, "warning", f"{title}: the default collate cannot stack them", some(details), advice)


def _key_of(path: str) -> str:
    """Return what pad_collate calls a place: an item of a tuple by its number."""
    item = path[1:-1]
    return item if path == f"[{item}]" and item.isdigit() else repr(path)


def _ragged_advice(part: Part) -> tuple[str, ...]:
    keys = f"keys=[{_key_of(part.path)}]" if part.path else ""
    if part.ragged_axes == (0,) and "image" not in part.kinds:
        return (
            f"collate_fn=nogil_loader.pad_collate({keys}), to fill up to one length",
            f"or pack_collate({keys}), to lay them one after the other",
        )
    return ("crop or resize to one shape in __getitem__, or with transform=",)


def judge_sizes(evidence: Evidence) -> Iterator[Finding]:
    """Yield sizes that memory would have to be set aside for."""
    read = {at: evidence.reading(at).nbytes for at in evidence.positions("sample")}
    sizes = {at: nbytes for at, nbytes in read.items() if isinstance(evidence.reading(at).outcome, Value)}
    spread = Spread.of(sizes.values())
    if spread is None:
        return
    largest = max(sizes, key=sizes.__getitem__)
    is_heavy = spread.most >= _HEAVY * max(1, spread.p50) and spread.most >= _HEAVY_BYTES
    if is_heavy and not evidence.has_hint:
        yield Finding(
            "heavy-tail",
            "warning",
            f"a few samples are far larger than the others: median {describe_bytes(int(spread.p50))}, largest "
            f"{describe_bytes(int(spread.most))}",
            (f"{evidence.items[largest]} is the largest",),
            ("give the dataset a method nbytes(index) that says beforehand what a sample takes",),
            (evidence.key(largest),),
        )
    load = evidence.load
    if load is not None:
        needed = int(spread.most) * load.batch_size * load.batches
        if needed > load.room:
            yield Finding(
                "memory",
                "warning",
                f"batches of the largest samples do not fit into memory: {load.batches} of {load.batch_size} take "
                f"{describe_bytes(needed)}, there are {describe_bytes(load.room)} ({load.source})",
                (f"{evidence.items[largest]} is the largest, with {describe_bytes(int(spread.most))}",),
                (
                    "the loader will load fewer at once; a smaller batch_size or fewer workers leave it more room",
                ),
            )
