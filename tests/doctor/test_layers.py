"""Which threading layer numba would choose, and that asking starts none."""

from __future__ import annotations

import pytest

from nogil_loader.doctor.layers import choose_layer
from tests.scripts import RunScript

ALL = {"tbb": True, "omp": True, "workqueue": True}
PRIORITY = ("tbb", "omp", "workqueue")


@pytest.mark.parametrize(
    ("preference", "missing", "platform", "layer"),
    [
        ("default", [], "linux", "tbb"),
        ("default", ["tbb"], "linux", "omp"),
        ("default", ["tbb", "omp"], "linux", "workqueue"),
        ("default", ["tbb", "omp", "workqueue"], "linux", None),
        ("omp", [], "linux", "omp"),
        ("OMP", [], "linux", "omp"),
        ("omp", ["omp"], "linux", None),
        ("safe", ["tbb"], "linux", None),
        ("threadsafe", ["tbb"], "linux", "omp"),
        ("forksafe", ["tbb"], "linux", "workqueue"),
        ("forksafe", ["tbb"], "darwin", "omp"),
        ("nonsense", [], "linux", None),
    ],
)
def test_the_choice_is_numbas(preference: str, missing: list[str], platform: str, layer: str | None) -> None:
    loadable = {**ALL, **dict.fromkeys(missing, False)}
    assert choose_layer(preference, PRIORITY, loadable, platform) == layer


def test_another_priority_is_followed() -> None:
    assert choose_layer("default", ("workqueue", "omp", "tbb"), ALL) == "workqueue"


@pytest.mark.slow
def test_e08_the_layer_is_the_one_that_numba_takes_and_asking_starts_and_loads_none(
    run_script: RunScript,
) -> None:
    result = run_script(
        """
        import os
        import numba, numpy as np
        from nogil_loader.doctor import examine_compiler

        def libraries():
            with open("/proc/self/maps") as maps:
                return {line.split()[-1] for line in maps if ".so" in line}

        linux = os.path.exists("/proc/self/maps")
        before = libraries() if linux else None
        layer = examine_compiler().layer
        if linux:
            assert not [file for file in libraries() - before if "gomp" in file or "tbb" in file or "pool" in file]
            assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")

        @numba.njit(parallel=True)
        def fill(array):
            for index in numba.prange(array.size):
                array[index] = index

        fill(np.zeros(8))
        assert numba.threading_layer() == layer, (numba.threading_layer(), layer)
        print("same")
        """,
        environment={"OPENBLAS_NUM_THREADS": "1"},
    )
    assert (result.returncode, result.stdout) == (0, "same\n"), result.stderr
