"""How the measurements of a setting become one."""

from __future__ import annotations

import pytest

from nogil_loader.bench.merging import merge
from nogil_loader.bench.result import BatchSeconds, Memory, Queue
from tests.bench.made_up import failed_of, setting_of


def test_rates_keep_their_order_and_the_rest_is_summed_up() -> None:
    line = ((0.0, 1.0),)
    measured = [
        setting_of(
            2,
            0.0,
            rates=(rate,),
            wait_share=share,
            stages={"fetch": rate},
            batch_seconds=BatchSeconds(share, share, share),
            cpu_share=None,
            memory=Memory(int(rate), 10, line if rate == 30.0 else (), shrinks=int(rate)),
            queue=Queue(6, line) if rate == 30.0 else None,
        )
        for rate, share in [(20.0, 0.5), (30.0, 0.9), (10.0, 0.8)]
    ]
    found = merge(measured)
    assert found.rates == (20.0, 30.0, 10.0)
    assert (found.wait_share, found.cpu_share) == (0.8, None)
    assert found.stages == {"fetch": 60.0}
    assert found.batch_seconds == BatchSeconds(0.8, 0.8, 0.8)
    assert found.memory == Memory(30, 10, line, shrinks=30)
    assert found.queue == Queue(6, line)


def test_one_that_failed_stands_for_all() -> None:
    assert merge([setting_of(2, 1.0), failed_of(2)]) == failed_of(2)


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="at least one"):
        merge([])
