"""The loader's ``transform``: which part of a sample is changed by what, on each of the ways a batch is made.

A chain that is compiled whole reads rows of arrays and writes into the batch, one call per batch; else it writes
each sample into its slot. Only what is collated by a user's own function is transformed into arrays of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nogil_loader.collate.kinds import kind_of
from nogil_loader.collate.places import change_places, known_places
from nogil_loader.collate.roster import child_path, place
from nogil_loader.data.arrays import gather_batch
from nogil_loader.data.protocols import Table
from nogil_loader.engine.compiling import compile_kernel, compile_off_the_clock
from nogil_loader.engine.scope import SampleScope
from nogil_loader.engine.transformed import TicketLeaves, check_value, like, refusal
from nogil_loader.errors import describe
from nogil_loader.memory.buffers import allocate
from nogil_loader.transforms.chain import Chain, Misfit, draw_for
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.labels import WrongLabel
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.several import BatchTransform, JointTransform
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Transform

logger = logging.getLogger("nogil_loader")


# Functions of which it was said, once in a process, that they hold the GIL.
_told: set[str] = set()


class Augmentation:
    """What is done to samples between the dataset and the batch.

    Args:
        transform: A transform for samples that are arrays, or a mapping: key of a sample → transform, tuple of
            keys → joint or batch transform.

    Raises:
        TypeError: It is something else.
        ValueError: A transform cannot work on so many keys.
    """

    def __init__(self, transform: Any) -> None:
        self._chains: dict[str, Chain] = {}
        self._parts: dict[str, int] = {}
        self._joint: list[tuple[tuple[str, ...], JointTransform]] = []
        self._mixing: list[tuple[tuple[str, ...], BatchTransform]] = []
        self._entries = 0
        if isinstance(transform, Mapping):
            if not transform:
                raise ValueError("transform={}: expected at least one key; leave it out for no transform")
            for key, each in transform.items():
                self._add(key, each)
        else:
            self._add(None, transform)

    def _add(self, key: Any, transform: Any) -> None:
        name = "transform" if key is None else f"transform[{key!r}]"
        part, self._entries = self._entries, self._entries + 1
        keys: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        paths = tuple("" if each is None else child_path("", each) for each in keys)
        if isinstance(transform, JointTransform | BatchTransform):
            if key is None:
                raise TypeError(
                    f"{name}={describe(transform, 200)}: it works on several parts; say which: "
                    f"transform={{('image', 'mask'): …}}"
                )
            transform.check_keys(len(keys))
            if isinstance(transform, JointTransform):
                self._check_free(name, paths)
                self._joint.append((paths, transform))
            else:
                self._mixing.append((paths, transform))
            return
        if isinstance(transform, type) and issubclass(transform, Transform):
            raise TypeError(f"{name}={transform.__name__}: call it first, with its options or none")
        if not isinstance(transform, Transform):
            raise TypeError(
                f"{name}={describe(transform, 200)}: expected a transform of nogil_loader.transforms; a plain "
                f"function goes into Compose([…])"
            )
        if isinstance(key, tuple):
            raise TypeError(
                f"{name}: {type(transform).__name__} changes one array; for several in step use Joint([…])"
            )
        self._check_free(name, paths)
        self._chains[paths[0]] = Chain(transform)
        self._parts[paths[0]] = part

    def _check_free(self, name: str, paths: tuple[str, ...]) -> None:
        """Refuse a second transform for a part of a sample: nobody could say which comes first."""
        taken = {*self._chains, *(path for others, _ in self._joint for path in others)}
        twice = [path for at, path in enumerate(paths) if path in taken or path in paths[:at]]
        if twice:
            raise ValueError(
                f"{name}: {twice[0]!r} is transformed twice; put all that is done to it into one Compose or Joint"
            )

    @property
    def mixes_batches(self) -> bool:
        """Whether what a sample becomes depends on the others in its batch."""
        return bool(self._mixing)

    # Before the first batch

    def check(self, table: Table | None) -> None:
        """Refuse a transform that does not fit the arrays of a dataset.

        Raises:
            ValueError: It does not; the message names the transform and the key.
        """
        if table is None:
            return
        specs = _specs_of(table)
        several = [path for paths, _ in (*self._joint, *self._mixing) for path in paths]
        for path in (*self._chains, *several):
            if path not in specs:
                raise ValueError(_no_such_part(path, list(specs)))
        list(self._kernels(specs))

    def prepare(self, table: Table | None) -> None:
        """Compile what can be known beforehand, in the calling thread, and say what holds the GIL."""
        names = [_name_of(function) for chain in self._chains.values() for function in chain.functions]
        if new := [name for name in names if name not in _told]:
            _told.update(new)
            logger.warning("part of the transform is plain Python, which holds the GIL: %s", ", ".join(new))
        for chain in self._chains.values():
            chain.refresh()
        for _, mixing in self._mixing:
            mixing.prepare()
        if table is not None:
            for program, fit in self._kernels(_specs_of(table)):
                compile_kernel(program, fit)

    def _kernels(self, specs: Mapping[str, Spec]) -> Iterator[tuple[Program, Fit]]:
        """Iterate over what samples whose parts have these specs need."""
        wanted: list[tuple[tuple[str, ...], Iterator[tuple[Program, Fit]]]] = [
            ((path,), chain.fits(specs[path])) for path, chain in self._chains.items()
        ]
        wanted += [(paths, joint.fits([specs[path] for path in paths])) for paths, joint in self._joint]
        for paths, fits in wanted:
            try:
                yield from fits
            except Misfit as misfit:
                raise ValueError(f"transform {', '.join(map(place, paths))}: {misfit}") from misfit

    # Whole batches

    def can_take(self, table: Table | None) -> bool:
        """Whether a batch can be made of a dataset's arrays in one go."""
        return table is not None and not self._joint and all(chain.program for chain in self._chains.values())

    def take(self, table: Table, keys: Sequence[Any], scope: SampleScope) -> Any:
        """Return the batch of the samples with these keys."""
        positions = table.locate(keys)
        parts = []
        for name, array in table.columns.items():
            chain = self._chains.get(_path(name))
            if chain is None:
                parts.append(gather_batch(array, positions))
                continue
            program = chain.program
            assert program is not None
            fit = program.fit(_row_spec(array))
            batch = allocate((len(positions), *fit.target.shape), fit.target.dtype)
            draw = draw_for(scope.seed, scope.epoch, keys, self._parts[_path(name)])
            program.run(fit, array, positions, draw, batch)
            parts.append(batch)
        return table.assemble(parts)

    def mix(self, batch: Any, keys: Sequence[Any], scope: SampleScope, *, fresh: bool) -> Any:
        """Return the batch after the transforms of whole batches.

        Args:
            batch: The batch.
            keys: The samples in it.
            scope: Seed and epoch.
            fresh: Its arrays belong to nobody else. Those of a user's own collate function may be anyone's.
        """
        for paths, transform in self._mixing:
            draw = draw_for(scope.seed, scope.epoch, keys)
            try:
                batch = _change_together(batch, paths, partial(_mixed, transform, draw, fresh))
            except WrongLabel as wrong:
                key = keys[wrong.position]
                raise refusal(Misfit(str(wrong)), ", ".join(paths), key) from wrong
            fresh = True
        return batch

    # Single samples

    def begin(self, scope: SampleScope) -> TicketLeaves:
        """Return what makes the slots of a batch in which samples are transformed one by one."""
        return TicketLeaves(self._chains, self._parts, scope)

    def join(self, sample: Any, key: Hashable, scope: SampleScope) -> Any:
        """Return a sample after the transforms of several parts."""
        for paths, transform in self._joint:
            draw = draw_for(scope.seed, scope.epoch, (key,))
            try:
                change = partial(
                    transform.transform_parts, draw=draw, compile_first=compile_off_the_clock(scope)
                )
                sample = _change_together(sample, paths, change)
            except Misfit as misfit:
                raise refusal(misfit, ", ".join(paths), key) from misfit
        return sample

    def sample(self, sample: Any, key: Hashable, scope: SampleScope) -> Any:
        """Return a sample after all transforms of samples, in memory of its own where it was changed."""
        sample = self.join(sample, key, scope)
        if not self._chains:
            return sample

        def change(path: str, chain: Chain) -> Callable[[Any], Any]:
            def changed(value: Any) -> Any:
                check_value(value, path, key)
                draw = draw_for(scope.seed, scope.epoch, (key,), self._parts[path])
                try:
                    made = chain.transform_one(value, draw, None, compile_off_the_clock(scope))
                except Misfit as misfit:
                    raise refusal(misfit, path, key) from misfit
                return like(value, made)

            return changed

        changes = {path: change(path, chain) for path, chain in self._chains.items()}
        try:
            return change_places(sample, changes)
        except KeyError as missing:
            raise ValueError(_no_such_part(missing.args[0], known_places(sample))) from None


def _change_together(
    tree: Any, paths: tuple[str, ...], change: Callable[[Sequence[Any]], Sequence[Any]]
) -> Any:
    """Replace the values at several paths by what ``change`` makes of all of them."""
    values: dict[str, Any] = {}

    def keep(path: str) -> Callable[[Any], Any]:
        return lambda value: values.setdefault(path, value)

    try:
        change_places(tree, {path: keep(path) for path in paths})
    except KeyError as missing:
        raise ValueError(_no_such_part(missing.args[0], known_places(tree))) from None
    arrays = [
        np.asarray(values[path]) if kind_of(values[path]) == "tensor" else values[path] for path in paths
    ]
    made = dict(zip(paths, change(arrays), strict=True))
    return change_places(tree, {path: partial(_made_like, made[path]) for path in paths})


def _mixed(transform: BatchTransform, draw: Draw, fresh: bool, parts: Sequence[Any]) -> Sequence[Any]:
    return transform.transform_batch(parts if fresh else [np.array(part) for part in parts], draw)


def _made_like(made: Any, value: Any) -> Any:
    return like(value, made)


def _name_of(function: Callable[[Any], Any]) -> str:
    """Return what tells a function from others: its name and where it stands."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or describe(function, 100)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _no_such_part(path: str, known: list[str]) -> str:
    if not path:
        there = ", ".join(map(repr, known))
        return f"transform: a sample has several parts; say which one is meant: transform={{key: …}} with {there}"
    there = ", ".join(map(repr, known)) or "no parts: it is a single value"
    return f"transform: samples have no part {path!r}; there are: {there}"


def _path(name: Hashable | None) -> str:
    return "" if name is None else child_path("", name)


def _specs_of(table: Table) -> dict[str, Spec]:
    return {_path(name): _row_spec(array) for name, array in table.columns.items()}


def _row_spec(array: Any) -> Spec:
    spec = Spec.of(array)
    return Spec(spec.shape[1:], spec.dtype)
