"""Whatever is read of memory, and whatever else goes wrong meanwhile: the stream is the same (G1 to G4)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nogil_loader import ArrayDataset, DataLoader, FailurePolicy, MemoryPolicy, pad_collate
from nogil_loader.engine.ledger import MEMORY_RETRIES
from nogil_loader.memory.reading import UNKNOWN, MemoryReading
from nogil_loader.policies import STEPS
from tests.faults.machine import KB, MB, FileBatches, Files, FileStream, Machine, ToldFiles, drawn
from tests.faults.traps import PATIENCE

COUNT = 40
PLENTY = 4000 * MB
#: One reading: how much a machine has and what neighbours use of it, or what is wrong with it.
READINGS = st.one_of(
    st.tuples(st.integers(1, 40 * MB), st.integers(0, 40 * MB)),
    st.sampled_from([None, UNKNOWN, "nonsense", OSError, ZeroDivisionError]),
)
SCRIPTS = st.lists(READINGS, max_size=25)
HINTS = st.sampled_from(["none", "right", "low", "high", "raises", "nonsense"])
KINDS = st.sampled_from(["samples", "batches", "stream"])


class Scripted(Machine):
    """A machine of which one after the other of these readings is read; in the end it has plenty."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__(PLENTY)
        self._script = script

    def probe(self) -> Any:
        reading = super().probe()
        if self.readings > len(self._script):
            return reading
        step = self._script[self.readings - 1]
        if isinstance(step, type):
            raise step("no reading")
        if not isinstance(step, tuple):
            return step
        limit, others = step
        return MemoryReading.of(limit, others + self.used, "script")


def say(hints: str, sizes: list[int]) -> Any:
    """What a dataset says about its sizes."""
    factor = {"right": 1.0, "low": 0.1, "high": 10.0}.get(hints, 0.0)

    def nbytes(index: int) -> Any:
        if hints == "raises":
            raise ValueError(index)
        return "much" if hints == "nonsense" else int(factor * sizes[index])

    return nbytes


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    dice = random.Random(draw(st.integers(0, 2**32 - 1)))
    kind = draw(KINDS)
    batch_size = draw(st.sampled_from([1, 3, 8, 16, COUNT]))
    single = draw(st.booleans()) and draw(st.booleans())
    least = draw(st.integers(1, 4))
    collate = draw(st.sampled_from(["default", "list", "pad", "copy"]))
    sizes = [
        16 * KB if collate == "default" and not single else dice.choice([2 * KB, 100 * KB, 1 * MB])
        for _ in range(COUNT)
    ]
    return {
        "kind": kind,
        "sizes": sizes,
        "hints": "none" if kind != "samples" else draw(HINTS),
        "batch_size": None if single else batch_size,
        "collate": "none" if single else collate,
        "drop_last": False if single or kind == "stream" else draw(st.booleans()),
        "shuffle": None if kind == "stream" else draw(st.booleans()),
        "policy": {
            "order": tuple(draw(st.permutations(STEPS))),
            "min_batch_size": least,
            "min_workers": draw(st.integers(1, 4)),
            "fixed_batch_size": draw(st.sampled_from([None, False, True])),
            "stall": PATIENCE,
            "interval": 0.002,
        },
    }


def dataset_of(case: dict[str, Any], machine: Machine, trap: Any) -> Any:
    sizes = case["sizes"]
    if case["hints"] != "none":
        return ToldFiles(machine, sizes, trap, say=say(case["hints"], sizes))
    return {"samples": Files, "batches": FileBatches, "stream": FileStream}[case["kind"]](
        machine, sizes, trap
    )


def loader_of(case: dict[str, Any], machine: Machine, trap: Any = int, **changes: Any) -> DataLoader:
    arguments: dict[str, Any] = {
        "batch_size": case["batch_size"],
        "drop_last": case["drop_last"],
        "shuffle": case["shuffle"],
        "seed": 7,
        "num_workers": 0,
        "collate_fn": {"list": list, "pad": pad_collate(), "copy": machine.copy}.get(case["collate"]),
    }
    return DataLoader(dataset_of(case, machine, trap), **(arguments | changes))


def read(batch: Any) -> list[tuple[int, int]]:
    batch = getattr(batch, "values", batch)
    return drawn([batch] if getattr(batch, "ndim", 2) == 1 else batch)


def undisturbed(case: dict[str, Any]) -> list[list[tuple[int, int]]]:
    return [read(batch) for batch in loader_of(case, Machine(PLENTY), memory="off")]


def flat(batches: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [sample for batch in batches for sample in batch]


def check_sizes(case: dict[str, Any], found: list[list[Any]], expected: list[list[Any]]) -> None:
    if case["policy"]["fixed_batch_size"]:
        assert found == expected
        return
    sizes = {len(batch) for batch in found}
    assert max(sizes) <= max(map(len, expected))
    # The last batch of an epoch may have fewer to begin with.
    least = min(case["policy"]["min_batch_size"], min(map(len, expected)))
    assert min(sizes) >= least


PRESSURE = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(case=cases(), script=SCRIPTS, workers=st.sampled_from([0, 1, 4]), in_order=st.booleans())
@PRESSURE
def test_g1_to_g4_the_stream_is_the_same_whatever_is_read(
    case: dict[str, Any], script: list[Any], workers: int, in_order: bool
) -> None:
    expected = undisturbed(case)
    machine = Scripted(script)
    loader = loader_of(
        case, machine, num_workers=workers, in_order=in_order, memory=machine.policy(**case["policy"])
    )
    with loader:
        for _ in range(2):  # with the same workers
            loader.set_epoch(0)
            found = [read(batch) for batch in loader]
            if in_order:
                assert flat(found) == flat(expected)
                check_sizes(case, found, expected)
            else:
                assert sorted(flat(found)) == sorted(flat(expected))
            statistics = loader.statistics()
            assert statistics.planned == statistics.delivered == len(flat(expected))


@given(
    case=cases(),
    script=SCRIPTS,
    workers=st.sampled_from([0, 1, 4]),
    bad=st.sets(st.integers(0, COUNT - 1), max_size=4),
    error=st.sampled_from([ValueError, SystemExit, MemoryError]),
    policy=st.sampled_from(["rebuild", "skip"]),
)
@PRESSURE
def test_g1_a_failing_sample_is_delivered_once_or_recorded_whatever_is_read(
    case: dict[str, Any],
    script: list[Any],
    workers: int,
    bad: set[int],
    error: type[BaseException],
    policy: str,
) -> None:
    if case["kind"] == "stream":
        policy, error = "rebuild", ValueError  # what an iterable gives is not left out
    if error is MemoryError:
        # A batch that may not be divided is tried as often, then given up.
        bad = set(sorted(bad)[:MEMORY_RETRIES])
    expected = undisturbed(case)
    machine = Scripted(script)
    failures: dict[int, int] = {}

    def trap(index: int) -> None:
        failures[index] = failures.get(index, 0) + 1
        if index in bad and (policy == "skip" or failures[index] == 1):
            raise error(index)

    if policy == "skip":
        on_failure = FailurePolicy(rebuild=0, skip=len(bad))
        left = [sample for sample in flat(expected) if sample[0] not in bad]
    else:
        on_failure = FailurePolicy(rebuild=50)
        left = flat(expected)
    loader = loader_of(
        case,
        machine,
        trap,
        num_workers=workers,
        on_failure=on_failure,
        memory=machine.policy(**case["policy"]),
    )
    with loader:
        found = [read(batch) for batch in loader]
        assert flat(found) == left
        missing = {index for index, _ in flat(expected)} - {index for index, _ in left}
        assert {record.index for record in loader.skipped} == missing


@given(
    case=cases(),
    scripts=st.tuples(SCRIPTS, SCRIPTS),
    workers=st.tuples(*[st.sampled_from([0, 1, 4])] * 2),
    taken=st.integers(0, 12),
    other_size=st.sampled_from([1, 5, 8]),
)
@PRESSURE
def test_g4_an_epoch_left_under_pressure_goes_on_exactly_with_another_batch_size(
    case: dict[str, Any],
    scripts: tuple[list[Any], list[Any]],
    workers: tuple[int, int],
    taken: int,
    other_size: int,
) -> None:
    if case["kind"] == "stream":
        case["kind"] = "samples"
        case["shuffle"] = False
    case["drop_last"] = False
    expected = flat(undisturbed(case))
    first = Scripted(scripts[0])
    loader = loader_of(case, first, num_workers=workers[0], memory=first.policy(**case["policy"]))
    found: list[list[tuple[int, int]]] = []
    with loader:
        for batch in loader:
            if len(found) >= taken:
                break
            found.append(read(batch))
        else:
            return
        # The batch that the loop was left with counts as received.
        found.append(read(batch))
        state = loader.state_dict()
    second = Scripted(scripts[1])
    if case["batch_size"] is not None:
        case["batch_size"] = other_size
    resumed = loader_of(case, second, num_workers=workers[1], memory=second.policy(**case["policy"]))
    with resumed:
        resumed.load_state_dict(state)
        found += [read(batch) for batch in resumed]
    assert flat(found) == expected


@given(case=cases(), script=SCRIPTS, workers=st.sampled_from([0, 1, 4]), lead=st.integers(0, 5))
@PRESSURE
def test_g1_two_live_epochs_under_pressure_have_the_same_stream(
    case: dict[str, Any], script: list[Any], workers: int, lead: int
) -> None:
    expected = flat(undisturbed(case))
    machine = Scripted(script)
    loader = loader_of(case, machine, num_workers=workers, memory=machine.policy(**case["policy"]))
    with loader:
        one = iter(loader)
        found: list[list[list[tuple[int, int]]]] = [[], []]
        for _, batch in zip(range(lead), one, strict=False):
            found[0].append(read(batch))
            del batch
        loader.set_epoch(0)
        other = iter(loader)
        for batches, iterator in zip(found, (one, other), strict=True):
            for batch in iterator:
                batches.append(read(batch))
                del batch
    assert flat(found[0]) == flat(found[1]) == expected


@given(
    script=SCRIPTS,
    workers=st.sampled_from([0, 1, 4]),
    batch_size=st.sampled_from([1, 7, 64]),
    width=st.sampled_from([1, 1000, 20_000]),
)
@settings(max_examples=10)
def test_g4_rows_of_an_array_are_the_same_whatever_is_read(
    script: list[Any], workers: int, batch_size: int, width: int
) -> None:
    rows = np.arange(64 * width).reshape(64, width)
    machine = Scripted(script)
    policy = MemoryPolicy(probe=machine.probe, stall=PATIENCE, interval=0.002, tune_malloc=False)
    loader = DataLoader(ArrayDataset(rows), batch_size=batch_size, num_workers=workers, memory=policy)
    assert np.array_equal(np.concatenate(list(loader)), rows)
