"""Loaders as metrics: what a scrape says is what the loader says, and nothing outlives the loader."""

from __future__ import annotations

import gc
import re
import sys
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import nogil_loader as nl
from nogil_loader.engine.statistics import STAGES
from nogil_loader.observe.metrics import METRICS
from tests.loading import PATIENCE, Numbers
from tests.scripts import RunScript

prometheus_client = pytest.importorskip("prometheus_client")
parser = pytest.importorskip("prometheus_client.parser")

from nogil_loader.observe.prometheus import export  # noqa: E402 - only where there is something to test


@pytest.fixture
def registry() -> Any:
    return prometheus_client.CollectorRegistry(auto_describe=True)


@pytest.fixture
def loader() -> Iterator[nl.DataLoader]:
    with nl.DataLoader(Numbers(20), 4, num_workers=2) as opened:
        yield opened


def samples_in(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Values by name and labels, as Prometheus' own reader finds them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} comes twice"
            found[sample.name][labels] = sample.value
    return found


def scrape(registry: Any) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    return samples_in(prometheus_client.generate_latest(registry).decode())


def value(registry: Any, name: str, loader: str = "train", **labels: str) -> float | None:
    found = registry.get_sample_value(name, {"loader": loader, **labels})
    assert found is None or isinstance(found, float | int)
    return found


# What is exported


def test_a_scrape_says_what_the_loader_says(registry: Any, loader: nl.DataLoader) -> None:
    export(loader, registry=registry)
    batches = iter(loader)
    next(batches)
    next(batches)
    assert value(registry, "nogil_loader_samples_delivered_total") == 8
    assert value(registry, "nogil_loader_batches_delivered_total") == 2
    assert value(registry, "nogil_loader_epochs_total") == 1
    assert value(registry, "nogil_loader_epoch") == 0
    assert value(registry, "nogil_loader_workers") == value(registry, "nogil_loader_workers_alive") == 2
    assert value(registry, "nogil_loader_queue_capacity_batches") == loader.statistics().queue.capacity
    list(batches)
    statistics = loader.statistics()
    assert value(registry, "nogil_loader_samples_delivered_total") == 20
    assert value(registry, "nogil_loader_delivered_bytes_total") == statistics.nbytes > 0
    assert value(registry, "nogil_loader_consumer_wait_seconds_total") == statistics.consumer_wait
    assert value(registry, "nogil_loader_epoch_seconds_total") == statistics.seconds
    assert statistics.batch_seconds is not None
    assert value(registry, "nogil_loader_batch_load_seconds", quantile="0.99") == statistics.batch_seconds.p99
    for stage, seconds in statistics.stages.as_dict().items():
        exported = value(registry, "nogil_loader_stage_seconds_total", stage=stage)
        assert exported is not None
        assert exported >= seconds
    assert statistics.memory is not None
    assert value(registry, "nogil_loader_memory_limit_bytes") == statistics.memory.limit


def test_the_exposition_is_what_prometheus_reads_and_follows_its_rules(
    registry: Any, loader: nl.DataLoader
) -> None:
    export(loader, registry=registry, name='with "quotes", \\ and\nlines')
    list(loader)
    text = prometheus_client.generate_latest(registry).decode()
    found = samples_in(text)
    assert set(found) == {metric.name for metric in METRICS}
    for metric in METRICS:
        assert re.fullmatch(r"nogil_loader_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert f"# HELP {metric.name} {metric.meaning}\n" in text
        for labels in found[metric.name]:
            assert {name for name, _ in labels} == {"loader", metric.label} - {""}
            assert dict(labels)["loader"] == 'with "quotes", \\ and\nlines'
    stages = {dict(labels)["stage"] for labels in found["nogil_loader_stage_seconds_total"]}
    assert stages == set(STAGES)


def test_the_newer_format_is_readable_too(registry: Any, loader: nl.DataLoader) -> None:
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    export(loader, registry=registry)
    list(loader)
    written: Any = generate_latest
    read: Any = text_string_to_metric_families
    families = list(read(written(registry).decode()))
    names = {sample.name for family in families for sample in family.samples}
    assert names == {metric.name for metric in METRICS}


def test_before_the_first_epoch_all_counters_are_zero(registry: Any, loader: nl.DataLoader) -> None:
    export(loader, registry=registry)
    found = scrape(registry)
    for metric in METRICS:
        if metric.kind == "counter" and metric.name != "nogil_loader_epochs_total":
            assert set(found[metric.name].values()) == {0.0}, metric.name


def test_what_is_not_known_is_left_out(registry: Any) -> None:
    with nl.DataLoader(Numbers(4), num_workers=0, memory="off") as loader:
        export(loader, registry=registry)
        found = scrape(registry)
    assert not found.get("nogil_loader_memory_limit_bytes")
    assert not found.get("nogil_loader_batch_load_seconds")
    assert found["nogil_loader_workers"] == {(("loader", "train"),): 0.0}


# Counters


def test_counters_go_on_from_epoch_to_epoch(registry: Any, loader: nl.DataLoader) -> None:
    """Epochs that begin and end between two scrapes are in it, and so are those left early."""
    export(loader, registry=registry)
    for _ in range(3):
        list(loader)
    for _ in loader:
        break
    assert value(registry, "nogil_loader_samples_delivered_total") == 64
    assert value(registry, "nogil_loader_epochs_total") == 4
    assert value(registry, "nogil_loader_epoch") == 3


def test_no_counter_falls_while_epochs_run(registry: Any, loader: nl.DataLoader) -> None:
    export(loader, registry=registry)
    counters = [metric.name for metric in METRICS if metric.kind == "counter"]
    before: dict[str, dict[Any, float]] = {}
    for _ in range(3):
        for _ in loader:
            now = scrape(registry)
            for name in counters:
                for labels, number in now[name].items():
                    assert number >= before.get(name, {}).get(labels, 0.0), (name, labels)
            before = now


# Several loaders


def test_two_loaders_share_a_registry(registry: Any, loader: nl.DataLoader) -> None:
    with nl.DataLoader(Numbers(6), 2, num_workers=0) as other:
        export(loader, name="train", registry=registry)
        export(other, name="val", registry=registry)
        list(other)
        found = scrape(registry)["nogil_loader_samples_delivered_total"]
        assert found == {(("loader", "train"),): 0.0, (("loader", "val"),): 6.0}


def test_a_name_that_is_taken_is_refused_and_the_first_one_stays(
    registry: Any, loader: nl.DataLoader
) -> None:
    with export(loader, registry=registry):
        for _ in range(2):
            with pytest.raises(
                ValueError, match=r"^name='train': a loader is exported under this name already"
            ):
                export(nl.DataLoader(Numbers(4), num_workers=0), registry=registry)
        assert value(registry, "nogil_loader_workers") == 2
        other = prometheus_client.CollectorRegistry()
        export(loader, registry=other)
        assert value(other, "nogil_loader_workers") == 2
    export(loader, registry=registry)


def test_something_else_with_the_name_of_a_metric_is_refused(registry: Any, loader: nl.DataLoader) -> None:
    gauge = prometheus_client.Gauge("nogil_loader_workers", "mine", registry=registry)
    with pytest.raises(ValueError, match="nogil_loader_workers"):
        export(loader, registry=registry)
    registry.unregister(gauge)
    export(loader, registry=registry)
    assert value(registry, "nogil_loader_workers") == 2


# How it ends


def test_closing_takes_the_loader_out_and_the_last_one_the_collector(
    registry: Any, loader: nl.DataLoader
) -> None:
    first, second = export(loader, name="a", registry=registry), export(loader, name="b", registry=registry)
    first.close()
    assert {labels[0][1] for labels in scrape(registry)["nogil_loader_epoch"]} == {"b"}
    again = export(loader, name="a", registry=registry)
    first.close()  # has no say in what came after it
    assert value(registry, "nogil_loader_epoch", "a") == 0
    again.close()
    second.close()
    second.close()
    assert list(registry.collect()) == []
    prometheus_client.Gauge("nogil_loader_workers", "the name is free again", registry=registry)


def test_a_loader_that_is_gone_is_not_exported_and_its_name_is_free(registry: Any) -> None:
    loader = nl.DataLoader(Numbers(4), num_workers=0)
    export(loader, registry=registry)
    del loader
    gc.collect()
    successor = nl.DataLoader(Numbers(4), 2, num_workers=0)
    export(successor, registry=registry)
    list(successor)
    assert value(registry, "nogil_loader_samples_delivered_total") == 4
    del successor
    gc.collect()
    assert list(registry.collect()) == []
    assert not registry._collector_to_names
    export(nl.DataLoader(Numbers(4), num_workers=0), registry=registry).close()


def test_a_registry_that_is_gone_is_forgotten(loader: nl.DataLoader) -> None:
    from nogil_loader.observe import prometheus

    gc.collect()
    before = len(prometheus._collectors)
    registry = prometheus_client.CollectorRegistry()
    handle = export(loader, registry=registry)
    assert len(prometheus._collectors) == before + 1
    del registry
    gc.collect()
    assert len(prometheus._collectors) == before
    handle.close()


def test_a_collector_that_somebody_took_out_can_still_be_closed(registry: Any, loader: nl.DataLoader) -> None:
    handle = export(loader, registry=registry)
    (collector,) = registry._collector_to_names
    registry.unregister(collector)
    handle.close()
    export(loader, registry=registry)
    assert value(registry, "nogil_loader_workers") == 2


# In use


def test_a_scrape_over_http_sees_an_epoch_under_way(registry: Any, loader: nl.DataLoader) -> None:
    export(loader, registry=registry)
    server, thread = prometheus_client.start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        batches = iter(loader)
        next(batches)
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            found = samples_in(answer.read().decode())
        with urllib.request.urlopen(f"{url}?name[]=nogil_loader_epoch", timeout=PATIENCE) as answer:
            assert set(samples_in(answer.read().decode())) == {"nogil_loader_epoch"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
    assert found["nogil_loader_samples_delivered_total"] == {(("loader", "train"),): 4.0}
    assert len(list(batches)) == 4


def test_scrapes_from_several_threads_while_an_epoch_runs_agree_with_its_end(registry: Any) -> None:
    with nl.DataLoader(Numbers(2000), 2, num_workers=2) as loader:
        export(loader, registry=registry)
        over = threading.Event()
        seen: list[float | None] = []

        def read() -> None:
            while not over.is_set():
                seen.append(value(registry, "nogil_loader_samples_delivered_total"))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        list(loader)
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert all(number is not None and 0 <= number <= 2000 for number in seen)
        assert value(registry, "nogil_loader_samples_delivered_total") == 2000


# Wrong arguments


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"loader": [1]}, TypeError, r"^loader=\[1\]: expected a DataLoader, not list"),
        ({"name": 3}, TypeError, r"^name=3: expected a string, not int"),
        ({"name": ""}, ValueError, r"^name='': expected a name"),
        ({"registry": "mine"}, TypeError, r"^registry='mine': expected a CollectorRegistry .*, not str"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        export(**{"loader": nl.DataLoader(Numbers(4), num_workers=0), **arguments})


def test_without_the_client_the_error_names_the_extra(
    loader: nl.DataLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r'pip install "nogil_loader\[prometheus\]"') as caught:
        export(loader)
    assert caught.value.name == "prometheus_client"


def test_importing_the_exporter_imports_no_client(run_script: RunScript) -> None:
    result = run_script(
        """
        import sys
        import nogil_loader.observe.prometheus
        assert "prometheus_client" not in sys.modules
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_name_that_cannot_be_written_is_refused_at_once() -> None:
    with (
        nl.DataLoader(Numbers(4), num_workers=0) as loader,
        pytest.raises(ValueError, match=r"name='\\ud800': expected characters that can be written as UTF-8"),
    ):
        nl.observe.prometheus.export(loader, name="\ud800", registry=prometheus_client.CollectorRegistry())
