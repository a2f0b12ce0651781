"""The governor in a simulated machine, with any sizes, hints, neighbours, consumers and interleavings."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.policies import STEPS, MemoryPolicy
from tests.memory.world import MB, Setting, World

SEEDS = st.integers(0, 2**32 - 1)
ORDERS = st.permutations(STEPS).map(tuple)


def lognormal_sizes(dice: random.Random, count: int, outliers: float) -> list[int]:
    """Sizes of 0.1 to 20 MB with a long tail, and some that are far larger than the rest."""
    return [
        int(
            min(20 * MB, max(MB / 10, dice.lognormvariate(14.5, 1.0)))
            * (4 if dice.random() < outliers else 1)
        )
        for _ in range(count)
    ]


@st.composite
def worlds(
    draw: Any, *, honest: bool = False, steady: bool = False, roomy: bool = False, fixed: bool = False
) -> World:
    """A machine.

    Args:
        honest: Hints are upper bounds, nothing fails, and there is no neighbour.
        steady: There is no neighbour, and the probe answers.
        roomy: There is always memory for a single sample, so that nothing may fail.
        fixed: Batches stay whole.

    Half of them load small pieces freely, and so on with all that a loader may do.
    """
    dice = random.Random(draw(SEEDS))
    count = draw(st.integers(1, 60))
    sizes = lognormal_sizes(dice, count, draw(st.sampled_from([0.0, 0.05])))
    largest = max(sizes)
    kind = "upper" if honest else draw(st.sampled_from(["none", "upper", "low", "high", "random", "absurd"]))
    factor = {
        "upper": lambda: dice.uniform(1.0, 1.5),
        "low": lambda: 0.25,
        "high": lambda: 3.0,
        "random": lambda: dice.uniform(0.25, 4.0),
        "absurd": lambda: dice.choice([1e-6, 1.0, 4.0]),
    }.get(kind)
    hints = None if factor is None else [int(size * factor()) for size in sizes]
    scratch = draw(st.sampled_from([0.0, 1.0, 3.0]))
    keep = draw(st.sampled_from([0, 1] if roomy else [0, 1, 3, -1]))
    quantum = draw(st.sampled_from([1, MB, 20 * MB]))
    least_batch = draw(st.sampled_from([1, 1, 2]))
    base = 17 * MB
    collated = draw(st.booleans())
    ranks = draw(st.sampled_from([1, 1, 1, 3]))
    # What the smallest piece may be thought to need.
    least = int((2 * least_batch - 1) * max(largest, *(hints or [0])) * (1.0 + collated + scratch) * ranks)
    if roomy:
        # What the consumer holds is at most a third of the room, and what surprised; a neighbour takes a fifth.
        limit = int((base + 2 * least + quantum) / (0.93 - 0.85 / 3 - 0.2) * draw(st.floats(1.0, 4.0)))
    else:
        limit = int((base + least) * draw(st.floats(0.8, 8.0)))
    burst = draw(st.floats(0.0, 0.2 if roomy else 0.9)) * limit
    begin, period = draw(st.floats(0.0, 1.0)), draw(st.floats(0.05, 1.0))

    def neighbour(now: float) -> int:
        return 0 if honest or steady else int(burst) if ((now - 100.0) / period + begin) % 2.0 >= 1.0 else 0

    lowest = 1.0 if honest or steady or roomy else draw(st.sampled_from([1.0, 1.0, 0.3]))

    def swing(now: float) -> float:
        return lowest if ((now - 100.0) / period + begin) % 3.0 >= 2.0 else 1.0

    blackout = 0.0 if honest or steady else draw(st.sampled_from([0.0, 0.0, 0.5]))

    setting = Setting(
        sizes,
        hints,
        batch=draw(st.sampled_from([1, 4, 8, 16])),
        workers=draw(st.integers(1, 6)),
        prefetch=draw(st.integers(1, 3)),
        limit=limit,
        base=base,
        policy=MemoryPolicy(
            order=draw(ORDERS),
            stall=1.0,
            scratch=scratch,
            min_batch_size=least_batch,
            min_workers=draw(st.sampled_from([1, 1, 2])),
            fixed_batch_size=fixed,
        ),
        keep=keep,
        pause=draw(st.sampled_from([0.0, 0.005, 0.1])),
        scratch=scratch,
        quantum=quantum,
        failing=0.0 if honest else draw(st.sampled_from([0.0, 0.0, 0.02])),
        refusing=0.0 if honest else draw(st.sampled_from([0.0, 0.0, 0.02])),
        entangled=0.0 if honest or roomy else draw(st.sampled_from([0.0, 0.0, 0.1])),
        resizing=draw(st.sampled_from([0.0, 0.0, 0.2])),
        free=draw(st.booleans()),
        collated=collated,
        ranks=ranks,
        in_order=draw(st.booleans()),
        arrays=draw(st.sampled_from([1, 3])),
        neighbour=neighbour,
        swing=swing,
        blind=lambda now: (now - 100.0 + begin) % 1.0 < blackout,
    )
    if draw(st.booleans()):  # an iterable, whose errors end an epoch
        setting = dataclasses.replace(setting, revocable=False, failing=0.0, refusing=0.0)
    return World(setting, dice)


def enough_steps(world: World) -> int:
    """Far more than an epoch takes, with a stall of one second in it."""
    return 20_000 + 200 * len(world.setting.sizes)


@given(worlds())
def test_g7_every_epoch_ends_whatever_memory_does(world: World) -> None:
    """By delivering every sample once and in order (the world checks), or by saying what did not fit."""
    world.run(enough_steps(world))
    shortage = world.shortage
    if shortage is None:
        assert sum(world.delivered) == len(world.setting.sizes)
        return
    assert shortage.used + shortage.needed > shortage.ceiling, "it failed although it would have fitted"
    assert shortage.waited >= world.setting.policy.stall
    assert shortage.samples < 2 * world.setting.policy.min_batch_size, "it failed with a piece to be split"
    said = max(world.setting.hints or [0])
    believable = max(said, *world.setting.sizes) * shortage.samples
    assert shortage.needed <= (2.0 + world.setting.scratch) * believable + 1
    assert str(shortage.error())


@given(worlds(roomy=True))
def test_g5_nothing_fails_where_a_sample_always_fits(world: World) -> None:
    world.run(enough_steps(world))
    assert world.shortage is None, world.shortage
    assert sum(world.delivered) == len(world.setting.sizes)


@given(worlds(honest=True))
def test_g5_use_stays_below_the_marks_when_estimates_are_upper_bounds(world: World) -> None:
    """Below the soft mark, but for one piece that is in flight alone: below the hard mark.

    Unless all ranks have come to their last piece at once, each of which counts only itself; and free pieces may
    take half of what is between the marks.
    """
    setting = world.setting
    for _ in range(enough_steps(world)):
        if world.over:
            break
        world.step()
        if setting.keep < 0:
            continue  # whoever keeps everything takes what there is
        if setting.ranks > 1 and world.governor.statistics().last:
            continue
        assert world.worst <= (1.05 if setting.free else 1.0), world.describe()
        soft = max(setting.policy.soft * world.limit, world.others + (world.limit - world.others) / 16)
        if world.used > soft and not setting.free:
            filled = [size for _, size in (world.loading | world.ready).values() if size]
            assert len(filled) <= 1, world.describe()
    assert world.over, world.describe()


@given(worlds(steady=True, roomy=True))
def test_g5_wrong_estimates_overshoot_by_a_sample_per_worker(world: World) -> None:
    """Each worker notices at its next report that its piece has outgrown what was reserved for it."""
    setting = world.setting
    world.run(enough_steps(world))
    surprise = int(max(setting.sizes) * (1.0 + setting.scratch)) + setting.quantum
    assert world.most_used <= setting.policy.soft * world.limit + setting.workers * surprise


@given(worlds(fixed=True))
def test_c19_a_fixed_batch_is_never_cut_whatever_memory_does(world: World) -> None:
    world.run(enough_steps(world))
    batch, count = world.setting.batch, len(world.setting.sizes)
    whole = [min(batch, count - start) for start in range(0, count, batch)]
    assert set(world.received) <= set(whole)
    if world.setting.in_order:
        assert world.delivered == whole[: len(world.delivered)]
    if world.shortage is None:
        assert world.received == whole
    else:
        assert world.shortage.used + world.shortage.needed > world.shortage.ceiling


def test_c19_two_ranks_of_which_one_is_short_of_memory_make_the_same_steps() -> None:
    sizes = [2 * MB] * 96
    calm = Setting(sizes, batch=16, limit=600 * MB, sharded=True)
    pressed = dataclasses.replace(calm, neighbour=lambda now: 480 * MB if (now - 100.0) % 0.2 < 0.1 else 0)
    steps = []
    for setting in (calm, pressed):
        world = World(setting, random.Random(7))
        world.run(100_000)
        steps.append(world.delivered)
    assert steps[0] == steps[1] == [16] * 6
    assert world.governor.statistics().waits > 0, "the second rank was under no pressure"


def test_small_pieces_are_loaded_without_a_question_where_memory_is_plentiful() -> None:
    for revocable in (True, False):
        setting = Setting([MB // 10] * 400, free=True, revocable=revocable, workers=4, limit=10_000 * MB)
        world = World(setting, random.Random(2))
        world.run(100_000)
        assert sum(world.delivered) == 400
        asked, free = world.asked
        assert free > 40 > asked, "but for the first ones, which showed how large samples are"


def test_a_consumer_that_keeps_every_free_batch_gets_the_numbers_and_no_more_memory_than_there_is() -> None:
    setting = Setting([MB] * 2000, batch=4, free=True, keep=-1, pause=0.0, limit=1000 * MB)
    world = World(setting, random.Random(2))
    world.run(200_000)
    assert world.asked[1] > 50
    assert world.most_used <= setting.limit
    assert world.shortage is not None
    assert world.shortage.held > 800 * MB


def test_c18_shrinking_drops_no_sample_of_the_batches_that_drop_last_keeps() -> None:
    """100 samples in batches of 32 without the last 4: the 96 arrive, in smaller pieces."""
    world = World(Setting([3 * MB] * 96, batch=32, limit=100 * MB), random.Random(1))
    world.run(100_000)
    assert sum(world.delivered) == 96
    assert max(world.delivered) <= 8
    edges = [sum(world.delivered[:place]) for place in range(len(world.delivered))]
    assert {0, 32, 64} <= set(edges), "pieces do not reach across the planned batches"


def test_c21_sizes_that_vary_a_hundredfold_stay_within_the_budget_and_a_large_one_passes_alone() -> None:
    dice = random.Random(3)
    sizes = [20 * MB if dice.random() < 0.05 else MB // 10 for _ in range(400)]
    for hints in (None, sizes):
        setting = Setting(sizes, hints, batch=16, workers=4, limit=64 * MB, base=0, keep=0)
        world = World(setting, random.Random(5))
        world.run(500_000)
        assert world.shortage is None
        assert sum(world.delivered) == 400
        whole_batch = max(sum(sizes[start : start + 16]) for start in range(0, 400, 16))
        assert world.most_in_flight <= 64 * MB + whole_batch
    assert world.most_in_flight <= 0.85 * 64 * MB, "with hints there is no surprise"

    alone = World(Setting([58 * MB], [58 * MB], limit=64 * MB, base=0, keep=0), random.Random(5))
    alone.run(10_000)
    assert alone.delivered == [1], "above the soft mark, below the hard one, with nothing else in flight"
