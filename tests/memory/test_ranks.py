"""How many ranks share a machine, from what those who start ranks leave in the environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.memory.ranks import local_world_size

STEP = {"SLURM_STEP_ID": "0"}


def test_a_process_that_nobody_started_as_a_rank_is_alone() -> None:
    assert local_world_size({}) == 1
    assert local_world_size({"WORLD_SIZE": "64", "RANK": "3", "LOCAL_RANK": "1"}) == 1


@pytest.mark.parametrize(
    "name",
    [
        "NOGIL_LOADER_LOCAL_WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "JSM_NAMESPACE_LOCAL_SIZE",
    ],
)
def test_each_starter_of_ranks_says_how_many_it_has_started_here(name: str) -> None:
    assert local_world_size({name: "8"}) == 8
    assert local_world_size({name: " 8 "}) == 8


def test_the_user_counts_before_torchrun_torchrun_before_mpi_and_mpi_before_slurm() -> None:
    environ = {
        "NOGIL_LOADER_LOCAL_WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "3",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "SLURM_TASKS_PER_NODE": "5",
        **STEP,
    }
    found = []
    for name in list(environ)[:4]:
        found.append(local_world_size(environ))
        del environ[name]
    assert found == [2, 3, 4, 5]


@pytest.mark.parametrize("text", ["", "x", "0", "-2", "1.5", "4 4", "²", "٣", "1_0", "9" * 5000, "100000"])
def test_nonsense_counts_as_not_set(text: str) -> None:
    assert local_world_size({"LOCAL_WORLD_SIZE": text}) == 1
    assert local_world_size({"LOCAL_WORLD_SIZE": text, "MPI_LOCALNRANKS": "4"}) == 4
    assert local_world_size({"SLURM_TASKS_PER_NODE": text, "SLURM_NTASKS_PER_NODE": "4", **STEP}) == 4


def test_slurm_counts_within_a_step_only_because_a_batch_script_runs_once() -> None:
    asked = {"SLURM_NTASKS_PER_NODE": "4", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NODEID": "0"}
    assert local_world_size(asked) == 1
    assert local_world_size({**asked, **STEP}) == 4


def test_a_step_of_fewer_tasks_than_the_job_counts_its_own() -> None:
    environ = {"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "8", **STEP}
    assert local_world_size(environ) == 2


@pytest.mark.parametrize(
    ("node", "size"),
    [("0", 4), ("1", 4), ("2", 1), ("3", 8), ("4", 8), ("", 8), ("x", 8), ("-1", 8), ("9" * 5000, 8)],
)
def test_slurm_lists_the_counts_of_all_machines(node: str, size: int) -> None:
    environ = {"SLURM_STEP_TASKS_PER_NODE": "4(x2),1,8", "SLURM_NODEID": node, **STEP}
    assert local_world_size(environ) == size


@pytest.mark.parametrize("text", ["4(x2", "4(x2),", "4(x2),x", "(x2)", "4(y2)", "0(x3)", "4;4"])
def test_a_list_that_makes_no_sense_counts_as_not_set(text: str) -> None:
    assert local_world_size({"SLURM_STEP_TASKS_PER_NODE": text, **STEP}) == 1


NAMES = ["LOCAL_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_NODEID", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"]


@given(st.dictionaries(st.sampled_from(NAMES), st.one_of(st.text(), st.text("0123456789(x),"))))
def test_whatever_is_set_there_is_at_least_one_rank(environ: dict[str, str]) -> None:
    assert 1 <= local_world_size(environ) <= 1 << 16
