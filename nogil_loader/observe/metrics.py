"""What is exported of a loader: names, kinds, meanings, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from nogil_loader.engine.statistics import Percentiles, Statistics
from nogil_loader.engine.totals import Totals

#: A number, several by the value of a second label, or none.
Value = float | Mapping[str, float] | None


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: As it is exported.
        kind: ``"counter"`` or ``"gauge"``. Counters are sums over the loader's life, gauges tell of the present
            epoch, or of the last one.
        meaning: What it says.
        read: Where it comes from.
        label: The label beside ``loader``, "" for none.
    """

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    read: Callable[[Statistics, Totals], Value]
    label: str = ""


def _quantiles(times: Percentiles | None) -> Value:
    return None if times is None else {"0.5": times.p50, "0.9": times.p90, "0.99": times.p99}


def _memory(field: str) -> Callable[[Statistics, Totals], Value]:
    def read(now: Statistics, sums: Totals) -> Value:
        if now.memory is None or now.memory.limit is None:
            return None
        return float(getattr(now.memory, field))

    return read


def _memory_bytes(now: Statistics, sums: Totals) -> Value:
    memory = now.memory
    if memory is None:
        return None
    return {
        "promised": memory.promised,
        "loading": memory.loading,
        "ready": memory.ready,
        "held": memory.held,
    }


def _memory_events(now: Statistics, sums: Totals) -> Value:
    return {
        "wait": sums.memory_waits,
        "split": sums.memory_splits,
        "cut": sums.memory_cuts,
        "revoke": sums.memory_revoked,
        "park": sums.memory_parks,
    }


METRICS = (
    Metric("nogil_loader_epochs_total", "counter", "Epochs begun", lambda now, sums: sums.epochs),
    Metric(
        "nogil_loader_samples_delivered_total",
        "counter",
        "Samples that the consumer received",
        lambda now, sums: sums.delivered,
    ),
    Metric(
        "nogil_loader_samples_skipped_total",
        "counter",
        "Samples left out",
        lambda now, sums: sums.skipped,
    ),
    Metric(
        "nogil_loader_batches_delivered_total",
        "counter",
        "Batches that the consumer received",
        lambda now, sums: sums.batches,
    ),
    Metric(
        "nogil_loader_delivered_bytes_total",
        "counter",
        "Bytes of delivered batches, as far as they were weighed",
        lambda now, sums: sums.nbytes,
    ),
    Metric(
        "nogil_loader_epoch_seconds_total",
        "counter",
        "Seconds of all epochs, from their beginning to their end",
        lambda now, sums: sums.seconds,
    ),
    Metric(
        "nogil_loader_consumer_wait_seconds_total",
        "counter",
        "Seconds that the consumer waited for batches",
        lambda now, sums: sums.consumer_wait,
    ),
    Metric(
        "nogil_loader_stage_seconds_total",
        "counter",
        "Seconds that worker threads spent in a stage, all together",
        lambda now, sums: sums.stages.as_dict(),
        "stage",
    ),
    Metric(
        "nogil_loader_worker_rebuilds_total",
        "counter",
        "How often a worker was rebuilt",
        lambda now, sums: sums.rebuilds,
    ),
    Metric(
        "nogil_loader_workers_abandoned_total",
        "counter",
        "Stuck threads that were given up on",
        lambda now, sums: sums.abandoned,
    ),
    Metric(
        "nogil_loader_memory_events_total",
        "counter",
        "How often a piece of a batch had to wait for memory, was split before loading, cut while loading, or "
        "given up; how often use went above the hard mark",
        _memory_events,
        "event",
    ),
    Metric("nogil_loader_epoch", "gauge", "The number of the epoch, from 0", lambda now, sums: now.epoch),
    Metric("nogil_loader_workers", "gauge", "Workers in use", lambda now, sums: now.num_workers),
    Metric(
        "nogil_loader_workers_alive",
        "gauge",
        "Workers alive; 0 when no epoch is under way",
        lambda now, sums: now.workers_alive,
    ),
    Metric(
        "nogil_loader_prefetch_factor",
        "gauge",
        "Batches loaded ahead for each worker",
        lambda now, sums: now.prefetch_factor,
    ),
    Metric(
        "nogil_loader_queue_batches",
        "gauge",
        "Batches on their way to the consumer",
        lambda now, sums: {
            "planned": now.queue.planned,
            "loading": now.queue.loading,
            "ready": now.queue.ready,
        },
        "state",
    ),
    Metric(
        "nogil_loader_queue_capacity_batches",
        "gauge",
        "Batches that may be on their way",
        lambda now, sums: now.queue.capacity,
    ),
    Metric(
        "nogil_loader_batch_load_seconds",
        "gauge",
        "Quantiles of the time that it took to load one of the latest batches",
        lambda now, sums: _quantiles(now.batch_seconds),
        "quantile",
    ),
    Metric(
        "nogil_loader_batch_wait_seconds",
        "gauge",
        "Quantiles of the time that the consumer waited for one of the latest batches",
        lambda now, sums: _quantiles(now.wait_seconds),
        "quantile",
    ),
    Metric(
        "nogil_loader_worker_cpu_ratio",
        "gauge",
        "Share of the time of loading that workers ran on a processor",
        lambda now, sums: None if now.cpu is None else now.cpu.share,
    ),
    Metric(
        "nogil_loader_gil_wanted_ratio",
        "gauge",
        "Share of batches at whose end other threads waited for the GIL",
        lambda now, sums: None if now.cpu is None else now.cpu.gil_wanted,
    ),
    Metric(
        "nogil_loader_memory_limit_bytes",
        "gauge",
        "The limit that binds",
        _memory("limit"),
    ),
    Metric(
        "nogil_loader_memory_used_bytes",
        "gauge",
        "What is used of it, by whomever",
        _memory("used"),
    ),
    Metric(
        "nogil_loader_memory_room_bytes",
        "gauge",
        "What the loader plans with",
        _memory("room"),
    ),
    Metric(
        "nogil_loader_memory_batch_bytes",
        "gauge",
        "Bytes of batches: reserved and not used yet, being loaded, ready, and held by the consumer",
        _memory_bytes,
        "state",
    ),
    Metric(
        "nogil_loader_memory_in_flight_batches",
        "gauge",
        "Pieces of batches that are being loaded or ready",
        _memory("in_flight"),
    ),
    Metric(
        "nogil_loader_memory_in_flight_allowed_batches",
        "gauge",
        "How many of them there may be",
        _memory("in_flight_allowed"),
    ),
)
