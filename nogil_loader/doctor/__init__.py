"""What the loader finds on this machine and what follows from it, for people and for programs to read.

Each part is a module: a function looks at the system and returns a frozen *diagnosis*, the facts; the
*findings* follow from the facts alone. All that a part looks at can be given to it instead.
"""

from nogil_loader.doctor.compiler import CompilerDiagnosis, examine_compiler
from nogil_loader.doctor.cpu import CpuDiagnosis, examine_cpu
from nogil_loader.doctor.finding import Diagnosis, Finding, Severity
from nogil_loader.doctor.limits import LimitsDiagnosis, examine_limits
from nogil_loader.doctor.memory import MemoryDiagnosis, examine_memory
from nogil_loader.doctor.packages import PackagesDiagnosis, examine_packages
from nogil_loader.doctor.parts import PARTS, examine
from nogil_loader.doctor.python import PythonDiagnosis, examine_python
from nogil_loader.doctor.ranks import RanksDiagnosis, examine_ranks
from nogil_loader.doctor.report import as_json, as_text, exit_code, part_as_text, summary
from nogil_loader.doctor.shm import ShmDiagnosis, examine_shm
from nogil_loader.doctor.system import SystemDiagnosis, examine_system
from nogil_loader.doctor.threads import ThreadsDiagnosis, examine_threads

__all__ = [
    "PARTS",
    "CompilerDiagnosis",
    "CpuDiagnosis",
    "Diagnosis",
    "Finding",
    "LimitsDiagnosis",
    "MemoryDiagnosis",
    "PackagesDiagnosis",
    "PythonDiagnosis",
    "RanksDiagnosis",
    "Severity",
    "ShmDiagnosis",
    "SystemDiagnosis",
    "ThreadsDiagnosis",
    "as_json",
    "as_text",
    "examine",
    "examine_compiler",
    "examine_cpu",
    "examine_limits",
    "examine_memory",
    "examine_packages",
    "examine_python",
    "examine_ranks",
    "examine_shm",
    "examine_system",
    "examine_threads",
    "exit_code",
    "part_as_text",
    "summary",
]
