"""What a reader finds in the report, and that nobody else's text can do anything in it."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nogil_loader.bench.comparison import compare
from nogil_loader.bench.report import render_report
from nogil_loader.bench.report.naming import choose, measure_ratio
from nogil_loader.bench.report.numbers import THIN
from nogil_loader.bench.report.page import beside_peers, headline
from nogil_loader.bench.result import Failure, Result, Setting
from tests.bench.report import fabricated
from tests.bench.report.fabricated import CASES, failed, result, setting

TIMES = "\N{MULTIPLICATION SIGN}"
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and fails where an element is closed that is not open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace(THIN, " ").split())


@pytest.mark.parametrize("name", CASES)
def test_the_page_needs_nothing_else(name: str) -> None:
    page = render_report(CASES[name]())
    read = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"} & set(
        read.tags
    )
    for attribute, value in read.attributes:
        assert attribute not in ("href", "src", "srcset", "style")
        assert not attribute.startswith("on")
        assert "url(" not in (value or "")
    style = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


@pytest.mark.parametrize("name", CASES)
def test_every_figure_has_a_text_alternative_and_a_caption(name: str) -> None:
    page = render_report(CASES[name]())
    drawings = re.findall(r"<svg [^>]*>", page)
    assert all('role="img"' in each and re.search(r'aria-label="[^"]{20,700}"', each) for each in drawings)
    captions = re.findall(r"<figcaption>([^<]+)</figcaption>", page)
    assert len(captions) == page.count("<figure>") == len(drawings)
    assert all(len(caption) > 30 for caption in captions)


@pytest.mark.parametrize("name", CASES)
def test_the_page_is_the_same_each_time_and_small_enough_to_send(name: str) -> None:
    assert render_report(CASES[name]()) == render_report(CASES[name]())
    assert len(render_report(CASES[name]()).encode()) < 300_000


def test_what_to_do_comes_first() -> None:
    page = Reader(render_report(fabricated.full())).text
    order = [
        "Use 8 workers and prefetch_factor=4: 8 445 samples/s",
        "3.96 times as fast as torch, 1.23 times as fast as spdl and 1.07 times as fast as grain.",
        "Bound by the CPU in fetch",
        "loader = nogil_loader.DataLoader(dataset, batch_size=64, num_workers=8, prefetch_factor=4)",
        *("Throughput", "Beside other loaders", "Where the workers' time goes", "The GIL", "Memory", "Queue"),
        *("All settings", "How it was measured", "2025-11-30 14:02 UTC", "Fabricated CPU @ 2.50GHz"),
    ]
    places = [page.index(words) for words in order[:4]]
    for words in order[4:]:
        places.append(page.index(words, places[-1]))
    assert places == sorted(places)


def test_the_ratio_to_a_peer_is_the_median_of_the_rounds() -> None:
    # The machine was half as fast in the last two rounds: the medians say 2, each round says 4.
    ours = dataclasses.replace(setting(4, 2), rates=(400.0, 200.0, 200.0))
    peer = dataclasses.replace(setting(4, 2, loader="torch"), rates=(100.0, 50.0, 50.0))
    slower = dataclasses.replace(peer, rates=(100.0, 100.0, 50.0))
    assert measure_ratio(ours, peer) == measure_ratio(ours, dataclasses.replace(peer, rates=(50.0,)))
    ratio = measure_ratio(ours, slower)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (4.0, 2.0, 4.0)
    assert beside_peers(result([ours], [slower])) == "4.00 times as fast as torch."


def test_loaders_are_compared_at_their_best() -> None:
    made = result(
        [setting(2, 2), setting(4, 2)], [setting(2, 2, loader="torch"), setting(1, 2, loader="torch")]
    )
    sentence = beside_peers(dataclasses.replace(made, recommended=0))
    assert sentence.startswith("At its best (4 workers, prefetch 2) 1.8")
    assert sentence.endswith(" times as fast as torch.")


def test_all_settings_are_in_the_table_with_median_and_spread() -> None:
    made = fabricated.full()
    table = (
        render_report(made).partition("All settings</h2>")[2].partition("<tbody>")[2].partition("</tbody>")[0]
    )
    rows = [Reader(f"{row}</tr>").text.replace(TIMES, "x") for row in table.split("</tr>")[:-1]]
    assert len(rows) == len(made.settings) + len(made.peers)
    assert rows[12].startswith(
        "8 x 4 recommended 8 445 7 976\N{EN DASH}8 524 1.00x 41.0 ms 52.0 ms 87.0 ms 93 % 7.76"
    )
    assert rows[19].startswith("torch, 8 x 2 2 134 2 015\N{EN DASH}2 154 0.253x \N{EN DASH} ")


def test_failures_are_listed_with_their_sample_and_error() -> None:
    page = Reader(render_report(fabricated.with_failures())).text
    assert "What failed: 3 settings" in page
    assert "nogil_loader, 2 workers, prefetch 2, batch 64 at sample 48211 in worker 3" in page
    assert "OSError: image file is truncated (12 bytes not processed)" in page
    assert "grain, 4 workers, prefetch 2, batch 64 in worker 3" in page
    assert page.count("failed, see above") == 3


def test_what_users_wrote_is_shown_and_does_nothing() -> None:
    page = render_report(fabricated.with_failures())
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quoted&quot;" in page
    assert "&lt;img src=x onerror=alert(1)&gt;:dataset" in page
    assert "\u202e" not in page
    assert "\x00" not in page
    assert "x" * 1000 not in page


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        (
            fabricated.bare(),
            [
                "Who held the GIL was not measured.",
                "No setting has times by stage.",
                "There is no record of the memory over time.",
                "There is no record of the queue over time.",
                "runs the same dataset through others; none was measured.",
            ],
        ),
        (fabricated.single(), ["One setting was measured: 2 workers, prefetch 2, 2 916 samples/s"]),
        (
            fabricated.all_failed(),
            [
                "None of 2 settings was measured to its end.",
                "No setting was measured to its end, so there is no speed to show.",
                "so there is nothing to compare",
            ],
        ),
        (
            result([dataclasses.replace(setting(2, 2), gil=None, gil_wanted=0.4)]),
            ["After 40 % of the batches other threads were waiting for it."],
        ),
        (
            result(
                [dataclasses.replace(setting(2, 2), gil=None)],
                machine=dataclasses.replace(fabricated.MACHINE, gil=False),
            ),
            ["This Python runs without the GIL", "without the GIL"],
        ),
        (result([setting(1, 2)], [failed(1, 2, loader="torch")]), ["torch, 1 worker, prefetch 2"]),
    ],
    ids=["bare", "single", "all failed", "gil wanted", "no gil", "failed peer"],
)
def test_what_is_missing_is_said(made: Result, sentences: list[str]) -> None:
    page = Reader(render_report(made)).text
    for sentence in sentences:
        assert sentence in page


def test_a_limit_that_is_far_away_is_told_and_not_drawn() -> None:
    memory = setting(2, 2).memory
    assert memory is not None
    far = dataclasses.replace(setting(2, 2), memory=dataclasses.replace(memory, limit=10**12, shrinks=3))
    page = Reader(render_report(result([far]))).text
    assert "the limit of 1 000.00 GB is far above what is drawn" in page
    assert "made to load less 3 times" in page


def test_the_chosen_setting_is_the_recommended_one_and_not_the_fastest() -> None:
    made = dataclasses.replace(fabricated.full(), recommended=10)
    assert choose(made) is made.settings[10]
    assert headline(made).startswith("Use 8 workers and prefetch_factor=1")
    assert headline(dataclasses.replace(made, recommended=None)).startswith("The fastest is 8 workers")


def test_without_workers_nothing_is_said_of_loading_ahead() -> None:
    made = result([setting(0, 2, speed=9), setting(2, 2)])
    page = Reader(render_report(made)).text
    assert headline(made).startswith("Use no workers: ")
    assert "no workers: 10 930 samples/s" in page
    assert "0 recommended 10 930" in page


def test_an_earlier_result_is_compared_setting_by_setting() -> None:
    now = fabricated.full()
    page = Reader(render_report(now, compare(now, fabricated.earlier()))).text
    changes = page.partition("Since the earlier result")[2].partition("All settings")[2]
    assert "All settings together: \N{MINUS SIGN}21.3 % (" in page
    assert "%), slower." in page
    assert "target: train.data:photographs now, another:one then" in page
    assert changes.count("slower") >= len(now.settings) - 1
    once = dataclasses.replace(now.settings[0], rates=now.settings[0].rates[:1])
    few = dataclasses.replace(now, settings=(once,), recommended=0)
    told = Reader(render_report(now, compare(now, few))).text
    assert "(too few rounds to tell), unclear." in told


def test_without_an_earlier_result_nothing_is_said_of_one() -> None:
    assert "earlier" not in render_report(fabricated.full())


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
RATES = st.floats(min_value=0.0, exclude_min=True) | st.just(math.nan)
WORDS = st.text(st.characters(codec=None), max_size=30)


@st.composite
def wild_results(draw: st.DrawFn) -> Result:
    """Results with any numbers and any text in them."""

    def wild(workers: int, loader: str) -> Setting:
        base = setting(workers, draw(st.integers(1, 8)), batch=draw(st.sampled_from([1, 64])))
        if draw(st.booleans()):
            return dataclasses.replace(
                base, loader=loader, rates=(), failure=Failure(draw(WORDS), draw(WORDS))
            )
        timeline = tuple(draw(st.lists(st.tuples(FLOATS, FLOATS), max_size=4)))
        assert base.memory is not None
        assert base.queue is not None
        assert base.gil is not None
        return dataclasses.replace(
            base,
            loader=loader,
            rates=tuple(draw(st.lists(RATES, min_size=1, max_size=3))),
            wait_share=draw(FLOATS),
            cpu_cores=draw(FLOATS),
            stages={draw(WORDS): draw(FLOATS), "fetch": draw(FLOATS)},
            memory=dataclasses.replace(
                base.memory, timeline=timeline, limit=draw(st.none() | st.integers(0, 10**15))
            ),
            queue=dataclasses.replace(base.queue, timeline=timeline),
            gil=dataclasses.replace(
                base.gil,
                held=draw(FLOATS),
                waiting=draw(FLOATS),
                accuracy=draw(FLOATS),
                by_stage={draw(WORDS): draw(FLOATS)},
            ),
        )

    ours = [wild(workers, "nogil_loader") for workers in draw(st.lists(st.integers(0, 64), max_size=5))]
    peers = [wild(workers, draw(WORDS)) for workers in draw(st.lists(st.integers(0, 64), max_size=3))]
    return dataclasses.replace(
        result([setting(1, 1)]),
        settings=tuple(ours),
        peers=tuple(peers),
        recommended=None,
        target=draw(WORDS),
        sentence=draw(WORDS),
        notes=(draw(WORDS),),
    )


@settings(max_examples=40)
@given(wild_results())
def test_any_result_is_a_page(made: Result) -> None:
    page = render_report(made)
    Reader(page)
    page.encode("utf-8")


def test_numbers_that_are_none_are_neither_drawn_nor_written() -> None:
    broken = dataclasses.replace(setting(4, 2), rates=(math.nan, math.inf, 5.0), wait_share=math.nan)
    page = render_report(result([setting(1, 2), broken], recommended=0)).partition("<body>")[2]
    assert re.findall(r"\b(nan|inf)\b", page) == []
