"""Bars around an epoch: the loader's own batches, a right count, and a terminal that is left as it was found."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nogil_loader as nl
from nogil_loader.observe.progress import progress
from nogil_loader.observe.progress.with_tqdm import TqdmBar
from tests.faults.machine import KINDS, MB, Machine, told
from tests.loading import PATIENCE, Numbers, Stream, samples_of
from tests.observe.terminal import Terminal, run_in_terminal, terminal

BACKENDS = ("rich", "tqdm")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    with terminal(monkeypatch) as opened:
        monkeypatch.setattr(TqdmBar, "period", 0.0)
        yield opened


def progress_on(screen: Terminal, loader: Any, *arguments: Any, **named: Any) -> Any:
    """A bar on the screen."""
    return progress(loader, *arguments, file=screen.stream, **named)


class Failing(Numbers):
    """Samples, some of which cannot be read."""

    def __init__(self, length: int, bad: set[int]) -> None:
        super().__init__(length)
        self.bad = bad

    def __getitem__(self, index: Any) -> Any:
        if index in self.bad:
            raise ValueError(f"sample {index} is damaged")
        return index


# What is delivered


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_bar_on_a_terminal_hands_on_every_batch_and_counts_to_the_end(
    screen: Terminal, backend: str, num_workers: int
) -> None:
    with nl.DataLoader(Numbers(60), 8, num_workers=num_workers) as loader:
        bar = progress_on(screen, loader, "train", backend=backend)
        assert len(bar) == len(loader) == 8
        for _ in range(2):
            assert samples_of(bar) == list(range(60))
    seen = screen.close()
    assert len(seen.lines) == 2
    for line in seen.lines:
        assert line.startswith("train")
        assert "60/60" in line
        assert "100%" in line
        assert "waits for data" in line
    assert not seen.is_cursor_hidden
    assert seen.is_at_line_start


def test_a_loader_makes_its_own_bar(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(60), 8, num_workers=2) as loader:
        assert samples_of(loader.progress("train", backend=backend, file=screen.stream)) == list(range(60))
    (line,) = screen.close().lines
    assert line.startswith("train")
    assert "60/60" in line


def test_without_a_name_a_bar_tells_the_epoch(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(4), num_workers=0) as loader:
        loader.set_epoch(7)
        list(progress_on(screen, loader, backend=backend))
        list(progress_on(screen, loader, backend=backend))
    assert [line[:7] for line in screen.close().lines] == ["epoch 7", "epoch 8"]


def test_batches_that_come_in_parts_end_at_the_full_count(screen: Terminal, backend: str) -> None:
    machine = Machine(8 * MB)
    loader = nl.DataLoader(
        KINDS["hinted"](machine, [MB] * 24), 8, num_workers=2, collate_fn=list, memory=machine.policy()
    )
    indices, batches = [], 0
    for batch in progress_on(screen, loader, backend=backend):
        indices += told(batch)
        batches += 1
        del batch
    assert indices == list(range(24))
    assert batches > len(loader)
    (line,) = screen.close().lines
    assert "24/24" in line
    assert "MB of 8.0 MB" in line


def test_samples_that_are_skipped_count_as_done_and_are_told(screen: Terminal, backend: str) -> None:
    policy = nl.FailurePolicy(rebuild=0, skip=2)
    with nl.DataLoader(Failing(20, {3, 7}), 5, num_workers=2, on_failure=policy) as loader:
        assert len(samples_of(progress_on(screen, loader, backend=backend))) == 18
    (line,) = screen.close().lines
    assert "20/20" in line
    assert "2 skipped" in line


def test_after_a_resume_the_count_goes_on_where_it_was(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(60), 10, num_workers=2) as loader:
        iterator = iter(loader)
        first = samples_of([next(iterator), next(iterator)])
        state = loader.state_dict()
    with nl.DataLoader(Numbers(60), 10, num_workers=2) as loader:
        loader.load_state_dict(state)
        rest = iter(progress_on(screen, loader, backend=backend))
        screen.wait_for("20/60")
        rest_of_it = samples_of(rest)
    assert first + rest_of_it == list(range(60))
    (line,) = screen.close().lines
    assert "60/60" in line


def test_an_iterable_of_unknown_length_has_a_count_and_no_share(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Stream(1000), 3, num_workers=2) as loader:
        batches = iter(progress_on(screen, loader, backend=backend))
        got = [next(batches)]
        screen.wait_for("3 samples" if backend == "tqdm" else "3  0:0")
        assert "0%" not in screen.written.decode().partition("waits")[0]
        got += batches
        with pytest.raises(TypeError):
            len(progress_on(screen, loader, backend=backend))
    assert samples_of(got) == list(range(1000))
    (line,) = screen.close().lines
    assert "1000" in line.replace(",", "")


def test_an_epoch_of_nothing_is_shown_as_such(screen: Terminal, backend: str) -> None:
    assert list(progress_on(screen, nl.DataLoader(Numbers(0), num_workers=0), backend=backend)) == []
    assert len(screen.close().lines) == 1


def test_an_iterator_goes_on_and_stays_open_when_its_bar_is_left(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(12), 2, num_workers=2) as loader:
        iterator = iter(loader)
        got = [next(iterator)]
        for batch in progress_on(screen, iterator, "some", backend=backend):
            got.append(batch)
            if len(got) == 3:
                break
        got += progress_on(screen, iterator, "the rest", backend=backend)
    assert samples_of(got) == list(range(12))
    some, rest = screen.close().lines
    assert "6/12" in some
    assert "stopped" in some
    assert "12/12" in rest


def test_several_threads_may_take_batches_from_one_bar(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(200), 2, num_workers=2) as loader:
        batches = iter(progress_on(screen, loader, backend=backend))
        got: list[list[Any]] = [[], []]
        threads = [threading.Thread(target=lambda mine=mine: mine.extend(batches)) for mine in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert sorted(samples_of(got[0] + got[1])) == list(range(200))


# While it runs


def test_rich_shows_where_an_epoch_is_while_the_consumer_does_something_else(screen: Terminal) -> None:
    pytest.importorskip("rich")
    with nl.DataLoader(Numbers(60), 8, num_workers=2) as loader:
        batches = iter(progress_on(screen, loader))
        for _ in range(3):
            next(batches)
        screen.wait_for("24/60")
        screen.wait_for("40%")
        list(batches)


def test_what_the_loop_prints_stands_above_a_bar_of_rich(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    code, screen, _ = run_in_terminal(tmp_path, PRINTING)
    assert code == 0
    assert screen.lines[0] == "printed"
    assert screen.lines[1] == "logged"
    assert "10/10" in screen.lines[2]
    assert len(screen.lines) == 3


def test_what_the_loop_prints_to_a_file_goes_there(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    code, screen, output = run_in_terminal(tmp_path, PRINTING, is_stdout=False)
    assert (code, output) == (0, b"printed\n")
    assert screen.lines[0] == "logged"
    assert "10/10" in screen.lines[1]


PRINTING = """
import sys
import nogil_loader as nl
from nogil_loader.observe.progress import progress

class Numbers:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return index

with nl.DataLoader(Numbers(), 2, num_workers=2) as loader:
    for number, batch in enumerate(progress(loader)):
        if number == 2:
            print("printed", flush=True)
            print("logged", file=sys.stderr)
"""


def test_a_bar_below_another_one_goes_when_it_has_ended(screen: Terminal, backend: str) -> None:
    train = nl.DataLoader(Numbers(20), 5, num_workers=2)
    val = nl.DataLoader(Numbers(6), 2, num_workers=2)
    with train, val:
        for _ in progress_on(screen, train, "train", backend=backend):
            assert samples_of(progress_on(screen, val, "val", backend=backend)) == list(range(6))
    seen = screen.close()
    assert [line[:5] for line in seen.lines] == ["train"]
    assert "20/20" in seen.lines[0]
    assert "val" in screen.written.decode()
    assert not seen.is_cursor_hidden


def test_two_bars_of_rich_at_once_have_a_line_each(screen: Terminal) -> None:
    pytest.importorskip("rich")
    with nl.DataLoader(Numbers(20), 5, num_workers=2) as loader:
        one, other = (
            iter(progress_on(screen, loader, "one")),
            iter(progress_on(screen, loader, "other", leave=True)),
        )
        next(other)
        screen.wait_for("5/20")
        assert len(list(one)) == 4
        assert len(list(other)) == 3
    seen = screen.close()
    assert [line.split()[0] for line in seen.lines] == ["one", "other"]
    assert all("20/20" in line for line in seen.lines)


def test_a_bar_that_is_not_to_stay_leaves_no_line(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(20), 5, num_workers=0) as loader:
        list(progress_on(screen, loader, "train", backend=backend, leave=False))
    seen = screen.close()
    assert "train" in screen.written.decode()
    assert seen.lines == []
    assert not seen.is_cursor_hidden


def test_rich_shares_a_terminal_with_the_users_own_rich_display(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rich = pytest.importorskip("rich")
    from rich.console import Console
    from rich.live import Live

    monkeypatch.setattr(rich, "_console", Console(file=screen.stream))
    with (
        Live("the user's own", console=rich.get_console(), refresh_per_second=20),
        nl.DataLoader(Numbers(20), 5, num_workers=2) as loader,
    ):
        batches = iter(progress_on(screen, loader, "train"))
        next(batches)
        if hasattr(rich.get_console(), "_live_stack"):  # since 14.1 it has room for more than one
            screen.wait_for("train")
        assert len(list(batches)) == 3
    seen = screen.close()
    assert "the user's own" in seen.lines[-1]
    assert not seen.is_cursor_hidden


def test_where_rich_allows_one_display_only_there_is_no_bar(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    from rich.console import Console
    from rich.errors import LiveError

    def refuse(console: Console, live: object) -> bool:
        raise LiveError("Only one live display may be active at once")

    monkeypatch.setattr(Console, "set_live", refuse)
    with nl.DataLoader(Numbers(20), 5, num_workers=2) as loader:
        assert samples_of(progress_on(screen, loader)) == list(range(20))
    assert screen.close().lines == []


def test_where_there_are_no_more_threads_there_is_no_bar(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with nl.DataLoader(Numbers(20), 5, num_workers=0) as loader:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert samples_of(progress_on(screen, loader, backend="rich")) == list(range(20))
    seen = screen.close()
    assert seen.lines == []
    assert not seen.is_cursor_hidden


# How it ends


def test_leaving_the_loop_closes_the_epoch_and_takes_the_bar_down(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(40), 4, num_workers=2) as loader:
        for number, _ in enumerate(progress_on(screen, loader, "train", backend=backend)):
            if number == 2:
                break
        assert loader.statistics().workers_alive == 0
        screen.stream.write("prompt")
    seen = screen.close()
    bar, prompt = seen.lines
    assert "12/40" in bar
    assert "stopped" in bar
    assert prompt == "prompt"
    assert not seen.is_cursor_hidden


def test_closing_twice_and_as_a_context_ends_the_epoch(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(40), 4, num_workers=2) as loader:
        with iter(progress_on(screen, loader, backend=backend)) as batches:
            next(batches)
            assert batches.progress().items_processed == batches.statistics().delivered == 4
        batches.close()
        with pytest.raises(nl.LoaderError, match="closed"):
            next(batches)
    assert len(screen.close().lines) == 1


def test_an_error_is_the_loaders_own_each_time(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Failing(40, {9}), 4, num_workers=2) as loader:
        batches = iter(progress_on(screen, loader, "train", backend=backend))
        errors: list[nl.DeadWorkerError] = []
        depths = []
        got = []
        while len(errors) < 3:
            try:
                got.append(next(batches))
            except nl.DeadWorkerError as error:
                errors.append(error)
                trace, depth = error.__traceback__, 0
                while trace is not None:
                    trace, depth = trace.tb_next, depth + 1
                depths.append(depth)
        assert samples_of(got) == list(range(8))
        assert errors[0] is errors[1] is errors[2]
        assert isinstance(errors[0].__cause__, ValueError)
        assert depths[1] == depths[2]
        errors.clear()
    seen = screen.close()
    (line,) = seen.lines
    assert "8/40" in line
    assert "failed" in line
    assert not seen.is_cursor_hidden


def test_an_error_in_the_loop_takes_the_bar_down_before_it_is_printed(tmp_path: Path, backend: str) -> None:
    code, screen, _ = run_in_terminal(
        tmp_path, RAISING.format(backend=backend, what="raise ValueError('mine')")
    )
    assert code == 1
    bar = next(number for number, line in enumerate(screen.lines) if "4/10" in line)
    assert "Traceback" in screen.lines[bar + 1]
    assert screen.lines[-1] == "ValueError: mine"
    assert screen.is_at_line_start
    assert not screen.is_cursor_hidden


def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path, backend: str) -> None:
    what = "os.kill(os.getpid(), signal.SIGINT)"
    code, screen, _ = run_in_terminal(tmp_path, RAISING.format(backend=backend, what=what))
    assert code == -2  # as Python ends after Ctrl-C: by the signal itself
    assert screen.lines[-1] == "KeyboardInterrupt"
    assert sum("/10" in line for line in screen.lines) == 1
    assert screen.is_at_line_start
    assert not screen.is_cursor_hidden


def test_exit_with_an_epoch_half_read_gives_the_terminal_back(tmp_path: Path, backend: str) -> None:
    code, screen, _ = run_in_terminal(tmp_path, RAISING.format(backend=backend, what="sys.exit(3)"))
    assert code == 3
    assert len(screen.lines) == 1
    assert not screen.is_cursor_hidden
    assert screen.is_at_line_start


def test_exit_shows_the_cursor_again_that_a_forgotten_bar_of_rich_hides(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    held = RAISING.format(backend="rich", what="pass") + "\nbatches = iter(progress(loader))\nnext(batches)\n"
    code, screen, _ = run_in_terminal(tmp_path, held)
    assert code == 0
    assert not screen.is_cursor_hidden
    assert screen.is_at_line_start


RAISING = """
import os, signal, sys
import nogil_loader as nl
from nogil_loader.observe.progress import progress

class Numbers:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return index

loader = nl.DataLoader(Numbers(), 2, num_workers=2)
for number, batch in enumerate(progress(loader, backend="{backend}")):
    if number == 1:
        {what}
"""


def test_ctrl_c_in_the_middle_of_next_closes_the_epoch(screen: Terminal, backend: str) -> None:
    """The traceback would keep threads and batches for as long as a shell remembers the last error."""

    class Interrupted(Numbers):
        def __getitem__(self, index: Any) -> Any:
            if index == 5:
                raise KeyboardInterrupt
            return index

    sampler = Interrupted(20)

    class Order:
        def __iter__(self) -> Iterator[int]:
            return (sampler[index] for index in range(20))

    with nl.DataLoader(Numbers(20), 1, sampler=Order(), num_workers=1, prefetch_factor=1) as loader:
        batches = iter(progress_on(screen, loader, backend=backend))
        with pytest.raises(KeyboardInterrupt):
            list(batches)
        with pytest.raises(nl.LoaderError, match="closed"):
            next(batches)
    seen = screen.close()
    assert "stopped" in seen.lines[0]
    assert not seen.is_cursor_hidden


def test_a_bar_comes_down_while_others_hold_the_locks_of_epoch_and_display(screen: Terminal) -> None:
    """A finaliser may run in a thread that holds either of them."""
    pytest.importorskip("rich")
    from nogil_loader.observe.progress import terminal as drawing

    with nl.DataLoader(Numbers(20), 5, num_workers=2) as loader:
        iterator = iter(loader)
        batches = iter(progress_on(screen, iterator, "train"))
        next(batches)
        with iterator._run.lock, drawing._lock:
            del batches
        screen.wait_for("stopped")  # the display's own thread does the rest
        assert len(list(iterator)) == 3


def test_a_terminal_that_goes_away_costs_only_the_bar(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(40), 4, num_workers=2) as loader:
        batches = iter(progress_on(screen, loader, backend=backend))
        got = [next(batches)]
        screen.close()
        got += batches
    assert samples_of(got) == list(range(40))


def test_a_forked_child_prints_where_it_printed_before(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    code, screen, _ = run_in_terminal(tmp_path, FORKING)
    assert code == 0
    assert "from the child" in screen.lines
    assert "10/10" in screen.lines[-1]
    assert not screen.is_cursor_hidden


FORKING = """
import os, sys, warnings
import nogil_loader as nl
from nogil_loader.observe.progress import progress, terminal

warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads

class Numbers:
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return index

plain = sys.stdout
with nl.DataLoader(Numbers(), 2, num_workers=2) as loader:
    for number, batch in enumerate(progress(loader)):
        if number == 2:
            assert sys.stdout is not plain
            child = os.fork()
            if not child:
                assert sys.stdout is plain
                assert not terminal._displays
                print("\\nfrom the child", flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert sys.stdout is not plain
assert sys.stdout is plain
"""


# Where nobody looks


def test_nothing_is_written_to_a_file_and_no_backend_is_imported(
    run_script: Any,
) -> None:
    result = run_script(
        """
        import sys
        import nogil_loader as nl
        from nogil_loader.observe.progress import progress

        class Numbers:
            def __len__(self):
                return 10
            def __getitem__(self, index):
                return index

        with nl.DataLoader(Numbers(), 2, num_workers=2) as loader:
            assert sum(len(batch) for batch in progress(loader)) == 10
        assert not {"rich", "tqdm", "IPython"} & set(sys.modules)
        """,
        environment={"FORCE_COLOR": "1"},
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_bar_that_is_switched_off_writes_nothing(screen: Terminal, backend: str) -> None:
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        assert samples_of(progress_on(screen, loader, backend=backend, disable=True)) == list(range(10))
    assert screen.close().lines == []
    assert screen.written == b""


def test_a_bar_that_is_wanted_in_a_file_goes_there(backend: str) -> None:
    file = io.StringIO()
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        assert samples_of(progress(loader, "train", backend=backend, file=file, disable=False)) == list(
            range(10)
        )
        written = file.getvalue()
        list(progress(loader, "train", backend=backend, file=file))
    assert "10/10" in written
    assert "\x1b" not in written
    assert file.getvalue() == written


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_program_without_a_stderr_gets_its_batches(
    stream: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stream is None:
        monkeypatch.setattr(sys, "stderr", None)
    else:
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stderr", closed)
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        assert samples_of(progress(loader)) == list(range(10))


# What is installed


def test_tqdm_draws_where_rich_is_missing(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setitem(sys.modules, "rich", None)
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        assert samples_of(progress_on(screen, loader)) == list(range(10))
    (line,) = screen.close().lines
    assert "10/10 [" in line  # tqdm's own form
    assert "samples/s" in line


def test_with_neither_of_them_one_notice_says_what_to_install(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backend in BACKENDS:
        monkeypatch.setitem(sys.modules, backend, None)
    with nl.DataLoader(Numbers(10), 2, num_workers=2) as loader:
        with pytest.warns(UserWarning, match=r'pip install "nogil_loader\[progress\]"') as caught:
            assert sum(len(batch) for batch in progress_on(screen, loader)) == 10
        assert [Path(notice.filename) for notice in caught] == [Path(__file__)]
        assert samples_of(progress_on(screen, loader, disable=True)) == list(range(10))


@pytest.mark.parametrize(("backend", "command"), [("rich", r'"nogil_loader\[progress\]"'), ("tqdm", "tqdm")])
def test_a_backend_that_is_asked_for_and_missing_is_an_error(
    backend: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(ImportError, match=f"{backend} is not installed: pip install {command}") as caught:
        progress(nl.DataLoader(Numbers(10), num_workers=0), backend=backend)
    assert caught.value.name == backend


# Wrong arguments


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            {"loader": [1, 2]},
            TypeError,
            r"^loader=\[1, 2\]: expected a DataLoader or one of its iter.*, not list",
        ),
        ({"description": 3}, TypeError, r"^description=3: expected a string, not int"),
        ({"backend": "bar"}, ValueError, r"^backend='bar': expected 'rich', 'tqdm' or None"),
        ({"backend": []}, ValueError, r"^backend=\[\]: expected 'rich', 'tqdm' or None"),
        ({"disable": "no"}, TypeError, r"^disable='no': expected True or False, not str"),
        ({"leave": 1}, TypeError, r"^leave=1: expected True or False, not int"),
        ({"file": "log.txt"}, TypeError, r"^file='log.txt': expected a text stream, not str"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        progress(**{"loader": nl.DataLoader(Numbers(4), num_workers=0), **arguments})


# tqdm around the loader itself


def test_plain_tqdm_counts_batches_of_a_whole_epoch() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    shown = io.StringIO()
    with nl.DataLoader(Numbers(60), 8, num_workers=2) as loader:
        assert samples_of(tqdm(loader, file=shown)) == list(range(60))
    assert "8/8" in shown.getvalue().splitlines()[-1]


def test_plain_tqdm_gives_its_total_up_when_batches_come_in_parts() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    machine, shown = Machine(8 * MB), io.StringIO()
    loader = nl.DataLoader(
        KINDS["hinted"](machine, [MB] * 24), 8, num_workers=2, collate_fn=list, memory=machine.policy()
    )
    bar = tqdm(loader, file=shown)
    for batch in bar:
        del batch
    assert bar.n > len(loader) == 3
    assert f"{bar.n}it" in shown.getvalue().splitlines()[-1]


def test_plain_tqdm_does_not_know_of_a_resume() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    shown = io.StringIO()
    with nl.DataLoader(Numbers(60), 10, num_workers=2) as loader:
        iterator = iter(loader)
        next(iterator)
        loader.load_state_dict(loader.state_dict())
        list(tqdm(loader, file=shown))
        iterator.close()
    assert "5/6" in shown.getvalue().splitlines()[-1]


class Broken(io.StringIO):
    """A terminal that is gone."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("backend", ["rich", "tqdm"])
def test_a_terminal_that_is_gone_costs_the_bar_and_nothing_else(backend: str) -> None:
    pytest.importorskip(backend)
    closed = open(os.devnull, "w")  # noqa: SIM115 - closed at once
    closed.close()
    for file in (Broken(), closed):
        with nl.DataLoader(Numbers(20), 4, num_workers=1) as loader:
            assert len(list(nl.progress(loader, backend=backend, file=file, disable=False))) == 5


def test_tqdm_leaves_its_lock_free_when_a_stream_fails() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    with nl.DataLoader(Numbers(20), 4, num_workers=1) as loader:
        list(nl.progress(loader, backend="tqdm", file=Broken(), disable=False))
    free = threading.Event()

    def look() -> None:
        with tqdm.get_lock():
            free.set()

    threading.Thread(target=look, daemon=True).start()
    assert free.wait(PATIENCE)


def test_a_description_that_the_stream_has_no_characters_for_is_shown_as_far_as_it_has() -> None:
    pytest.importorskip("tqdm")
    shown = io.BytesIO()
    file = io.TextIOWrapper(shown, encoding="ascii", write_through=True)
    with nl.DataLoader(Numbers(20), 4, num_workers=1) as loader:
        assert len(list(nl.progress(loader, "träin", backend="tqdm", file=file, disable=False))) == 5
    assert b"tr?in" in shown.getvalue()
