"""A fake ``/proc`` and ``/sys/fs/cgroup``, and a clock that goes when it is told to."""

from __future__ import annotations

from pathlib import Path

from nogil_loader.memory.probe import MemoryProbe

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


class Tree:
    """A machine of files: 24 GB with 20 GB available, in no control group, until told otherwise."""

    def __init__(self, root: Path) -> None:
        self.cgroup_root = root / "cgroup"
        self.proc_root = root / "proc"
        self.now = 1000.0
        self.cgroup_root.mkdir()
        self.host(24 * GB, 20 * GB)
        self.memberships()

    def host(
        self, total: int, available: int, *, swap: int = 0, swap_free: int = 0, swap_cached: int = 0
    ) -> None:
        self.write(
            self.proc_root / "meminfo",
            f"MemTotal:       {total // KB} kB\nMemFree:         1 kB\nMemAvailable:   {available // KB} kB\n"
            f"SwapCached:     {swap_cached // KB} kB\nSwapTotal:      {swap // KB} kB\n"
            f"SwapFree:       {swap_free // KB} kB\n",
        )

    def memberships(self, *lines: str) -> None:
        self.write(self.proc_root / "self" / "cgroup", "".join(f"{line}\n" for line in lines))

    def statm(self, *pages: int) -> None:
        self.write(self.proc_root / "self" / "statm", " ".join(map(str, pages)) + "\n")

    def v1(
        self,
        group: str,
        limit: object,
        usage: int,
        *,
        active_file: int = 0,
        inactive_file: int = 0,
        own_inactive_file: int = 0,
        swap: int = 0,
        swap_cached: int = 0,
        root: str = "memory",
    ) -> None:
        folder = self.cgroup_root / root / group
        self.write(folder / "memory.limit_in_bytes", f"{limit}\n")
        self.write(folder / "memory.usage_in_bytes", f"{usage}\n")
        self.write(
            folder / "memory.stat",
            f"cache 1\nrss 1\ninactive_file {own_inactive_file}\nactive_file 0\ntotal_cache 1\n"
            f"total_inactive_file {inactive_file}\ntotal_active_file {active_file}\n"
            f"swap 0\ntotal_swap {swap}\nswapcached 0\ntotal_swapcached {swap_cached}\n",
        )

    def v2(
        self,
        group: str,
        limit: object,
        usage: int,
        *,
        high: object = "max",
        active_file: int = 0,
        inactive_file: int = 0,
        slab_reclaimable: int = 0,
        swap: int = 0,
        swap_cached: int = 0,
    ) -> None:
        folder = self.cgroup_root / group
        self.write(folder / "memory.max", f"{limit}\n")
        self.write(folder / "memory.high", f"{high}\n")
        self.write(folder / "memory.current", f"{usage}\n")
        self.write(folder / "memory.swap.current", f"{swap}\n")
        self.write(folder / "memory.swap.max", f"{8 * GB}\n")
        self.write(
            folder / "memory.stat",
            f"anon 1\nfile 1\ninactive_file {inactive_file}\nactive_file {active_file}\n"
            f"slab_reclaimable {slab_reclaimable}\nslab 1\nswapcached {swap_cached}\n",
        )

    def write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def probe(self, limit: int | None = None) -> MemoryProbe:
        return MemoryProbe(
            limit=limit, proc_root=self.proc_root, cgroup_root=self.cgroup_root, clock=lambda: self.now
        )

    def tick(self, seconds: float = 0.001) -> None:
        """Let time go by, by default a little longer than a reading is kept."""
        self.now += seconds
