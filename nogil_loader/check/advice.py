"""What is known of exceptions that come up only where several threads use one thing, and what helps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nogil_loader.check.outcome import Raised

PER_THREAD = (
    "let each thread open its own: in a threading.local() on first use, or with clone_dataset=True "
    "(or clone_dataset=lambda worker: make_dataset())"
)
LOCK = "or hold one threading.Lock around all of it, from the first call to the last"


@dataclass(frozen=True)
class Known:
    """An exception that has a well-known cause.

    Attributes:
        name: What it is a sign of.
        pattern: Searched for in ``Class: message``, letters of either case.
        advice: What to do, one step a line.
        is_bound: Whether the object at fault works in the thread that made it and in no other.
    """

    name: str
    pattern: str
    advice: tuple[str, ...]
    is_bound: bool = False


_KNOWN = (
    Known(
        "an object that may be used only in the thread that made it",
        r"same thread|created in a thread|different thread|another thread|wrong thread|unsendable"
        r"|no current event loop|no running event loop|main thread|owning thread",
        (
            f"{PER_THREAD}; or in worker_init_fn",
            "sqlite3: check_same_thread=False is no remedy by itself, a lock has to go with it",
        ),
        is_bound=True,
    ),
    Known(
        "an object that one thread at a time may use",
        r"already (?:mutably |immutably )?borrowed|already in use|already (?:executing|running|open|locked|busy"
        r"|entered)|reentran|recursive use|concurrent|in use by|not thread.?safe|is busy|is locked"
        r"|could not acquire lock",
        (PER_THREAD, LOCK),
    ),
    Known(
        "a generator or iterator that all threads share",
        r"generator (?:already executing|raised|didn't)|iterator already|dictionary keys changed",
        ("make the generator anew in each call, or compute the sample from its index",),
    ),
    Known(
        "a container that one thread changes while another one goes over it",
        r"changed size during iteration|mutated during iteration|list modified during|deque mutated",
        ("go over a copy: list(container)", LOCK),
    ),
    Known(
        "a handle that one thread closes, or has not opened yet, while another one uses it",
        r"closed file|bad file descriptor|already closed|closed database|nonetype|has no attribute|is closed"
        r"|not open|uninitiali[sz]ed|unboundlocal|not initiali[sz]ed",
        (
            "open it in __init__, or keep it in a threading.local(), so that each thread opens its own",
            "or guard the opening with a lock, and assign only what is complete",
        ),
    ),
    Known(
        "HDF5",
        r"h5py|hdf5|can't (?:synchronously )?(?:read|open)|unable to (?:synchronously )?(?:open|read)",
        (PER_THREAD, "h5py lets one thread at a time into HDF5 anyway, so threads gain nothing there"),
    ),
    Known(
        "lmdb",
        r"\blmdb\b|mdb_",
        (
            "open the environment once, with lock=False, and begin a transaction in each call, or one per thread",
            "a transaction must not be used by two threads",
        ),
    ),
    Known(
        "a shared file position: data that were read from the wrong place",
        r"badzipfile|zlib|crc|eoferror|end of (?:file|stream|data)|truncated|unpickl|pickle data|unidentifiedimage"
        r"|decod(?:e|ing)|magic|header|struct\.error|unpack requires|reading array|buffer size|jsondecode"
        r"|expecting value|overlapped|writing handle|cannot reshape|invalid literal|not a gzip|corrupt|bad data"
        r"|negative seek|short read|cannot identify",
        (
            f"read a file with os.pread(fd, size, offset), which needs no position; or {PER_THREAD}",
            LOCK,
        ),
    ),
    Known(
        "something that another thread has taken away or put there meanwhile",
        r"keyerror|indexerror|pop from|empty|stopiteration|list\.remove|valueerror|not in (?:list|deque)",
        (
            "keep what belongs to one sample in local variables, not on the dataset",
            LOCK,
        ),
    ),
)
_UNKNOWN = Known("something that threads share", "", (PER_THREAD, LOCK))


# Python 3.11 keeps the depth of a syntax tree that is being made in one place for all threads, and takes a change
# of threads meanwhile for an error of its own (https://github.com/python/cpython/issues/106905 is of that kind).
# Seen with 3.11.7, by 8 threads, 15 times in 400,000 calls of ast.parse; never with 3.12 and 3.13.
_DEPTH_MISMATCH = "AST constructor recursion depth mismatch"


def is_pythons_own(raised: Raised) -> bool:
    """Whether an exception is a known fault of this Python, whatever dataset is read."""
    return raised.kind == "SystemError" and _DEPTH_MISMATCH in raised.text


def recognise(raised: Raised) -> Known:
    """Return what is known about an exception that threads have provoked."""
    told = f"{raised.kind}: {raised.text}"
    return next((known for known in _KNOWN if re.search(known.pattern, told, re.IGNORECASE)), _UNKNOWN)
