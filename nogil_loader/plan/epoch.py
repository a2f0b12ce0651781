"""One epoch's work: which samples, in which order, cut into which batches.

Guarantees:

- Slices cover the epoch's positions that were not received before, each position in exactly one slice, in
  ascending order.
- Every slice has ``batch_size`` keys, except the last one of the epoch, and, after a resume from unordered
  delivery, the last one before samples that were received ahead of their turn. With ``drop_last`` an
  incomplete last slice of the epoch is left out, and nothing else ever is.
- After a resume the remaining samples are cut anew from the first missing one on. So every batch is full
  again, whatever the batch size was before, and with ``drop_last`` fewer than ``batch_size`` samples at the
  very end stay out, as ever. How many these are depends on where the last cut began: of 10 samples in batches
  of 4 two stay out, and none if the epoch is resumed after sample 2.
- A batch sampler's batches are kept as they are: received ones are skipped, and of a partly received one the
  rest is a slice of its own.
- ``set_epoch`` and ``iter`` of a user's sampler are called once, in the constructor, which also draws the first
  item and what was received before. The sampler's errors come out unchanged, and once it ended or raised, it is
  not advanced again.
- If a user's sampler now gives other keys at the positions that were received, the constructor raises
  ``ResumeError`` instead of delivering some samples twice and others never.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from nogil_loader.checks import as_count, as_flag
from nogil_loader.errors import ResumeError
from nogil_loader.plan.digest import KeyDigest
from nogil_loader.plan.received import Received, Run
from nogil_loader.plan.samplers import Order, Sampler, UserBatchSampler, UserSampler, plain_keys

# Indices are computed this many at a time: enough that numpy's overhead per call vanishes (4,096 cost twice as
# much per index), few enough that the first batch waits about 1 ms and the list takes half a megabyte.
_CHUNK = 1 << 14


class Slice(NamedTuple):
    """One batch's part of the plan.

    Attributes:
        start: Position of the first sample within the epoch, counted from 0 over the flattened order.
        keys: Dataset keys of consecutive positions; plain ints from the built-in samplers.
    """

    start: int
    keys: list[Any]

    @property
    def stop(self) -> int:
        """The position after the last sample."""
        return self.start + len(self.keys)


class EpochPlan(Iterator[Slice]):
    """The slices of one epoch that are still to be delivered, drawn lazily by one caller at a time.

    Args:
        sampler: Where the keys come from.
        epoch: The epoch, from 0.
        batch_size: Keys per slice; None for slices of one key that are not to be collated. Unused with a
            batch sampler.
        drop_last: Leave out the epoch's last slice if it is incomplete. Unused with a batch sampler and
            without a batch size.
        received: What was received of this epoch before; it is read here and not kept.
        announce: Call ``set_epoch`` of a user's sampler.

    Attributes:
        total: Samples planned for the whole epoch, those already received included; None if that is not known
            (a sampler without a length, a batch sampler). Exact once the plan has ended, whatever the
            sampler's ``__len__`` said.

    Raises:
        ResumeError: The sampler's keys are not those that were received.
        Exception: Whatever the user's sampler raises.
    """

    def __init__(
        self,
        sampler: Sampler,
        epoch: int,
        *,
        batch_size: int | None,
        drop_last: bool = False,
        received: Received | None = None,
        announce: bool = True,
    ) -> None:
        received = Received() if received is None else received
        self._received_before = received.count
        self._drawn = 0
        self._failure: BaseException | None = None
        size = 1 if batch_size is None else as_count("batch_size", batch_size, least=1)
        drop_last = as_flag("drop_last", drop_last) and batch_size is not None
        if isinstance(sampler, UserBatchSampler):
            self._slices = _cut_batches(sampler.open(epoch, announce=announce), received)
            self.total: int | None = None
        elif isinstance(sampler, UserSampler):
            keys = sampler.open(epoch, announce=announce)
            self._slices = _cut_keys(keys, size, drop_last, received)
            self.total = _planned(sampler.length, size, drop_last, received)
        else:
            runs = _missing_runs(sampler.length, size, drop_last, received)
            self._slices = _cut_order(sampler.order(epoch), size, runs)
            self.total = _planned(sampler.length, size, drop_last, received)

    def __next__(self) -> Slice:
        if self._failure is not None:
            raise self._failure
        try:
            drawn = next(self._slices)
        except StopIteration:
            self.total = self._received_before + self._drawn
            raise
        except BaseException as failure:
            # A generator that raised ends at the next call, which would look like the end of the epoch.
            self._failure = failure
            raise
        self._drawn += len(drawn.keys)
        return drawn


def _missing_runs(length: int, size: int, drop_last: bool, received: Received) -> list[Run]:
    """The runs of a known order that are still to be delivered, without what ``drop_last`` leaves out."""
    missing = [run for run in received.runs(0, length) if not run.received]
    if drop_last and missing and missing[-1].stop == length:
        start = missing[-1].start
        missing[-1] = missing[-1]._replace(stop=start + (length - start) // size * size)
    return missing


def _planned(length: int | None, size: int, drop_last: bool, received: Received) -> int | None:
    if length is None:
        return None
    return received.count + sum(
        run.stop - run.start for run in _missing_runs(length, size, drop_last, received)
    )


def _cut_order(order: Order, size: int, runs: list[Run]) -> Iterator[Slice]:
    step = max(1, _CHUNK // size) * size
    for run in runs:
        for start in range(run.start, run.stop, step):
            keys = order.indices(start, min(start + step, run.stop)).tolist()
            for offset in range(0, len(keys), size):
                yield Slice(start + offset, keys[offset : offset + size])


def _cut_keys(keys: Iterator[Any], size: int, drop_last: bool, received: Received) -> Iterator[Slice]:
    # Runs that were received are only read over, so they need no batch size.
    replayed = (
        Slice(start, plain_keys(list(islice(keys, min(step, run.stop - start)))))
        for run in received.runs(0, received.end)
        for step in [_CHUNK if run.received else size]
        for start in range(run.start, run.stop, step)
    )
    left = _replay(replayed, received)
    return chain(left, _cut_rest(keys, size, drop_last, received.end))


def _cut_rest(keys: Iterator[Any], size: int, drop_last: bool, start: int) -> Iterator[Slice]:
    while batch := list(islice(keys, size)):
        if len(batch) == size or not drop_last:
            yield Slice(start, plain_keys(batch))
        if len(batch) < size:
            return  # the sampler has ended; asking it again is not allowed
        start += size


def _cut_batches(batches: Iterator[list[Any]], received: Received) -> Iterator[Slice]:
    slices = _number_positions(batches)
    left = _replay(slices, received)
    return chain(left, slices)


def _number_positions(batches: Iterator[list[Any]]) -> Iterator[Slice]:
    start = 0
    for batch in batches:
        yield Slice(start, batch)
        start += len(batch)


def _replay(slices: Iterator[Slice], received: Received) -> list[Slice]:
    """Draw all positions up to the last received one; return what was not received of them.

    Raises:
        ResumeError: The slices end too early, or their keys are not the received ones.
    """
    left: list[Slice] = []
    digest = KeyDigest()
    end, reached = received.end, 0
    while reached < end:
        drawn = next(slices, None)
        if drawn is None or not drawn.keys:
            raise ResumeError(
                f"the state has received samples up to position {end} of this epoch, and the sampler ended "
                f"after {reached}: it is not the one that the state was taken with, or it was shortened; "
                f"give the same sampler, or start without the state",
                field="received",
            )
        reached = drawn.stop
        for run in received.runs(drawn.start, drawn.stop):
            keys = drawn.keys[run.start - drawn.start : run.stop - drawn.start]
            if run.received:
                digest.add(run.start, keys)
            else:
                left.append(Slice(run.start, keys))
    if received.digest is not None and received.digest != digest:
        raise ResumeError(
            f"the sampler gives other keys than those received before (digest {digest.hex()}, in the "
            f"state {received.digest.hex()}), so resuming would repeat some samples and lose others: give a "
            f"sampler whose order is the same for the same epoch (seed it, or let its set_epoch do so), or "
            f"start the epoch anew without the state",
            field="digest",
        )
    return left
