"""Which control groups this process is in, and the folders that show them.

A process is in one group of every hierarchy: one hierarchy with all controllers (version 2), one for each
controller or few (version 1), or both side by side. Limits bind at every level, the process's own group and
each ancestor. Only those that the file system shows can be read: inside a container usually the container's
own group and below.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class ControlGroup:
    """One level of one hierarchy.

    Attributes:
        version: 1 or 2.
        path: The group as ``/proc/self/cgroup`` names it.
        folder: Where its files are.
    """

    version: int
    path: str
    folder: Path

    def __str__(self) -> str:
        return f"cgroup v{self.version} {self.path}"


def read_memberships(proc_root: Path) -> str:
    """Return the text of ``/proc/self/cgroup``, empty where it cannot be read."""
    try:
        return os.fsdecode((proc_root / "self" / "cgroup").read_bytes())
    except OSError:
        return ""


def control_groups(controller: str, memberships: str, cgroup_root: Path) -> list[ControlGroup]:
    """Return the groups that can limit this process, its own before their ancestors.

    Args:
        controller: Name of a version 1 controller; groups of version 2 are returned for every name, because
            only the files in them tell which controllers they have.
        memberships: The text of ``/proc/self/cgroup``.
        cgroup_root: Where control groups are mounted, version 1, version 2 or both.
    """
    groups = []
    for controllers, path in parse_memberships(memberships):
        if not controllers:
            # Beside version 1 hierarchies version 2 is mounted one folder down.
            version, roots = 2, [cgroup_root / "unified", cgroup_root]
        elif controller in controllers.split(","):
            # The mount is named after the controllers it carries; the single name is often a link to it.
            version, roots = 1, [cgroup_root / controllers, cgroup_root / controller]
        else:
            continue
        root = next((root for root in roots if os.path.isdir(root)), None)
        if root is not None:
            groups += [ControlGroup(version, name, folder) for name, folder in visible_levels(root, path)]
    return groups


def parse_memberships(text: str) -> list[tuple[str, str]]:
    """Return ``(controllers, path)`` for every line of ``/proc/self/cgroup``.

    ``controllers`` is empty for version 2. Lines not of the form ``id:controllers:path`` are left out.
    """
    fields = (line.split(":", 2) for line in text.splitlines())
    return [(field[1], field[2]) for field in fields if len(field) == 3]


def visible_levels(root: Path, path: str) -> list[tuple[str, Path]]:
    """Return path and folder of a group and of its ancestors, as far as they can be seen below ``root``.

    Without a cgroup namespace a container's ``/proc`` names the path as the host sees it, while its mount
    shows the container's own group as the root. So leading parts are dropped until the rest exists; the
    dropped ones lead to the group that is mounted as the root. A path that leads upwards names a group
    outside of the namespace, which cannot be seen at all; what the mount shows is the nearest known.
    """
    parts = PurePosixPath("/", path).parts[1:]
    if ".." in parts:
        return [("/", root)]
    for start in range(len(parts)):
        group = root.joinpath(*parts[start:])
        if os.path.isdir(group):  # Path.is_dir raises where a folder on the way may not be entered
            folders = [group, *group.parents[: len(parts) - start]]
            return [(_join(parts[: len(parts) - up]), folder) for up, folder in enumerate(folders)]
    return [(_join(parts), root)]


def _join(parts: tuple[str, ...]) -> str:
    return "/" + "/".join(parts)
