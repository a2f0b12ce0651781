"""The loader's arguments that are checked or resolved on their own, one function each."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nogil_loader.checks import as_count
from nogil_loader.collate import DefaultCollate
from nogil_loader.collate.output import pin, require_torch, to_numpy, to_torch
from nogil_loader.data.protocols import Table, batched_fetch, is_map_style
from nogil_loader.engine.autotune import Autotune
from nogil_loader.engine.cpus import available_cpus
from nogil_loader.engine.provisions import Provisions
from nogil_loader.engine.source import PlanningSource, TicketSource
from nogil_loader.engine.tuner import Tuner
from nogil_loader.engine.tuning import Setting, most_workers
from nogil_loader.errors import describe
from nogil_loader.notices import warn
from nogil_loader.policies import MemoryPolicy

if TYPE_CHECKING:
    from nogil_loader.engine.augment import Augmentation

MAX_SEED = 2**64 - 1
# As in torch.
_PREFETCH = 2


def resolve_workers(value: Any) -> int:
    """Return the number of workers; ``"auto"`` is the number of CPUs that the process may use.

    Raises:
        TypeError: Neither an integer nor ``"auto"``.
        ValueError: Negative, or another string.
    """
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"num_workers={value!r}: expected an integer ≥ 0 or 'auto'")
        return available_cpus()
    try:
        return as_count("num_workers", value, least=0, most=MAX_WORKERS)
    except TypeError as error:
        raise TypeError(f"{error} (or 'auto')") from None


def resolve_prefetch(value: Any) -> int:
    """Return the number of batches loaded ahead per worker, for ``"auto"`` to begin with.

    Raises:
        TypeError: Neither an integer nor ``"auto"`` nor None.
        ValueError: Less than 1, or another string.
    """
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"prefetch_factor={value!r}: expected an integer ≥ 1 or 'auto'")
    if value is None or isinstance(value, str):
        return _PREFETCH
    try:
        return as_count("prefetch_factor", value, least=1)
    except TypeError as error:
        raise TypeError(f"{error} (or 'auto')") from None


def resolve_autotune(
    num_workers: Any, prefetch_factor: Any, setting: Setting, *, starts_up: bool
) -> Autotune | None:
    """Return what changes the setting while epochs are loaded; None where nothing was left to it.

    Args:
        num_workers: The argument.
        prefetch_factor: The argument.
        setting: To begin with.
        starts_up: Whether workers run code of the caller's first, which may be costly, or count on their number.
    """
    tunes_workers = isinstance(num_workers, str) and not starts_up
    tunes_prefetch = isinstance(prefetch_factor, str)
    if not setting.num_workers or not (tunes_workers or tunes_prefetch):
        return None
    most = most_workers(setting.num_workers) if tunes_workers else setting.num_workers
    tuner = Tuner(
        start=setting.num_workers,
        most=most,
        prefetch=setting.prefetch_factor,
        tunes_workers=tunes_workers,
        tunes_prefetch=tunes_prefetch,
    )
    return Autotune(tuner, most)


def resolve_seed(seed: Any, generator: Any) -> tuple[int, bool]:
    """Return the seed and whether the caller chose it.

    Args:
        seed: 0 to 2**64 - 1, or None.
        generator: As in torch: a ``torch.Generator``, whose initial seed is taken, or a numpy ``Generator``,
            from which one number is drawn.

    Raises:
        TypeError: A wrong type.
        ValueError: Out of range, or both are given.
    """
    if generator is not None and seed is not None:
        raise ValueError(f"seed={seed!r} and generator={describe(generator, 100)}: give only one of them")
    if seed is not None:
        return as_count("seed", seed, least=0, most=MAX_SEED), True
    if generator is None:
        return secrets.randbits(64), False
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(MAX_SEED, dtype=np.uint64, endpoint=True)), True
    if hasattr(generator, "initial_seed"):
        return int(generator.initial_seed()) & MAX_SEED, True
    raise TypeError(
        f"generator={describe(generator, 100)}: expected a torch.Generator or a numpy.random.Generator, not "
        f"{type(generator).__name__}"
    )


# More threads than any machine has a use for: what is above is a typing error that would take minutes to start.
MAX_WORKERS = 4096


def check_callable(name: str, value: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: ``value`` is neither None nor callable, or is a collation that was not made yet.
    """
    if isinstance(value, type) and issubclass(value, DefaultCollate):
        raise TypeError(
            f"{name}={value.__name__}: call it first, with its options or none: {value.__name__}()"
        )
    if value is not None and not callable(value):
        raise TypeError(f"{name}={describe(value, 100)}: expected a callable, not {type(value).__name__}")


def check_clone(value: Any) -> None:
    """Refuse a ``clone_dataset`` that is neither a bool nor callable.

    Raises:
        TypeError: As above.
    """
    if not isinstance(value, bool) and not callable(value):
        raise TypeError(
            f"clone_dataset={describe(value, 100)}: expected True, False or a callable from worker id to a dataset"
        )


def check_choice(name: str, value: Any, allowed: tuple[str, ...], later: tuple[str, ...] = ()) -> None:
    """Refuse a string that is none of those allowed.

    Raises:
        NotImplementedError: One that a later release will have.
        ValueError: Anything else.
    """
    if value in later:
        raise NotImplementedError(f"{name}={value!r} is not available yet; use {_either(allowed)}")
    if value not in allowed:
        raise ValueError(f"{name}={describe(value, 100)}: expected {_either(allowed)}")


def refuse_for_now(name: str, value: Any, default: tuple[Any, ...]) -> None:
    """Refuse what a later release will have.

    Raises:
        NotImplementedError: ``value`` is none of the defaults.
    """
    if not any(value is known or (isinstance(value, str) and value == known) for known in default):
        shown = _either(tuple(map(str, default)))
        raise NotImplementedError(f"{name}={describe(value, 100)} is not available yet; leave it at {shown}")


def warn_meaningless(multiprocessing_context: Any, pin_memory_device: Any) -> None:
    """Say once that arguments which steer processes or devices do nothing here."""
    for name, value in (
        ("multiprocessing_context", multiprocessing_context),
        ("pin_memory_device", pin_memory_device),
    ):
        if value:
            warn(f"{name}={describe(value, 100)} has no meaning with worker threads and is ignored")


def resolve_output(output: str, collate_fn: Any, *, pin_memory: bool) -> Callable[[Any], Any] | None:
    """Return what is applied to each finished batch, None for nothing.

    A user's own ``collate_fn`` decides itself what a batch is made of; its result is only pinned.

    Raises:
        ImportError: ``output="torch"`` and torch is not installed.
    """
    steps: list[Callable[[Any], Any]] = []
    ours = collate_fn is None or type(collate_fn).__module__.startswith("nogil_loader.")
    if output == "torch":
        require_torch()
        if ours:
            steps.append(to_torch)
    elif output == "numpy" and ours:
        steps.append(to_numpy)
    if pin_memory and output != "numpy":
        torch = require_torch("pin_memory=True")
        if torch.cuda.is_available():
            steps.append(pin)
        else:
            warn("pin_memory=True: there is no accelerator, so batches are not pinned")
    if len(steps) < 2:
        return steps[0] if steps else None
    return lambda batch: steps[1](steps[0](batch))


def resolve_collate(collate_fn: Any, *, single: bool) -> Callable[[Any], Any] | None:
    """Return the collation: the caller's, the default one, or None for samples that are handed through."""
    if collate_fn is not None or single:
        return collate_fn  # type: ignore[no-any-return]
    return DefaultCollate()


def resolve_transform(transform: Any, dataset: Any) -> Augmentation | None:
    """Return what changes samples, None for nothing.

    Raises:
        TypeError: It is no transform.
        ValueError: It does not fit the arrays of the dataset.
    """
    if transform is None:
        return None
    from nogil_loader.engine.augment import Augmentation

    augment = Augmentation(transform)
    augment.check(table_of(dataset))
    return augment


def table_of(dataset: Any) -> Table | None:
    """Return the arrays of which a dataset's samples are rows; None if they come from elsewhere."""
    if not is_map_style(dataset) or batched_fetch(dataset, "take") is None:
        return None
    table: Table | None = dataset.table
    return table


def resolve_memory(
    policy: MemoryPolicy | None,
    source: TicketSource,
    collate: Callable[[Any], Any] | None,
    augment: Augmentation | None,
) -> Provisions | None:
    """Return what is asked for memory, None for ``memory="off"``.

    Raises:
        ValueError: Batches may become smaller, and a transform mixes the samples of a batch.
    """
    if policy is None:
        return None
    if augment is not None and augment.mixes_batches:
        if policy.fixed_batch_size is False:
            raise ValueError(
                "fixed_batch_size=False and a transform of whole batches: what a sample becomes would depend on "
                "how much memory there is; leave fixed_batch_size out"
            )
        policy = replace(policy, fixed_batch_size=True)
    if not isinstance(source, PlanningSource):
        return Provisions(policy, copies=2, rereadable=False)
    # A list is a batch of the samples themselves, and plain stacking writes each one into its place, unless all of
    # them come at once. The others have all samples before they make a batch.
    stacks = type(collate) is DefaultCollate and not collate.per_key
    at_once = batched_fetch(source.dataset, "take") is None and batched_fetch(source.dataset) is not None
    in_place = source.single or collate is list or (stacks and not at_once)
    return Provisions(policy, copies=1 if in_place else 2, rereadable=True)


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(repr(choice) for choice in choices)
