"""Every Python block of the documentation runs, prints what the page says, and every link leads somewhere.

The blocks of a page build on each other, as a reader would type them. A ``text`` block that follows a Python
block is what the Python block prints; ``...`` in it stands for anything, as in doctest.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import REPOSITORY

PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page that the text starts on."""

    language: str
    body: str
    line: int


def blocks_of(text: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(text):
        body = re.sub(rf"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE)
        yield Block(fence["language"], body, text.count("\n", 0, fence.start("body")) + 1)


def examples_of(text: str) -> list[tuple[Block, str | None]]:
    """Every Python block with the output that the page shows for it, None where it shows none."""
    blocks = [*blocks_of(text), Block("", "", 0)]
    return [
        (block, follower.body if follower.language == "text" else None)
        for block, follower in itertools.pairwise(blocks)
        if block.language == "python"
    ]


def run_page(name: str, text: str) -> None:
    """Run a page's blocks in one namespace.

    Raises:
        AssertionError: A block printed something else than the page shows.
        Exception: Whatever a block raises.
    """
    # Under the page's own name and line numbers, so that tracebacks and inspect.getsource find the text.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        run_blocks(name, text, namespace)
    finally:
        namespace.clear()  # as at the end of a program; its functions would keep the namespace and themselves


def run_blocks(name: str, text: str, namespace: dict[str, Any]) -> None:
    """Run a page's blocks in ``namespace`` and compare what they print."""
    for block, expected in examples_of(text):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (block.line - 1) + block.body, name, "exec"), namespace)
        if expected is not None and not doctest.OutputChecker().check_output(
            expected, output.getvalue(), doctest.ELLIPSIS
        ):
            pytest.fail(
                f"{name}:{block.line} printed\n{output.getvalue()}\nwhere the page shows\n{expected}",
                pytrace=False,
            )


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    prose = _FENCE.sub("", text)
    headings = re.findall(r"^#+ +(.*?) *$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _relative(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    if any("import torch" in block.body for block in blocks_of(text) if block.language == "python"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run_page(_relative(page), text)


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link["target"].partition("#")
        if "://" in target:
            continue
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{link['target']} does not exist"
        if anchor:
            assert anchor in anchors_of(other.read_text(encoding="utf-8")), (
                f"{link['target']} has no such heading"
            )


@pytest.mark.parametrize("page", PAGES, ids=_relative)
def test_the_commands_that_a_page_names_exist(page: Path) -> None:
    commands = set(re.findall(r"\./dev (\w+)", page.read_text(encoding="utf-8")))
    assert commands <= set(re.findall(r"^(\w+)\)$", (REPOSITORY / "dev").read_text(), re.MULTILINE))


def test_a_failing_block_is_reported_with_its_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("page.md", "# Title\n\n```python\nx = 1\n```\n\nthen\n\n```python\nx / 0\n```\n")
    assert (str(caught.traceback[-1].path), caught.traceback[-1].lineno + 1) == ("page.md", 10)


def test_output_that_differs_from_the_page_is_reported() -> None:
    page = "```python\nprint('one'); print('two')\n```\n\n```text\none\n{}\n```\n"
    run_page("page.md", page.format("two"))
    run_page("page.md", page.format("..."))
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:2 printed\none\ntwo"):
        run_page("page.md", page.format("three"))


def test_headings_become_anchors_as_on_github() -> None:
    assert anchors_of("# One `two`: three\n```sh\n# a comment\n```\n## Four, five-six\n") == {
        "one-two-three",
        "four-five-six",
    }
