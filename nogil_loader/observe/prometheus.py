"""Loaders as metrics of Prometheus, read when somebody scrapes them: no thread, and no cost for a batch.

* One collector per registry speaks for all its loaders, which a label tells apart.
* It keeps no loader alive. One that is gone is missing from the next scrape, and with the last one the collector
  leaves the registry.
* A counter never falls, although what it comes from is an estimate where batches take microseconds.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nogil_loader.errors import describe
from nogil_loader.loader import DataLoader
from nogil_loader.observe.metrics import METRICS, Metric

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import CollectorRegistry

# Around the two tables below and what changes in them; never held while a loader is read.
_lock = threading.Lock()
_collectors: weakref.WeakKeyDictionary[CollectorRegistry, Collector] = weakref.WeakKeyDictionary()


class Exported:
    """What is remembered of one loader.

    Args:
        loader: The loader.
    """

    def __init__(self, loader: DataLoader) -> None:
        self.loader = weakref.ref(loader)
        self._highest: dict[tuple[str, str], float] = {}

    def read(self, loader: DataLoader) -> dict[str, dict[str, float]]:
        """Return values by metric and by the second label, "" where there is none."""
        now, sums = loader.statistics(), loader.totals
        values: dict[str, dict[str, float]] = {}
        for metric in METRICS:
            value = metric.read(now, sums)
            if value is None:
                continue
            by_label = dict(value) if isinstance(value, Mapping) else {"": value}
            if metric.kind == "counter":
                by_label = {label: self._rise(metric.name, label, each) for label, each in by_label.items()}
            values[metric.name] = by_label
        return values

    def _rise(self, name: str, label: str, value: float) -> float:
        highest = self._highest[name, label] = max(value, self._highest.get((name, label), 0.0))
        return highest


class Collector:
    """What stands in a registry for all loaders that are exported there.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = weakref.ref(registry)
        self.exported: dict[str, Exported] = {}

    def describe(self) -> Iterable[Family]:
        """The metrics without their values."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> Iterable[Family]:
        """The metrics of all loaders."""
        with _lock:
            self.exported = {name: each for name, each in self.exported.items() if each.loader() is not None}
            exported = dict(self.exported)
            if not exported:
                self.leave()
        values = {
            name: each.read(loader)
            for name, each in exported.items()
            if (loader := each.loader()) is not None
        }
        families = []
        for metric in METRICS if values else ():
            family = _family(metric)
            for name, of_loader in values.items():
                for label, value in of_loader.get(metric.name, {}).items():
                    family.add_metric([name, label] if metric.label else [name], value)
            families.append(family)
        return families

    def leave(self) -> None:
        """Leave the registry."""
        registry = self._registry()
        if registry is not None and _collectors.get(registry) is self:
            del _collectors[registry]
            with contextlib.suppress(KeyError):  # somebody has done it already
                registry.unregister(self)


class Export:
    """The export of one loader; goes on without being kept."""

    def __init__(self, name: str, collector: Collector, exported: Exported) -> None:
        self.name = name
        self._collector = collector
        self._exported = exported

    def close(self) -> None:
        """End it; idempotent."""
        with _lock:
            table = self._collector.exported
            if table.get(self.name) is self._exported:
                del table[self.name]
                if not table:
                    self._collector.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_text(name: str) -> bool:
    """Whether a name can be written; names of files may have halves of characters in them."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def export(loader: DataLoader, *, name: str = "train", registry: CollectorRegistry | None = None) -> Export:
    """Let Prometheus see a loader, until it is gone or the export is closed.

    Its numbers are read when the registry is scraped. Serving the registry is up to you:
    ``prometheus_client.start_http_server(8000)``.

    Args:
        loader: The loader; it is not kept alive.
        name: Value of the label ``loader``.
        registry: Where to register; by default ``prometheus_client.REGISTRY``.

    Returns:
        A handle to end the export with, which need not be kept.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: ``name`` is empty, or another loader is exported under it in this registry; or something else
            in the registry has the name of one of the metrics.
        ImportError: prometheus_client is not installed.
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"loader={describe(loader, 100)}: expected a DataLoader, not {type(loader).__name__}")
    if not isinstance(name, str):
        raise TypeError(f"name={describe(name, 100)}: expected a string, not {type(name).__name__}")
    if not _is_text(name):
        raise ValueError(f"name={name!r}: expected characters that can be written as UTF-8")
    if not name:
        raise ValueError("name='': expected a name that tells the loader from others")
    kind, default = _require_registry()
    if registry is None:
        registry = default
    elif not isinstance(registry, kind):
        raise TypeError(
            f"registry={describe(registry, 100)}: expected a CollectorRegistry of prometheus_client, not "
            f"{type(registry).__name__}"
        )
    exported = Exported(loader)
    with _lock:
        collector = _collectors.get(registry)
        if collector is None:
            collector = Collector(registry)
            registry.register(collector)
            _collectors[registry] = collector
        other = collector.exported.get(name)
        if other is not None and other.loader() is not None:
            raise ValueError(
                f"name={name!r}: a loader is exported under this name already; choose another one, or close the "
                f"other export first"
            )
        collector.exported[name] = exported
    return Export(name, collector, exported)


def _require_registry() -> tuple[type[CollectorRegistry], CollectorRegistry]:
    try:
        from prometheus_client import REGISTRY, CollectorRegistry
    except ImportError as error:
        raise ImportError(
            'prometheus_client is not installed; exporting needs it: pip install "nogil_loader[prometheus]"',
            name="prometheus_client",
        ) from error
    return CollectorRegistry, REGISTRY


def _family(metric: Metric) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.meaning, labels=["loader", metric.label] if metric.label else ["loader"])
