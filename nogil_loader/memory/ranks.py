"""How many ranks of the same job share this machine's memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Set by whoever starts the ranks, to the number of them on each machine: torchrun, Ray Train and others;
# Open MPI; MVAPICH; MPICH and Intel MPI; jsrun. What the user says counts before.
_COUNTS = (
    "NOGIL_LOADER_LOCAL_WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "JSM_NAMESPACE_LOCAL_SIZE",
)
# The same for all machines together.
_TOTALS = ("NOGIL_LOADER_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
# Slurm's counts for all machines, such as "4(x2),3": what the step has got, before what the job asked for.
_SLURM_LISTS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
_SLURM_ENTRY = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)
# More ranks than any machine has processors: such a number is something else.
_MOST = 1 << 16


def local_world_size(environ: Mapping[str, str]) -> int:
    """Return how many ranks of this process's job run on this machine, 1 if nothing tells.

    Slurm counts only within a step (``srun``): the script of a batch job sees the same variables, but runs
    once.

    Args:
        environ: The environment, such as ``os.environ``.
    """
    for name in _COUNTS:
        size = _count(environ.get(name, ""))
        if size is not None:
            return size
    if "SLURM_STEP_ID" in environ:
        for name in _SLURM_LISTS:
            sizes = _slurm_list(environ.get(name, ""))
            if sizes:
                return _of_node(sizes, environ.get("SLURM_NODEID", ""))
    return 1


def is_distributed(environ: Mapping[str, str]) -> bool:
    """Return whether this process is one of several ranks of a job, as far as the environment tells."""
    sizes = (_count(environ.get(name, "")) for name in _TOTALS)
    return next((size > 1 for size in sizes if size is not None), local_world_size(environ) > 1)


def _count(text: str) -> int | None:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return None
    return int(text) if 1 <= int(text) <= _MOST else None


def _slurm_list(text: str) -> list[tuple[int, int]]:
    """Return ``(ranks, machines)`` for every entry, nothing if one makes no sense."""
    entries = []
    for entry in text.split(","):
        match = _SLURM_ENTRY.fullmatch(entry.strip())
        ranks = _count(match[1]) if match else None
        if match is None or ranks is None:
            return []
        entries.append((ranks, int(match[2] or 1)))
    return entries


def _of_node(sizes: list[tuple[int, int]], node: str) -> int:
    """Return the count of the machine with this number, the largest if the number is not among them."""
    number = int(node) if node.isascii() and node.isdecimal() and len(node) < 10 else None
    if number is not None:
        for ranks, machines in sizes:
            if number < machines:
                return ranks
            number -= machines
    return max(ranks for ranks, _ in sizes)
