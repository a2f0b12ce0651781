"""Results of sweeps that never ran, for what a report must be able to show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from nogil_loader.bench.result import (
    BatchSeconds,
    Failure,
    Gil,
    Machine,
    Memory,
    Options,
    Queue,
    Result,
    Setting,
)

MACHINE = Machine(
    cpu="Fabricated CPU @ 2.50GHz",
    cores=8,
    quota=None,
    memory_bytes=64_000_000_000,
    system="Linux 6.1 x86_64",
    python="3.13.1",
    gil=True,
    packages={"nogil_loader": "0.1.0", "numpy": "2.4.6", "numba": "0.62", "torch": "2.9.0", "spdl": "0.1"},
    load=0.4,
)
LONG = "a_package.with_a_long_name.and_a_module_in_it:" + "a_function_that_makes_a_dataset_" * 8


def setting(
    workers: int, prefetch: int, *, batch: int = 64, loader: str = "nogil_loader", speed: float = 1.0
) -> Setting:
    """A setting that saturates at eight workers."""
    rate = speed * 1450 * (0.8 if workers == 0 else workers / (1 + 0.06 * workers * workers / 8))
    rate *= 1 + 0.03 * math.log2(prefetch)
    capacity = workers * (prefetch + 1)
    ours = loader == "nogil_loader"
    return Setting(
        loader=loader,
        num_workers=workers,
        prefetch_factor=prefetch,
        batch_size=batch,
        rates=tuple(rate * (1 + 0.04 * math.sin(1 + 2 * turn + workers)) for turn in range(5)),
        batch_seconds=BatchSeconds(0.041, 0.052, 0.087) if ours else None,
        wait_share=0.93,
        cpu_cores=0.97 * max(1, workers),
        cpu_share=0.92 if ours else None,
        stages={
            "fetch": 6.1 * max(1, workers),
            "transform": 2.6 * max(1, workers),
            "collate": 0.9 * max(1, workers),
            "convert": 0.05,
            "compile": 0.7,
            "memory": 0.04 * workers,
            "idle": 0.15 * workers * workers,
            "start_up": 0.3,
        }
        if ours
        else {},
        gil=Gil(
            held=min(0.95, 0.05 + 0.055 * workers),
            by_stage={"fetch": min(0.6, 0.03 * workers), "collate": min(0.3, 0.015 * workers)},
            waiting=min(0.9, 0.02 * workers),
            accuracy=0.03,
        )
        if ours
        else None,
        memory=Memory(
            peak_bytes=900_000_000 + 90_000_000 * workers,
            limit=4_000_000_000,
            timeline=tuple(
                (0.02 * at, 6e8 + (2e8 + 9e7 * workers) * min(1, at / 60) + 4e7 * math.sin(at / 3))
                for at in range(400)
            ),
        ),
        queue=Queue(
            capacity=capacity,
            timeline=tuple(
                (
                    0.02 * at,
                    float(round(max(0, capacity * (0.2 + 0.2 * math.sin(at / 9) + 0.1 * math.sin(at))))),
                )
                for at in range(400)
            ),
        )
        if ours
        else None,
        note="" if ours else f"{loader} with its own collate, persistent workers",
    )


def failed(
    workers: int,
    prefetch: int,
    *,
    loader: str = "nogil_loader",
    error: str = "",
    sample: str | None = "48211",
) -> Setting:
    """A setting that stopped."""
    return Setting(
        loader=loader,
        num_workers=workers,
        prefetch_factor=prefetch,
        batch_size=64,
        failure=Failure(error or "OSError: image file is truncated (12 bytes not processed)", sample, "3"),
    )


def result(settings: Iterable[Setting], peers: Iterable[Setting] = (), **changes: object) -> Result:
    """A result with these settings, of which the fastest is recommended."""
    ours, theirs = tuple(settings), tuple(peers)
    rates = [each.median or 0.0 for each in ours]
    recommended = rates.index(max(rates)) if any(rates) else None
    made = Result(
        created="2025-11-30T14:02:11+00:00",
        machine=MACHINE,
        target="train.data:photographs",
        dataset="Photographs of 512 x 512 in 120 000 files",
        length=120_000,
        batch_size=64,
        options=Options(
            seconds=3.0,
            repeats=5,
            workers=tuple(sorted({each.num_workers for each in ours})),
            prefetch=tuple(sorted({each.prefetch_factor or 0 for each in ours})),
            compare=tuple(dict.fromkeys(each.loader for each in theirs)),
        ),
        settings=ours,
        peers=theirs,
        recommended=recommended,
        sentence=""
        if recommended is None
        else "Bound by the CPU in fetch, which takes 63% of the time that workers load; all 8 usable cores are at "
        "work, so what helps is: make __getitem__ cheaper.",
        notes=(
            "8 workers are 5.4 times as fast as 1.",
            "The recommended setting is within the noise of the best.",
        ),
        code=""
        if recommended is None
        else "loader = nogil_loader.DataLoader(dataset, batch_size=64, "
        f"num_workers={ours[recommended].num_workers}, prefetch_factor={ours[recommended].prefetch_factor})",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def full() -> Result:
    """Everything that there can be."""
    peers = [
        *(setting(workers, 2, loader="torch", speed=0.26) for workers in (1, 2, 4, 8)),
        setting(8, 2, loader="spdl", speed=0.84),
        setting(4, 2, loader="grain", speed=1.45),
    ]
    return result([setting(w, p) for w in (0, 1, 2, 4, 8, 16) for p in (1, 2, 4) if w or p == 1], peers)


def earlier() -> Result:
    """What the full result may be compared with: a quarter faster, and something else."""
    now = full()
    faster = tuple(
        dataclasses.replace(
            each, rates=tuple((1.25 + 0.01 * turn) * rate for turn, rate in enumerate(each.rates))
        )
        for each in now.settings
    )
    return dataclasses.replace(now, settings=faster, target="another:one")


def with_failures() -> Result:
    """Half of the settings failed, one with a message that tries to be markup, and so did a peer."""
    wild = "<script>alert('x')</script> & \"quoted\" \u202egnirts \x00 " + "x" * 5000
    return result(
        [setting(1, 2), failed(2, 2), setting(4, 2), failed(8, 2, error=wild, sample="<b>'key'</b>")],
        [
            setting(4, 2, loader="torch", speed=0.3),
            failed(4, 2, loader="grain", error="RuntimeError: killed", sample=None),
        ],
        target="<img src=x onerror=alert(1)>:dataset",
    )


def all_failed() -> Result:
    """Nothing was measured."""
    return result([failed(1, 2), failed(2, 2)], [failed(2, 2, loader="torch")], notes=())


def single() -> Result:
    """One setting."""
    return result([setting(2, 2)], notes=())


def bare() -> Result:
    """Neither the GIL nor timelines nor stages were looked at."""
    plain = [
        dataclasses.replace(
            setting(w, 2), gil=None, queue=None, stages={}, memory=Memory(None, None), batch_seconds=None
        )
        for w in (1, 2, 4)
    ]
    return result(plain)


def crowded() -> Result:
    """Thirty settings, long names, and several batch sizes."""
    sizes = [
        setting(w, p, batch=b, speed=1 + b / 1000)
        for b in (32, 1024)
        for w in (1, 8, 16, 32, 64)
        for p in (1, 4, 16)
    ]
    machine = dataclasses.replace(MACHINE, cpu="C" * 400, packages={"p" * 90: "1.0" * 50, **MACHINE.packages})
    peers = [
        setting(8, 2, loader="a_peer_" * 20, speed=0.01),
        setting(64, 2, batch=32, loader="torch", speed=0.4),
    ]
    return result(
        sizes, peers, target=LONG, dataset=LONG * 40, machine=machine, sentence="Bound by " + "W" * 300 + "."
    )


CASES = {
    "full": full,
    "failures": with_failures,
    "all-failed": all_failed,
    "single": single,
    "bare": bare,
    "crowded": crowded,
}
