"""Locks across a fork: what another thread held at that moment would stay locked in the child for ever."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Locked(Protocol):
    """An object with a lock."""

    _lock: threading.Lock


_owners: weakref.WeakSet[Locked] = weakref.WeakSet()


def renew_lock_after_fork(owner: Locked) -> None:
    """Give ``owner`` a fresh ``_lock`` in every child of this process."""
    _owners.add(owner)


def _renew_locks() -> None:
    for owner in list(_owners):
        owner._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
