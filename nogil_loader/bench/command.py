"""What the command does with a sweep: print it, write it, and hold it against what is demanded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from nogil_loader.bench.comparison import CONFIDENCE, Comparison, can_tell, compare
from nogil_loader.bench.order import Bench
from nogil_loader.bench.report import write_report
from nogil_loader.bench.result import Result, ResultError, read_result
from nogil_loader.bench.sweep import run_bench
from nogil_loader.bench.table import as_comparison, as_text
from nogil_loader.bench.ticker import Ticker
from nogil_loader.files import check_writable, write_whole
from nogil_loader.targets import TargetError


@dataclass(frozen=True)
class Command:
    """What was typed.

    Attributes:
        bench: What to measure.
        json: Where the result goes as JSON; None for nowhere.
        report: Where it goes as HTML; None for nowhere.
        fail_below: Samples per second that the best setting has to reach; None for none.
        against: An earlier result to compare with; None for none.
        fail_regression: How many per cent slower than then it may be; None for any.

    Raises:
        ValueError: Two of these do not go together.
    """

    bench: Bench
    json: Path | None = None
    report: Path | None = None
    fail_below: float | None = None
    against: Path | None = None
    fail_regression: float | None = None

    def __post_init__(self) -> None:
        if self.fail_regression is not None and self.against is None:
            raise ValueError("--fail-regression: slower than what? Give an earlier result with --against")
        if self.json is not None and self.report is not None and self.json.resolve() == self.report.resolve():
            raise ValueError(f"--json and --report: {self.json} cannot be both")


def run_command(command: Command, output: TextIO, errors: TextIO) -> int:
    """Sweep, print, write, and return the exit code: 1 if a setting failed or a demand was not met.

    Raises:
        TargetError: As of `run_bench`; or a file that was named cannot be read or written, or the earlier result
            is of no use here.
    """
    earlier = _prepare(command)
    ticker = Ticker(errors)
    try:
        result = run_bench(command.bench, ticker)
    finally:
        ticker.clear()
    print(as_text(result), file=output)
    comparison = None
    if earlier is not None:
        try:
            comparison = compare(result, earlier)
        except ValueError as error:
            print(f"nogil-loader: --against {command.against}: {error}", file=errors)
        else:
            print(f"\n{as_comparison(comparison, earlier.created)}", file=output)
    _write(command, result, comparison)
    complaints = list(_complain(command, result, comparison))
    for complaint in complaints:
        print(f"nogil-loader: {complaint}", file=errors)
    unusable = earlier is not None and comparison is None
    return 1 if complaints or unusable or result.failed else 0


def _prepare(command: Command) -> Result | None:
    """Find out what cannot work before any time is spent; return the earlier result."""
    try:
        for path in (command.json, command.report):
            if path is not None:
                check_writable(path)
        earlier = None if command.against is None else read_result(command.against)
    except (OSError, ResultError) as error:
        raise TargetError(str(error)) from error
    if earlier is not None:
        _check_comparable(command, earlier)
    return earlier


def _check_comparable(command: Command, earlier: Result) -> None:
    bench = command.bench
    planned = {
        (workers, ahead if workers else None) for workers in bench.workers or () for ahead in bench.prefetch
    }
    shared = [
        setting
        for setting in earlier.settings
        if setting.rates
        and (setting.num_workers, setting.prefetch_factor if setting.num_workers else None) in planned
        and (not bench.batch_sizes or setting.batch_size in bench.batch_sizes)
    ]
    if not shared:
        raise TargetError(f"{command.against}: it has none of the settings that are to be measured")
    sizes = [(bench.repeats, len(setting.rates)) for setting in shared]
    if command.fail_regression is not None and not can_tell(sizes):
        raise TargetError(
            f"--fail-regression: {bench.repeats} repeats now and {len(shared[0].rates)} then of {len(shared)} "
            f"settings in common cannot tell slower from noise with {CONFIDENCE:.0%} confidence; repeat more "
            f"often, such as --repeats 5 both times"
        )


def _write(command: Command, result: Result, comparison: Comparison | None) -> None:
    try:
        if command.json is not None:
            write_whole(command.json, result.to_json())
        if command.report is not None:
            write_report(result, command.report, comparison)
    except OSError as error:
        raise TargetError(str(error)) from error


def _complain(command: Command, result: Result, comparison: Comparison | None) -> Iterator[str]:
    best = result.best
    if command.fail_below is not None:
        rate = 0.0 if best is None else best.median or 0.0
        if rate < command.fail_below:
            yield f"too slow: {rate:,.1f} samples/s in the best setting, less than {command.fail_below:,.1f}"
    if command.fail_regression is not None and comparison is not None:
        change = comparison.overall
        if change.is_slower and change.percent < -command.fail_regression:
            yield f"slower than before: {change}, more than {command.fail_regression:g} %"
