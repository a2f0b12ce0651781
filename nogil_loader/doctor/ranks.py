"""Whether this process is one of several ranks, and what follows for workers and data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from nogil_loader.doctor.finding import Diagnosis, Finding, count
from nogil_loader.engine.cpus import available_cpus, schedulable_cpus
from nogil_loader.memory.ranks import is_distributed, local_world_size

# What launchers set and `nogil_loader.memory.ranks` goes by, and what tells a person which rank this is.
_VARIABLES = (
    *("NOGIL_LOADER_WORLD_SIZE", "NOGIL_LOADER_LOCAL_WORLD_SIZE"),
    *("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"),
    *("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"),
    *("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    *("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK"),
    *("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"),
    "JSM_NAMESPACE_LOCAL_SIZE",
)


@dataclass(frozen=True)
class RanksDiagnosis(Diagnosis):
    """What the environment tells of ranks.

    Attributes:
        local: Ranks of this job on this machine.
        is_distributed: Whether there are several, here or elsewhere.
        workers: What ``num_workers="auto"`` begins with, in each of them.
        cpus: CPUs that all ranks on this machine have together, as far as one of them can tell.
        variables: What the launcher has set.
    """

    title = "Ranks"
    local: int
    is_distributed: bool
    workers: int
    cpus: int
    variables: dict[str, str]

    def lines(self) -> list[str]:
        """Return the facts for a person."""
        told = ", ".join(f"{name}={value}" for name, value in self.variables.items())
        return [f"  on this machine: {self.local}; {told or 'no launcher has set a variable'}"]

    def findings(self) -> list[Finding]:
        """Return what follows for a loader."""
        if not self.is_distributed:
            return [Finding("ok", "this process is alone: no other rank takes CPUs, memory or samples")]
        return [*self._count(), *self._workers(), self._data()]

    def _count(self) -> list[Finding]:
        if self.local > 1:
            return []
        return [
            Finding(
                "note",
                "one of several ranks, and the only one on this machine as far as is known",
                "if there are more here, say so, as they share memory: NOGIL_LOADER_LOCAL_WORLD_SIZE=4",
            )
        ]

    def _workers(self) -> list[Finding]:
        if self.local == 1:
            return []
        together = self.local * self.workers
        if together <= self.cpus:
            told = f"{self.local} ranks x {count(self.workers, 'worker')}: no more than {self.cpus} CPUs"
            return [Finding("ok", told)]
        return [
            Finding(
                "warning",
                f"each of {self.local} ranks begins with {count(self.workers, 'worker')} for "
                f'num_workers="auto": {together} threads on {count(self.cpus, "CPU")}',
                f"num_workers={max(1, self.cpus // self.local)}, or bind each rank to CPUs of its own "
                "(srun --cpus-per-task, mpirun --bind-to)",
            )
        ]

    def _data(self) -> Finding:
        return Finding(
            "note",
            "a loader knows nothing of other ranks: each reads all samples unless a sampler divides them",
            "sampler=DistributedSampler(dataset), and set_epoch for each epoch",
        )


def examine_ranks(
    *,
    environ: Mapping[str, str] | None = None,
    workers: int | None = None,
    counted: int | None = None,
    machine: int | None = None,
) -> RanksDiagnosis:
    """Look at ranks.

    Args:
        environ: The environment, by default the real one.
        workers: What ``num_workers="auto"`` begins with; None asks.
        counted: CPUs that this process may run on, whatever a quota says; None asks.
        machine: CPUs of the machine; None asks.
    """
    environ = os.environ if environ is None else environ
    workers = available_cpus() if workers is None else workers
    counted = schedulable_cpus() if counted is None else counted
    machine = os.cpu_count() if machine is None else machine
    return RanksDiagnosis(
        local=local_world_size(environ),
        is_distributed=is_distributed(environ),
        workers=workers,
        # A quota holds for all ranks of a container. Ranks that were bound to CPUs have each their own.
        cpus=workers if workers < counted else max(workers, machine or 1),
        variables={name: environ[name] for name in _VARIABLES if name in environ},
    )
