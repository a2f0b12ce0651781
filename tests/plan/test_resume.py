"""An epoch that is interrupted any number of times is the epoch that is not: the property behind G1 and G4."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nogil_loader.plan import Batching, LoaderState, Received, Slice

MOST = 60
SEED = 11
EPOCH = 3


def arguments_of(kind: str, length: int, sizes: list[int]) -> dict[str, Any]:
    if kind == "random":
        return {"shuffle": True}
    names = [f"sample-{number * 7 % 64}" for number in range(length)]
    if kind == "sampler":
        return {"sampler": names}
    if kind == "batch_sampler":
        batches: list[list[str]] = []
        start = 0
        while start < length:
            size = sizes[len(batches) % len(sizes)]
            batches.append(names[start : start + size])
            start += size
        return {"batch_sampler": batches}
    return {}


def saved_and_loaded(
    batching: Batching, length: int, received: Received, *, finished: bool
) -> tuple[int, Received]:
    state = LoaderState.of(
        sampler=batching.kind, length=length, seed=SEED, epoch=EPOCH, received=received, finished=finished
    )
    loaded = LoaderState.from_dict(json.loads(json.dumps(state.to_dict())))
    loaded.check_fits(sampler=batching.kind, length=length, seed=SEED)
    return loaded.resume()


def take(received: Received, piece: Slice, stream: list[Any]) -> None:
    received.add(piece.start, piece.stop, piece.keys)
    for offset, key in enumerate(piece.keys):
        stream[piece.start + offset] = key


kinds = st.sampled_from(["sequential", "random", "sampler", "batch_sampler"])
lengths = st.integers(0, MOST)
batch_sizes = st.one_of(st.none(), st.integers(1, 12))
ragged = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def make(kind: str, length: int, batch_size: int | None, drop_last: bool, sizes: list[int]) -> Batching:
    arguments = arguments_of(kind, length, sizes)
    if kind != "batch_sampler":
        arguments |= {"batch_size": batch_size, "drop_last": drop_last and batch_size is not None}
    return Batching.of(length, seed=SEED, **arguments)


def flattened(kind: str, length: int, sizes: list[int]) -> list[Any]:
    return [key for piece in make(kind, length, 1, False, sizes).plan(EPOCH) for key in piece.keys]


@settings(max_examples=300)
@given(
    kinds,
    lengths,
    st.booleans(),
    ragged,
    st.lists(st.tuples(st.integers(0, 6), batch_sizes), max_size=6),
    batch_sizes,
)
def test_d12_the_stream_of_an_interrupted_epoch_is_that_of_an_undisturbed_one(
    kind: str,
    length: int,
    drop_last: bool,
    sizes: list[int],
    sittings: list[tuple[int, int | None]],
    last_size: int | None,
) -> None:
    stream: list[Any] = []
    received = make(kind, length, 1, False, sizes).start()
    for batches, batch_size in sittings:
        batching = make(kind, length, batch_size, drop_last, sizes)
        plan = batching.plan(EPOCH, received)
        for piece in [piece for _, piece in zip(range(batches), plan, strict=False)]:
            assert piece.start == len(stream)
            stream += piece.keys
            received.add(piece.start, piece.stop, piece.keys)
        # What the plan has drawn ahead and nobody received is forgotten with it.
        next(plan, None)
        epoch, received = saved_and_loaded(batching, length, received, finished=False)
        assert epoch == EPOCH
        assert received.prefix == len(stream)
    batching = make(kind, length, last_size, drop_last, sizes)
    plan = batching.plan(EPOCH, received)
    expected_total = plan.total
    rest = list(plan)
    for piece in rest:
        assert piece.start == len(stream)
        stream += piece.keys
        received.add(piece.start, piece.stop, piece.keys)
    assert plan.total == len(stream)
    assert expected_total in (None, len(stream))

    whole = flattened(kind, length, sizes)
    assert stream == whole[: len(stream)]
    if batching.drop_last:
        assert len(whole) - len(stream) < (last_size or 1)
        assert {len(piece.keys) for piece in rest} <= {last_size}
    else:
        assert len(stream) == len(whole)

    # After the last batch but inside the loop: nothing is left. After the loop: the next epoch in full.
    epoch, again = saved_and_loaded(batching, length, received, finished=False)
    assert list(batching.plan(epoch, again)) == []
    epoch, fresh = saved_and_loaded(batching, length, received, finished=True)
    assert (epoch, fresh.count) == (EPOCH + 1, 0)
    assert list(batching.plan(epoch, fresh)) == list(batching.plan(EPOCH + 1))


@settings(max_examples=300)
@given(
    kinds,
    lengths,
    st.booleans(),
    ragged,
    st.lists(st.tuples(batch_sizes, st.integers(1, 5), st.lists(st.integers(0, 4), max_size=8)), max_size=5),
    batch_sizes,
)
def test_f07_in_any_order_of_delivery_each_sample_still_comes_exactly_once(
    kind: str,
    length: int,
    drop_last: bool,
    sizes: list[int],
    sittings: list[tuple[int | None, int, list[int]]],
    last_size: int | None,
) -> None:
    missing = object()
    stream: list[Any] = [missing] * length
    received = make(kind, length, 1, False, sizes).start()
    for batch_size, in_flight, choices in sittings:
        batching = make(kind, length, batch_size, drop_last, sizes)
        plan = batching.plan(EPOCH, received)
        window = [piece for _, piece in zip(range(in_flight), plan, strict=False)]
        for choice in choices:
            if not window:
                break
            take(received, window.pop(choice % len(window)), stream)
            window += [piece for _, piece in zip(range(1), plan, strict=False)]
        _, received = saved_and_loaded(batching, length, received, finished=False)
        assert [key is not missing for key in stream] == [place in received for place in range(length)]
    batching = make(kind, length, last_size, drop_last, sizes)
    rest = list(batching.plan(EPOCH, received))
    for piece in rest:
        # ``add`` refuses a position that was received before.
        take(received, piece, stream)
    assert [piece.start for piece in rest] == sorted(piece.start for piece in rest)
    assert all(piece.keys for piece in rest)
    dropped = length - received.count
    assert dropped < (last_size or 1) if batching.drop_last else dropped == 0
    assert received.ahead == ()
    assert stream[: received.prefix] == flattened(kind, length, sizes)[: received.prefix]


def test_a_state_before_the_first_batch_is_the_whole_epoch() -> None:
    batching = make("random", 10, 4, False, [])
    epoch, received = saved_and_loaded(batching, 10, batching.start(), finished=False)
    assert list(batching.plan(epoch, received)) == list(batching.plan(EPOCH))
