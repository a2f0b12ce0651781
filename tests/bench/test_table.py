"""A result as text."""

from __future__ import annotations

from nogil_loader.bench.comparison import compare
from nogil_loader.bench.result import Memory
from nogil_loader.bench.table import as_comparison, as_text
from tests.bench.made_up import failed_of, result_of, setting_of


def test_settings_stand_below_each_other() -> None:
    text = as_text(
        result_of(
            setting_of(0, 45.678, wait_share=None, batch_seconds=None, cpu_cores=None),
            setting_of(2, 12345.0, memory=Memory(150_000_000, None)),
            failed_of(4),
            recommended=1,
            code="nogil_loader.DataLoader(dataset, num_workers=2)",
            notes=("A note.",),
        )
    )
    assert text == (
        "module:dataset: Numbers, 1,000 samples\n"
        "3 x 2 s for each setting; Some Processor, 4 usable cores; Linux 6.1; Python 3.12.1\n"
        "\n"
        "   workers  prefetch  batch size  samples/s     low    high  wait  batch p50    p99   CPU    memory\n"
        "         0         -          32       45.7    45.2    46.1     -          -      -     -         -\n"
        "*        2         2          32     12,345  12,222  12,468   90%      10 ms  30 ms  2.00  150.0 MB\n"
        "         4         2          32     failed       -       -     -          -      -     -         -\n"
        "\n"
        "failed: 4 workers, prefetch 2, batches of 32: ValueError: bad (sample 7, worker 0)\n"
        "\n"
        "* recommended: 2 workers, prefetch 2, batches of 32\n"
        "\n"
        "    nogil_loader.DataLoader(dataset, num_workers=2)\n"
        "\n"
        "Bound by the CPU in fetch.\n"
        "A note."
    )


def test_peers_are_named_and_how_they_were_driven() -> None:
    peers = tuple(setting_of(workers, 50.0, loader="torch", note="worker processes") for workers in (1, 2))
    lines = as_text(result_of(setting_of(1, 100.0), peers=peers, memory_limit=600_000_000)).splitlines()
    assert lines[2] == "in 600.0 MB of memory, by a control group"
    assert lines[5].split()[:4] == ["*", "nogil_loader", "1", "2"]
    assert lines[6].split()[:3] == ["torch", "1", "2"]
    assert lines.count("torch: worker processes") == 1


def test_nothing_is_recommended_where_all_failed() -> None:
    text = as_text(result_of(failed_of(1), sentence="No setting could be measured."))
    assert "recommended" not in text
    assert text.endswith("No setting could be measured.")


def test_a_comparison_has_a_line_for_each_setting_and_one_for_all() -> None:
    earlier = result_of(setting_of(1, 100.0), setting_of(2, 200.0))
    now = result_of(setting_of(1, 90.0), setting_of(2, 180.0), memory_limit=1_000_000)
    assert as_comparison(compare(now, earlier), earlier.created).splitlines() == [
        "against 2025-01-02T03:04:05+00:00:",
        "",
        "                                      then  now  change",
        "1 worker, prefetch 2, batches of 32    100   90  -10.0 % (too few repeats for an interval)",
        "2 workers, prefetch 2, batches of 32   200  180  -10.0 % (too few repeats for an interval)",
        "",
        "all settings together: -10.0 % (-10.9 % to -9.1 %)",
        "not the same: memory limit: 1000000 now, None then",
    ]
