"""Results of sweeps that never ran."""

from __future__ import annotations

from typing import Any

from nogil_loader.bench.result import OURS, BatchSeconds, Failure, Machine, Options, Result, Setting

MACHINE = Machine(
    cpu="Some Processor",
    cores=4,
    quota=None,
    memory_bytes=8 << 30,
    system="Linux 6.1",
    python="3.12.1",
    gil=True,
    packages={"nogil_loader": "0.1", "numpy": "2.0"},
    load=0.25,
)


def setting_of(workers: int, rate: float, **changes: Any) -> Setting:
    """A setting of ours with three repeats of about this rate."""
    values: dict[str, Any] = {
        "loader": OURS,
        "num_workers": workers,
        "prefetch_factor": 2,
        "batch_size": 32,
        "rates": (rate, 0.99 * rate, 1.01 * rate),
        "batch_seconds": BatchSeconds(0.01, 0.02, 0.03),
        "wait_share": 0.9,
        "cpu_cores": float(workers),
        "cpu_share": 0.97,
    }
    return Setting(**{**values, **changes})


def failed_of(workers: int, **changes: Any) -> Setting:
    """A setting of ours that failed."""
    values: dict[str, Any] = {
        "loader": OURS,
        "num_workers": workers,
        "prefetch_factor": 2,
        "batch_size": 32,
        "failure": Failure("ValueError: bad", "7", "0"),
    }
    return Setting(**{**values, **changes})


def result_of(*settings: Setting, **changes: Any) -> Result:
    """A result of these settings, of which the first measured one is recommended."""
    measured = [at for at, setting in enumerate(settings) if setting.rates]
    values: dict[str, Any] = {
        "created": "2025-01-02T03:04:05+00:00",
        "machine": MACHINE,
        "target": "module:dataset",
        "dataset": "Numbers, 1,000 samples",
        "length": 1000,
        "batch_size": 32,
        "options": Options(seconds=2.0, repeats=3, workers=(0, 1, 2), prefetch=(2,)),
        "settings": settings,
        "peers": (),
        "recommended": measured[0] if measured else None,
        "sentence": "Bound by the CPU in fetch.",
    }
    return Result(**{**values, **changes})
