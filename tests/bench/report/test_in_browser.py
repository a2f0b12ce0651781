"""The report in a real browser: nothing sticks out or overlaps, and text can be read, on phones and at desks."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nogil_loader.bench.comparison import compare
from nogil_loader.bench.report import render_report
from tests.bench.report.fabricated import CASES, earlier, full

BROWSER = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ),
    None,
)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed"),
    pytest.mark.slow,
]

# A small phone, a common one, and a desk.
SIZES = ((320, 640), (390, 844), (1280, 900))
SCHEMES = {"light": 1, "dark": 0}  # as Blink numbers them
# A browser that has not answered by then never will; a quiet machine takes a second or two.
SECONDS = 50

# Runs in the page that holds the reports in frames, once all of them are drawn.
MEASURE = """
const measured = [];
const luminance = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ground = (view, element) => {
  for (; element; element = element.parentElement) {
    const colour = view.getComputedStyle(element).backgroundColor;
    if (!/, 0\\)$/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
for (const frame of document.querySelectorAll("iframe")) {
  const view = frame.contentWindow, page = frame.contentDocument, wide = view.innerWidth;
  const found = {name: frame.title, wide, scroll: page.documentElement.scrollWidth, height:
    page.documentElement.scrollHeight, out: [], faint: [], small: [], touching: [], narrow: [],
    requests: view.performance.getEntriesByType("resource").length, figures: 0, texts: 0};
  for (const element of page.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!element.closest(".scroll") && !element.closest("defs,title") && box.right > wide + 0.5)
      found.out.push(element.tagName + " " + element.textContent.slice(0, 40));
    if (!own || element.tagName === "title") continue;
    found.texts += 1;
    const style = view.getComputedStyle(element);
    const inside = element.ownerSVGElement;
    const on = [...element.classList].find(name => name.startsWith("on"));
    if (!on) {
      const ratio = contrast(inside ? style.fill : style.color, ground(view, inside || element));
      if (ratio < 4.5) found.faint.push([element.textContent.slice(0, 40), ratio]);
    }
    const size = parseFloat(style.fontSize) * (inside ? inside.getBoundingClientRect().width / 360 : 1);
    if (size < 10) found.small.push([element.textContent.slice(0, 40), size]);
  }
  for (const drawing of page.querySelectorAll("svg")) {
    found.figures += 1;
    const outer = drawing.getBoundingClientRect();
    if (outer.width < Math.min(250, wide)) found.narrow.push(outer.width);
    const boxes = [...drawing.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([words, a], at) => {
      if (a.left < outer.left - 1 || a.right > outer.right + 1 ||
          a.top < outer.top - 1 || a.bottom > outer.bottom + 1)
        found.out.push("text " + words);
      for (const [others, b] of boxes.slice(at + 1))
        // A line of text is higher than its letters; a third of it may be shared.
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height / 3)
          found.touching.push([words, others]);
    });
  }
  measured.push(found);
}
document.body.innerHTML = "<pre id=measured></pre>";
document.getElementById("measured").textContent = JSON.stringify(measured);
"""


def run_browser(folder: Path, page: str, scheme: str, *options: str) -> str:
    """Open a page and return what the browser prints."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [
            *(
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ),
            *(
                "--disable-background-networking",
                "--hide-scrollbars",
                f"--user-data-dir={folder / 'profile'}",
            ),
            *(f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", *options, file.as_uri()),
        ],
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.decode("utf-8")


def frames(reports: dict[str, str], sizes: tuple[tuple[int, int], ...], more: str = "") -> str:
    """A page with every report in frames of every size; a window by itself is never as narrow as a phone."""
    inside = "".join(
        f'<iframe title="{name}" width="{wide}" height="{high}" srcdoc="{html.escape(report)}"></iframe>'
        for name, report in reports.items()
        for wide, high in sizes
    )
    # The scheme of the page around a frame has to be that of the frame, or the frame gets a ground of its own.
    style = ":root{color-scheme:light dark}body{margin:0}iframe{border:0;display:block}"
    return f"<!DOCTYPE html><meta charset=utf-8><style>{style}</style>{inside}{more}"


@pytest.fixture(scope="module", params=SCHEMES)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What the browser says of each report at each size, in one colour scheme."""
    reports = {name: render_report(make()) for name, make in CASES.items()}
    reports["compared"] = render_report(full(), compare(full(), earlier()))
    page = frames(reports, SIZES, f"<script>addEventListener('load', () => {{{MEASURE}}})</script>")
    printed = run_browser(tmp_path_factory.mktemp("browser"), page, request.param, "--dump-dom")
    found = re.search(r'<pre id="measured">(.*?)</pre>', printed, re.DOTALL)
    assert found is not None, printed[-2000:]
    pages: list[dict[str, Any]] = json.loads(html.unescape(found.group(1)))
    assert [(each["name"], each["wide"]) for each in pages] == [
        (name, wide) for name in reports for wide, _ in SIZES
    ]
    return pages


def told(measured: list[dict[str, Any]], what: str) -> dict[str, Any]:
    """What was found of a kind, by report and width."""
    return {f"{each['name']} at {each['wide']}": each[what] for each in measured if each[what]}


def test_nothing_is_wider_than_the_screen(measured: list[dict[str, Any]]) -> None:
    assert [each["name"] for each in measured if each["scroll"] > each["wide"]] == []
    assert told(measured, "out") == {}


def test_labels_do_not_overlap(measured: list[dict[str, Any]]) -> None:
    assert told(measured, "touching") == {}


def test_text_is_large_enough_and_stands_out(measured: list[dict[str, Any]]) -> None:
    assert told(measured, "small") == {}
    assert told(measured, "faint") == {}
    assert all(each["texts"] > 30 for each in measured), "there was something to look at"


def test_the_figures_are_there_and_use_the_width(measured: list[dict[str, Any]]) -> None:
    figures = {each["name"]: each["figures"] for each in measured}
    assert figures == {
        "full": 6,
        "failures": 6,
        "all-failed": 0,
        "single": 4,
        "bare": 1,
        "crowded": 6,
        "compared": 6,
    }
    assert told(measured, "narrow") == {}


def test_nothing_is_fetched(measured: list[dict[str, Any]]) -> None:
    assert told(measured, "requests") == {}


def test_the_screen_shows_something_in_light_and_in_dark(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow to look at the picture")
    phone, desk = SIZES[1:]
    page = frames({"full": render_report(full())}, (phone, desk))
    window = f"--window-size={desk[0]},{phone[1] + desk[1]}"
    brightness = {}
    for scheme in SCHEMES:
        shot = tmp_path / f"{scheme}.png"
        run_browser(tmp_path, page, scheme, f"--screenshot={shot}", window)
        with image.open(shot) as picture:
            seen = picture.convert("RGB")
        for screen in (seen.crop((0, 0, *phone)), seen.crop((0, phone[1], desk[0], phone[1] + desk[1]))):
            colours = screen.getcolors(screen.width * screen.height)
            assert len(colours) > 100, "a blank page has one colour"
            most, ground = max(colours)
            assert 0.3 < most / (screen.width * screen.height) < 0.97
            brightness[scheme] = sum(ground) / 3
    assert brightness["dark"] < 60 < 200 < brightness["light"]


def test_it_can_be_printed(tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    run_browser(tmp_path, render_report(full()), "dark", f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    printed = paper.read_bytes()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
