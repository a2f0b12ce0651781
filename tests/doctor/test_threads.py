"""Threads of native libraries: which pools there are, what workers make of them, and what to do (E09)."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from nogil_loader.doctor import ThreadsDiagnosis, examine_threads
from tests.doctor.machine import Machine, only, severities, told
from tests.scripts import RunScript

OPENMP = {
    "user_api": "openmp",
    "internal_api": "openmp",
    "filepath": "/usr/lib/libgomp.so.1",
    "num_threads": 8,
}
OPENBLAS = {
    "user_api": "blas",
    "internal_api": "openblas",
    "filepath": "/np/libopenblas.so",
    "num_threads": 8,
}
MKL = {"user_api": "blas", "internal_api": "mkl", "filepath": "/mkl/libmkl_rt.so.2", "num_threads": 8}


def found(
    machine: Machine,
    *pools: dict[str, Any],
    workers: int = 8,
    counted: int | None = None,
    modules: Mapping[str, Any] = {},
    imported: tuple[str, ...] = ("user",),
    has_threadpoolctl: bool = True,
    environ: Mapping[str, str] = {},
) -> ThreadsDiagnosis:
    return examine_threads(
        workers=workers,
        counted=counted or workers,
        modules=modules,
        environ=environ,
        proc_root=machine.proc_root,
        cgroup_root=machine.cgroup_root,
        info=lambda: list(pools) if has_threadpoolctl else None,
        imported=imported,
    )


def test_without_pools_nothing_is_multiplied(machine: Machine) -> None:
    machine.proc("self/status", "Name:\tpython\nThreads:\t3\nSigQ:\t0/96365\n")
    diagnosis = found(machine)
    assert diagnosis.lines() == [
        "  3 threads in this process",
        "  imported: user",
        "  no pool of a native library is known in this process",
        "  no variable sets the size of a pool",
    ]
    assert only(diagnosis, "ok").found == "nothing multiplies 8 workers"
    assert severities(diagnosis) == {"ok"}


def test_e09_openmp_gives_each_worker_threads_of_its_own(machine: Machine) -> None:
    diagnosis = found(machine, OPENMP)
    assert "  OpenMP     8 threads for each thread that calls it  libgomp.so.1" in diagnosis.lines()
    warning = only(diagnosis, "warning")
    assert warning.found == "each worker that calls OpenMP gets 8 threads of its own: 64 on 8 CPUs"
    assert 'in worker_init_fn: threadpoolctl.threadpool_limits(1, "openmp")' in warning.advice
    assert "OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 python train.py" in warning.advice


def test_e09_torch_is_told_by_its_own_call(machine: Machine) -> None:
    torch = SimpleNamespace(get_num_threads=lambda: 4)
    warning = only(found(machine, OPENMP, MKL, modules={"torch": torch}), "warning")
    assert warning.found.startswith("each worker that calls OpenMP or MKL or torch gets 8 threads of its own")
    assert (
        "in worker_init_fn: torch.set_num_threads(1), and torch.get_num_threads() once before"
        in warning.advice
    )


def test_e09_one_pool_for_all_workers_is_the_whole_processs_to_set(machine: Machine) -> None:
    cv2 = SimpleNamespace(getNumThreads=lambda: 8)
    notes = told(found(machine, OPENBLAS, modules={"cv2": cv2}), "note")
    assert [(each.found, each.advice) for each in notes] == [
        (
            "workers that call OpenBLAS share one pool of 8 threads; its size is the whole process's",
            "if samples need it: OPENBLAS_NUM_THREADS=1 python train.py",
        ),
        (
            "workers that call OpenCV share one pool of 8 threads; its size is the whole process's",
            "if samples need it: cv2.setNumThreads(0) at the start of the program",
        ),
    ]


def test_e09_pools_of_one_thread_need_no_advice(machine: Machine) -> None:
    pools = [{**pool, "num_threads": 1} for pool in (OPENMP, OPENBLAS, MKL)]
    diagnosis = found(machine, *pools, environ={"OMP_NUM_THREADS": "1"})
    assert severities(diagnosis) == {"ok"}
    assert diagnosis.lines()[-1] == "  OMP_NUM_THREADS=1"


def test_one_worker_does_not_multiply(machine: Machine) -> None:
    assert severities(found(machine, {**OPENMP, "num_threads": 1}, workers=1)) == {"ok"}


@pytest.mark.parametrize(("environ", "is_told"), [({}, True), ({"OMP_NUM_THREADS": "2"}, False)])
def test_a_quota_that_libraries_do_not_know_of_is_warned_of(
    machine: Machine, environ: dict[str, str], is_told: bool
) -> None:
    diagnosis = found(machine, workers=2, counted=64, environ=environ)
    assert [each.advice for each in told(diagnosis, "warning")] == [
        "OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 MKL_NUM_THREADS=2 python train.py"
    ] * is_told


def test_pools_larger_than_the_cpus_are_warned_of(machine: Machine) -> None:
    cv2 = SimpleNamespace(getNumThreads=lambda: 64)
    unknown = {"internal_api": "other", "num_threads": 64}
    pools = ({**OPENBLAS, "num_threads": 64}, unknown)
    warnings = told(
        found(machine, *pools, modules={"cv2": cv2}, environ={"OMP_NUM_THREADS": "64"}), "warning"
    )
    assert warnings[0].found == "OpenBLAS uses 64 threads where this process has 8 CPUs"
    assert [each.advice for each in warnings] == [
        "OPENBLAS_NUM_THREADS=8 python train.py",
        "threadpoolctl.threadpool_limits(8) at the start of the program",
        "cv2.setNumThreads(8) at the start of the program",
    ]


MAPS = """\
7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /opt/my env/libgomp-98b21ff3.so.1.0.0
7f0000001000-7f0000002000 r--p 00001000 08:01 1 /opt/my env/libgomp-98b21ff3.so.1.0.0
7f0000003000-7f0000004000 r-xp 00000000 08:01 2 /np.libs/libscipy_openblas64_-32a4b2a6.so
7f0000005000-7f0000006000 r-xp 00000000 08:01 3 /usr/lib/libtbb.so.12
7f0000007000-7f0000008000 r-xp 00000000 08:01 4 /usr/lib/libtbbmalloc.so.2
7f0000009000-7f000000a000 rw-p 00000000 00:00 0
7f000000b000-7f000000c000 r-xp 00000000 08:01 5 /usr/lib/libiomp5.so
nonsense
"""


def test_e09_without_threadpoolctl_libraries_are_known_by_their_files(machine: Machine) -> None:
    machine.proc("self/maps", MAPS)
    diagnosis = found(machine, has_threadpoolctl=False)
    assert [(pool.name, pool.file, pool.threads) for pool in diagnosis.pools] == [
        ("OpenMP", "/opt/my env/libgomp-98b21ff3.so.1.0.0", None),
        ("OpenBLAS", "/np.libs/libscipy_openblas64_-32a4b2a6.so", None),
        ("TBB", "/usr/lib/libtbb.so.12", None),
        ("OpenMP", "/usr/lib/libiomp5.so", None),
    ]
    assert only(diagnosis, "warning").found == "each worker that calls OpenMP gets several threads of its own"
    notes = told(diagnosis, "note")
    assert "threadpoolctl would tell" in notes[-1].found
    assert notes[-1].advice == "pip install 'nogil_loader[doctor]'"


def test_two_copies_of_openmp_are_told(machine: Machine) -> None:
    machine.proc("self/maps", MAPS)
    notes = told(found(machine, has_threadpoolctl=False), "note")
    assert any(
        each.found.startswith("2 copies of OpenMP in one process (libgomp-98b21ff3.so.1.0.0, libiomp5.so)")
        for each in notes
    )


@pytest.mark.parametrize(
    ("environ", "advice"),
    [
        ({"OMP_PROC_BIND": "true"}, "unset OMP_PROC_BIND"),
        ({"OMP_PROC_BIND": "close", "GOMP_CPU_AFFINITY": "0-3"}, "unset OMP_PROC_BIND GOMP_CPU_AFFINITY"),
        ({"KMP_AFFINITY": "granularity=fine,compact"}, "unset KMP_AFFINITY"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "OMP_WAIT_POLICY=passive"),
    ],
)
def test_variables_that_take_cpus_from_workers_are_warned_of(
    machine: Machine, environ: dict[str, str], advice: str
) -> None:
    assert only(found(machine, environ=environ), "warning").advice == advice


@pytest.mark.parametrize("value", ["false", "FALSE", ""])
def test_variables_that_bind_nothing_are_not(machine: Machine, value: str) -> None:
    assert severities(found(machine, environ={"OMP_PROC_BIND": value, "OMP_WAIT_POLICY": "passive"})) == {
        "ok"
    }


def test_what_a_dataset_imports_can_be_looked_at(machine: Machine) -> None:
    note = only(found(machine, imported=()), "note")
    assert note.found == "only libraries that are loaded by now are seen"
    assert "nogil-loader doctor threads --import torch,cv2" in note.advice


class Half:
    """A module that is being imported, or is something else by that name."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_modules_that_do_not_answer_are_no_pools(machine: Machine) -> None:
    odd = SimpleNamespace(get_num_threads=lambda: "many")
    assert found(machine, modules={"cv2": Half(), "torch": odd}).pools == ()
    assert found(machine, {**OPENMP, "num_threads": None}).pools[0].threads is None


def test_this_process_is_looked_at() -> None:
    pytest.importorskip("threadpoolctl")
    diagnosis = examine_threads()
    assert diagnosis.has_sizes
    assert diagnosis.workers >= 1


@pytest.mark.slow
@pytest.mark.torch
def test_e09_the_advice_leaves_exactly_the_workers_and_the_programs_own_setting(
    run_script: RunScript,
) -> None:
    pytest.importorskip("torch")
    result = run_script(
        """
        import os, threading
        import torch
        import nogil_loader as nl

        WORKERS, EACH = 4, 3
        torch.set_num_threads(EACH)
        torch.get_num_threads()  # from here on this thread keeps its number, whatever workers say

        class Products:
            "Every worker has to be in here before one may go on."
            def __init__(self):
                self.all_here = threading.Barrier(WORKERS)
            def __len__(self):
                return WORKERS
            def __getitem__(self, index):
                self.all_here.wait(20)
                torch.ones(1_000_000).add(1).sum()
                self.all_here.wait(20)  # the threads of a team are there until its worker ends
                self.threads = len(os.listdir("/proc/self/task"))
                self.all_here.wait(20)
                return index

        def threads(worker_init_fn):
            products = Products()
            with nl.DataLoader(products, num_workers=WORKERS, worker_init_fn=worker_init_fn) as loader:
                assert len(list(loader)) == WORKERS
            return products.threads

        def one_thread(worker):
            torch.set_num_threads(1)

        before = len(os.listdir("/proc/self/task"))
        print(threads(None) - before, threads(one_thread) - before, torch.get_num_threads())
        """,
        environment={"OPENBLAS_NUM_THREADS": "1"},
    )
    # 4 workers with 2 helpers each; 4 workers; and what the program itself uses is as it was.
    assert (result.returncode, result.stdout) == (0, "12 4 3\n"), result.stderr
