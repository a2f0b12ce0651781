"""``nogil-loader demo``: epochs over photographs in which something goes wrong, and the count of what arrived."""

from __future__ import annotations

from typing import TextIO

from nogil_loader.data.photographs import Photographs
from nogil_loader.demo.memory_act import play_memory_act
from nogil_loader.demo.script import ACTS, Demo, PlantedDeath
from nogil_loader.demo.worker_act import play_worker_act

__all__ = ["ACTS", "Demo", "PlantedDeath", "run_demo"]

_PLAYS = {"worker": play_worker_act, "memory": play_memory_act}


def run_demo(demo: Demo, output: TextIO) -> int:
    """Run the demo, report to ``output``, and return 0 if every sample of every act is accounted for, else 1."""
    try:
        photographs = Photographs.load(demo.samples, seed=demo.seed)
    except (ImportError, FileNotFoundError) as error:
        print(f"generated images instead of photographs: {error}", file=output)
        photographs = Photographs.generated(demo.samples, seed=demo.seed)
    codes: list[int] = []
    for act in demo.acts:
        if codes:
            print(file=output)
        codes.append(_PLAYS[act](demo, photographs, output))
    return max(codes, default=0)
