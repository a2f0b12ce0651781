"""Bars in a notebook, in a real kernel: what a front end is told to show."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loading import PATIENCE
from tests.scripts import REPOSITORY

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

_PRELUDE = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
import nogil_loader as nl
from nogil_loader.observe.progress import progress
from nogil_loader.observe.progress.notebook import NotebookBar
NotebookBar.period = 0.0

class Numbers:
    def __len__(self):
        return 20
    def __getitem__(self, index):
        return index

loader = nl.DataLoader(Numbers(), 4, num_workers=2)
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    started, client = manager.start_new_kernel(kernel_name="python3", startup_timeout=PATIENCE)
    try:
        yield client
    finally:
        client.stop_channels()
        started.shutdown_kernel(now=True)


def run_cell(client: Any, code: str) -> list[dict[str, Any]]:
    """Run a cell in the kernel and return the messages that a front end gets for it."""
    request = client.execute(_PRELUDE + code)
    messages: list[dict[str, Any]] = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the kernel is silent after {messages}") from None
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        assert kind != "error", "\n".join(content["traceback"])
        if kind == "status" and content["execution_state"] == "idle":
            return messages
        messages.append({"kind": kind, **content})


def bars_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that show or replace a bar; anything else that is shown is an error."""
    assert {message["kind"] for message in messages} <= {
        "status",
        "execute_input",
        "display_data",
        "update_display_data",
    }, messages
    return [message for message in messages if "data" in message]


def test_a_bar_is_one_element_that_is_replaced_and_stays(kernel: Any) -> None:
    shown = bars_of(run_cell(kernel, "assert sum(len(batch) for batch in progress(loader, 'a < b')) == 20"))
    assert shown[0]["kind"] == "display_data"
    assert {message["kind"] for message in shown[1:]} == {"update_display_data"}
    assert len({message["transient"]["display_id"] for message in shown}) == 1
    last = shown[-1]["data"]
    assert "20/20" in last["text/plain"]
    assert last["text/plain"].startswith("a < b")
    assert 'a &lt; b <progress value="20" max="20"></progress>' in last["text/html"]


def test_a_bar_that_is_left_says_so_and_one_that_is_not_to_stay_vanishes(kernel: Any) -> None:
    left = bars_of(run_cell(kernel, "for batch in progress(loader): break"))
    assert "4/20" in left[-1]["data"]["text/plain"]
    assert "stopped" in left[-1]["data"]["text/plain"]
    gone = bars_of(run_cell(kernel, "for batch in progress(loader, leave=False): pass"))
    assert gone[-1]["data"] == {"text/plain": "", "text/html": ""}


def test_tqdm_draws_in_a_notebook_when_it_is_asked_to(kernel: Any) -> None:
    pytest.importorskip("tqdm")
    messages = run_cell(kernel, "for batch in progress(loader, backend='tqdm'): pass")
    text = "".join(message.get("text", "") for message in messages)
    widgets = [message for message in messages if message["kind"] == "display_data"]
    assert "20/20" in text or widgets


def test_a_file_in_a_notebook_gets_nothing(kernel: Any) -> None:
    code = "import io\nfile = io.StringIO()\nlist(progress(loader, file=file))\nassert file.getvalue() == ''"
    assert bars_of(run_cell(kernel, code)) == []
