"""Why a setting has no numbers, in one line."""

from __future__ import annotations

import signal

from nogil_loader.bench.result import Failure
from nogil_loader.errors import DeadWorkerError, describe_exception, describe_index

# What a line is worth reading of.
_SHOWN = 300


def failure_of(error: BaseException, sample: object = None) -> Failure:
    """Return the failure that an exception is.

    Args:
        error: What was raised.
        sample: The key of the sample that failed, where the exception does not tell.
    """
    if not isinstance(error, DeadWorkerError):
        return Failure(_line(error), None if sample is None else describe_index(sample))
    died = _line(error.__cause__) if error.__cause__ is not None else error.detail
    during = f" in {error.during}" if error.during else ""
    index = None if error.index is None else describe_index(error.index)
    return Failure(f"{died}{during}", index, str(error.worker_id))


def ended_by(code: int, output: str) -> Failure:
    """Return the failure of a process that ended without an answer.

    Args:
        code: Its exit code, negative for a signal.
        output: What it printed.
    """
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ", as when memory runs out" if name == "SIGKILL" else ""
        how = f"the process was ended by {name}{hint}"
    else:
        how = f"the process ended with exit code {code}"
    said = output.strip().splitlines()
    return Failure(f"{how}; it said last: {said[-1].strip()[:_SHOWN]}" if said else how)


def _line(error: BaseException) -> str:
    text = describe_exception(error)
    # torch puts the whole traceback of its worker into the message; what was raised is at its end.
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = lines[-1] if "Original Traceback" in text else lines[0]
    return chosen if len(chosen) <= _SHOWN else f"{chosen[:_SHOWN]}…"
