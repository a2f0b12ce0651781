"""What is known of an epoch, in one record."""

from __future__ import annotations

from nogil_loader.engine.run import EpochRun
from nogil_loader.engine.statistics import Queue, Statistics
from nogil_loader.memory.pool import pool as buffers


def snapshot(run: EpochRun, workers_alive: int = 0) -> Statistics:
    """Return how an epoch goes at this moment.

    Args:
        run: The epoch.
        workers_alive: Threads that load now.
    """
    ledger, setting = run.ledger, run.setting
    done = ledger.account.progress
    planned, loading, ready = ledger.count()
    report = run.times.report(done)
    left_early = run.closed and done.delivered + done.skipped < ledger.account.planned
    if (
        run.rations is not None and not left_early
    ):  # it weighs every batch, those that wait for the consumer too
        loaded = done.delivered + ledger.waiting()
        report["nbytes"] = round(run.rations.loaded * done.delivered / loaded) if loaded else 0
    return Statistics(
        epoch=run.epoch,
        planned=ledger.account.planned,
        delivered=done.delivered,
        skipped=done.skipped,
        batches=done.batches,
        rebuilds=run.rebuilds,
        abandoned=run.abandoned,
        workers_alive=workers_alive,
        memory=None if run.rations is None else run.rations.statistics(),
        num_workers=setting.num_workers,
        prefetch_factor=setting.prefetch_factor,
        queue=Queue(run.capacity, planned, loading, ready),
        buffers_made=buffers.made,
        buffers_reused=buffers.reused,
        tuning=() if run.autotune is None else run.autotune.events,
        **report,
    )
