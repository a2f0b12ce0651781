"""Writes the source of the kernel that does what a chain of steps says, for a whole batch.

The source is meant to be read: a section for each part of the chain, with the transforms' own words as comments.
Sizes, probabilities and other constants are arguments, so that the text depends only on the kinds of steps, on
dtypes, layouts and the number of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np

from nogil_loader.kernels import pixels
from nogil_loader.kernels.philox import fill_uniforms
from nogil_loader.transforms.numbers import Offsets, steps, walk
from nogil_loader.transforms.passes import Fork, Part, Pass, Whole
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Node, Step

#: The kernel's name in its module.
KERNEL = "augment"
#: What the kernel takes. The buffers between the parts follow, and at last the output.
ARGUMENTS = {
    "source": "(N, …), the arrays of the dataset",
    "indices": "int64 (B,), which of them to take",
    "keys": "uint64 (B,), what stands for the samples in the random numbers",
    "epoch_key": "uint64, what stands for seed and epoch",
    "numbers": "float64, the constants of all steps",
    "sizes": "int64 (steps, 4), the first two lengths of what comes into a step, and of what goes out",
    "uniforms": "float64, scratch",
    "drawn": "float64 (steps, parameters), what was drawn for the sample",
    "rng": "uint64 (4,), scratch",
    "tables": "int64 (6, longest side), scratch",
    "row_pixels": "float32, scratch",
    "wide_row_pixels": "float64, scratch",
    "work": "float32, scratch",
    "marks": "int64, scratch",
}
_LOAD = {1: pixels.load_1, 3: pixels.load_3, 4: pixels.load_4}
_STORE = {1: pixels.store_1, 3: pixels.store_3, 4: pixels.store_4}


class Writer:
    """Writes one kernel.

    Args:
        nodes: The steps.
        parts: The same, grouped.
        offsets: Where the constants of each step are.
        title: What the kernel does, for its docstring.
        first_position: Is added to the steps' positions where random numbers are drawn.

    Attributes:
        names: The global names of the text.
        text: The source.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        parts: Sequence[Part],
        offsets: Offsets,
        title: str,
        first_position: int = 0,
    ) -> None:
        self.names: dict[str, Any] = {}
        self._buffers = 0
        self._lines: list[str] = []
        self._depth = 1
        self._offsets = offsets
        self._first = first_position
        with self._block("for sample in range(len(indices)):"):
            self._add("key = keys[sample]", "given = source[indices[sample]]")
            for node in nodes:
                self._draw(node)
            self._write_parts(parts)
        arguments = [*ARGUMENTS, *(f"buffer_{at}" for at in range(self._buffers)), "out"]
        self.text = "\n".join(
            [
                f"def {KERNEL}({', '.join(arguments)}):",
                f'    """{title}"""',
                *self._lines,
                "",
            ]
        )

    # Text

    def _add(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _call(self, function: Callable[..., Any] | None, *arguments: str) -> str:
        assert function is not None
        name = getattr(function, "__name__", "function")
        known = name = name if name.isidentifier() else "function"
        number = 2
        while self.names.setdefault(known, function) is not function:
            known, number = f"{name}_{number}", number + 1
        return f"{known}({', '.join(arguments)})"

    def _buffer(self) -> str:
        self._buffers += 1
        return f"buffer_{self._buffers - 1}"

    def _numbers(self, position: int) -> str:
        start, end = self._offsets.starts[position]
        return f"numbers[{start}:{end}]"

    def _parameters(self, node: Node) -> tuple[str, str]:
        return self._numbers(node.position), f"drawn[{node.position}]"

    # Random parameters

    def _draw(self, node: Node) -> None:
        if node.draw is not None:
            self._add(f"# {_word(node)}")
            uniforms = f"uniforms[:{node.uniforms}]"
            if node.uniforms:
                self._add(
                    self._call(fill_uniforms, "epoch_key", "key", f"{self._first + node.position}", uniforms)
                )
            size = f"sizes[{node.position}]"
            self._add(
                self._call(node.draw, uniforms, self._numbers(node.position), size, f"drawn[{node.position}]")
            )
        if isinstance(node, Choice):
            for branch in node.branches:
                for each in branch:
                    self._draw(each)

    # Parts

    def _write_parts(self, parts: Sequence[Part]) -> None:
        # Takes buffers in the order of `plan_buffers`.
        here, there = "given", ""
        for at, part in enumerate(parts):
            if isinstance(part, Fork):
                if not there:
                    given = here
                    here, there = self._pair(at)
                    self._add(self._call(pixels.copy_array, given, here))
                self._fork(part, here, there)
                continue
            if at == len(parts) - 1:
                target, there = "out[sample]", ""
            elif isinstance(parts[at + 1], Fork):
                target, there = self._pair(at)
            else:
                target, there = self._buffer(), ""
            self._part(part, here, target)
            here = target
        if here != "out[sample]":
            self._add(self._call(pixels.copy_array, here, "out[sample]"))

    def _pair(self, at: int) -> tuple[str, str]:
        """Return the names of two buffers that choices exchange."""
        here, there = f"here_{at}", f"there_{at}"
        self._add(f"{here}, {there} = {self._buffer()}, {self._buffer()}")
        return here, there

    def _fork(self, part: Fork, here: str, there: str) -> None:
        choice = part.choice
        self._add(f"# {_word(choice)}")
        with self._block(f"for turn in range({choice.turns}):"):
            self._add(f"branch = int(drawn[{choice.position}, turn])")
            for at, branch in enumerate(part.branches):
                with self._block(f"{'el' if at else ''}if branch == {at}:"):
                    if not branch:
                        self._add("pass")
                    for each in branch:
                        if isinstance(each, Fork):
                            self._fork(each, here, there)
                        else:
                            self._part(each, here, there)
                            self._add(f"{here}, {there} = {there}, {here}")

    def _part(self, part: Pass | Whole, here: str, target: str) -> None:
        if isinstance(part, Whole):
            step = part.step
            self._add(f"# {_word(step)}")
            self._seed(step)
            numbers, drawn = self._parameters(step)
            given = {"source": here, "target": target, "numbers": numbers, "drawn": drawn}
            given |= {"rng": "rng", "work": "work", "marks": "marks"}
            names = step.arguments or tuple(given)
            self._add(self._call(step.function, *(given[name] for name in names)))
        else:
            self._pass(part, here, target)

    def _seed(self, step: Step) -> None:
        self._add(f"rng[0], rng[1], rng[2], rng[3] = epoch_key, key, {self._first + step.position}, 0")

    # A pass

    def _pass(self, part: Pass, here: str, target: str) -> None:
        told = ", ".join(map(_word, (*part.geometry, *part.points)))
        self._add(f"# One sweep: {told}" if told else "# One sweep: copy pixels")
        self._add(f"image, target = {here}, {target}")
        size = [f"image.shape[{part.source.layout.index(axis)}]" for axis in "HW"]
        start, end = self._offsets.fills[id(part)]
        self._add(f"fill = numbers[{start}:{end}]")
        self._geometry(part, *size)
        # What does not change from row to row is looked up before: a slice costs as much as some dozen pixels.
        channels = part.source.channels
        buffer = "row_pixels" if part.source.work.itemsize == 4 else "wide_row_pixels"
        widths = {channels, *(step.target.channels for step in steps(part.points))}
        for count in sorted(widths):
            self._add(f"row_{count} = {buffer}[: {count} * len(cols)].reshape(({count}, len(cols)))")
        self._add(f"spare = {buffer}[len({buffer}) // 2 :]")
        for node in walk(part.points):
            if isinstance(node, Step) and not node.arguments:
                numbers, drawn = self._parameters(node)
                self._add(f"numbers_{node.position}, drawn_{node.position} = {numbers}, {drawn}")
        with self._block("for y in range(len(rows)):"):
            self._add(f"row = row_{channels}")
            self._load(part, channels)
            *points, last = part.points or (None,)
            for each in points:
                self._point(each)
            if _is_stored_scaled(last, part.target):
                scaled = ("row", "target", "y", f"numbers_{last.position}")
                self._add(self._call(pixels.store_planes_scaled, *scaled))
            else:
                if last is not None:
                    self._point(last)
                self._store(part.target)

    def _geometry(self, part: Pass, height: str, width: str) -> None:
        if not part.geometry:
            self._add(f"rows, cols, turned = tables[0][:{height}], tables[1][:{width}], 0")
            self._add(self._call(pixels.count_up, "rows"), self._call(pixels.count_up, "cols"))
        for at, step in enumerate(part.geometry):
            self._index(step, at)
        self._add(f"run = {self._call(pixels.run_of, 'cols')}")

    def _index(self, step: Step, at: int) -> None:
        out = [f"sizes[{step.position}, {axis}]" for axis in (2, 3)]
        arguments = (*self._parameters(step), f"sizes[{step.position}]")
        if at == 0:
            self._add(f"rows, cols = tables[0][:{out[0]}], tables[1][:{out[1]}]")
            self._add(f"turned = {self._call(step.function, *arguments, 'rows', 'cols')}")
            return
        new = 4 if at % 2 else 0
        self._add(f"step_rows, step_cols = tables[2][:{out[0]}], tables[3][:{out[1]}]")
        self._add(f"step_turned = {self._call(step.function, *arguments, 'step_rows', 'step_cols')}")
        self._add(f"new_rows, new_cols = tables[{new}][:{out[0]}], tables[{new + 1}][:{out[1]}]")
        self._add(
            self._call(
                pixels.follow, "rows", "cols", "step_turned", "step_rows", "step_cols", "new_rows", "new_cols"
            ),
            "rows, cols, turned = new_rows, new_cols, turned ^ step_turned",
        )

    def _load(self, part: Pass, channels: int) -> None:
        with self._block("if rows[y] < 0:"):
            self._add(self._call(pixels.fill_row, "row", "fill"))
        planar = part.source.layout == "CHW"
        with self._block("elif turned:"):
            image = (
                "image" if "C" in part.source.layout else "image.reshape((image.shape[0], image.shape[1], 1))"
            )
            load_column = pixels.load_plane_columns if planar else pixels.load_column
            self._add(self._call(load_column, image, "rows[y]", "cols", "fill", "row"))
        with self._block("else:"):
            if planar:
                self._add(self._call(pixels.load_planes, "image", "rows[y]", "cols", "run", "fill", "row"))
            else:
                load = _LOAD.get(channels, pixels.load_many)
                self._add(
                    self._call(load, "image[rows[y]].reshape(-1)", "cols", "run", "fill", "spare", "row")
                )

    def _point(self, node: Step | Choice) -> None:
        if isinstance(node, Step):
            before, after = node.source.channels, node.target.channels
            if after > before:
                self._add(f"row = row_{after}")
            self._seed(node)
            if node.arguments:
                self._values(node)
            else:
                given = ("row", "y", f"numbers_{node.position}", f"drawn_{node.position}", "rng")
                self._add(self._call(node.function, *given))
            if after < before:
                self._add(f"row = row_{after}")
            limits = node.target.limits()
            if limits is not None and not node.exact:
                self._add(self._call(pixels.saturate, "row", *map(repr, limits)))
            return
        with self._block(f"for turn in range({node.turns}):"):
            name = f"branch_{node.position}"
            self._add(f"{name} = int(drawn[{node.position}, turn])")
            for at, branch in enumerate(node.branches):
                with self._block(f"{'el' if at else ''}if {name} == {at}:"):
                    if not branch:
                        self._add("pass")
                    for each in branch:
                        self._point(each)

    def _values(self, step: Step) -> None:
        """Call a user's function for each value, or for each pixel."""
        # In float64, as in plain Python, where a number has no other precision.
        if len(step.arguments) == 1:
            with self._block(f"for channel in range({step.source.channels}):"):
                self._add("plane = row[channel]")
                with self._block("for x in range(len(plane)):"):
                    self._add(f"plane[x] = {self._call(step.function, 'float64(plane[x])')}")
        else:
            planes = [f"plane_{channel}" for channel in range(step.source.channels)]
            self._add(*(f"{plane} = row[{channel}]" for channel, plane in enumerate(planes)))
            with self._block("for x in range(len(cols)):"):
                values = self._call(step.function, *(f"float64({plane}[x])" for plane in planes))
                self._add(f"{', '.join(f'{plane}[x]' for plane in planes)} = {values}")
        self.names["float64"] = np.float64

    def _store(self, target: Spec) -> None:
        if target.layout == "CHW":
            self._add(self._call(pixels.store_planes, "row", "target", "y"))
        else:
            store = _STORE.get(target.channels, pixels.store_many)
            self._add(self._call(store, "row", "target[y].reshape(-1)"))


def _is_stored_scaled(node: Step | Choice | None, target: Spec) -> TypeGuard[Step]:
    """Whether the last thing that happens to a row can be done while it is stored."""
    return isinstance(node, Step) and node.function is pixels.scale_and_shift and target.layout == "CHW"


def _word(node: Node) -> str:
    """Return how the text calls a step: without its constants, which are arguments."""
    return f"{node.position} {node.name.partition('(')[0]}"
