"""Writes the source of the kernel that does what a chain of steps says, for a whole batch.

The source is meant to be read: a section for each part of the chain, with the transforms' own words as comments.
Sizes, probabilities and other constants are arguments, so that the text depends only on the kinds of steps, on
dtypes, layouts and the number of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nogil_loader.kernels.compiler.jit import borrowed
from nogil_loader.kernels.images import pixels
from nogil_loader.kernels.philox import fill_uniforms
from nogil_loader.transforms.numbers import Offsets, walk
from nogil_loader.transforms.passes import Fork, Part, Pass, Whole, plan_buffers
from nogil_loader.transforms.step import Node
from nogil_loader.transforms.sweep import Sweep
from nogil_loader.transforms.text import Text, word

#: The kernel's name in its module.
KERNEL = "augment"
#: What the kernel takes. The buffers between the parts follow, and at last the output.
ARGUMENTS = {
    "source": "(N, …), the arrays of the dataset",
    "indices": "int64 (B,), which of them to take",
    "keys": "uint64 (B,), what stands for the samples in the random numbers",
    "epoch_key": "uint64, what stands for seed and epoch",
    "numbers": "float64, the constants of all steps",
    "sizes": "int64 (steps, 6): the first two lengths of what comes in, of what goes out, most taps of a resize",
    "uniforms": "float64, scratch",
    "drawn": "float64 (steps, parameters), what was drawn for the sample",
    "rng": "uint64 (4,), scratch",
    "tables": "int64 (9, longest side), scratch",
    "box": "float64 (6,), scratch",
    "row_pixels": "float32, scratch",
    "wide_row_pixels": "float64, scratch",
    "work": "float32, scratch",
    "wide_work": "float64, scratch",
    "marks": "int64, scratch",
}


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
        self._buffers = 0
        self._text = text = Text(offsets, first_position)
        arrays = [name for name in ARGUMENTS if name != "epoch_key"]
        arrays += [*(f"buffer_{at}" for at in range(len(plan_buffers(parts)))), "out"]
        text.add(*(f"{name} = {text.call(borrowed, name)}" for name in arrays))
        with text.block("for sample in range(len(indices)):"):
            text.add("key = keys[sample]", "given = source[indices[sample]]")
            for node in walk(nodes):
                self._draw(node)
            self._write_parts(parts)
        arguments = [*ARGUMENTS, *(f"buffer_{at}" for at in range(self._buffers)), "out"]
        head = [f"def {KERNEL}({', '.join(arguments)}):", f'    """{title}"""']
        self.names: dict[str, Any] = text.names
        self.text = "\n".join([*head, *text.lines, ""])

    def _draw(self, node: Node) -> None:
        if node.draw is None:
            return
        text = self._text
        uniforms, size = f"uniforms[:{node.uniforms}]", f"sizes[{node.position}]"
        numbers, drawn = text.parameters(node)
        text.add(f"# {word(node)}")
        if node.uniforms:
            text.add(text.call(fill_uniforms, "epoch_key", "key", str(text.position(node)), uniforms))
        text.add(text.call(node.draw, uniforms, numbers, size, drawn))

    def _write_parts(self, parts: Sequence[Part]) -> None:
        # Takes buffers in the order of `plan_buffers`.
        text = self._text
        here, there = "given", ""
        for at, part in enumerate(parts):
            if isinstance(part, Fork):
                if not there:
                    given = here
                    here, there = self._pair(at)
                    text.add(text.call(pixels.copy_array, given, here))
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
            text.add(text.call(pixels.copy_array, here, "out[sample]"))

    def _buffer(self) -> str:
        self._buffers += 1
        return f"buffer_{self._buffers - 1}"

    def _pair(self, at: int) -> tuple[str, str]:
        """Return the names of two buffers that choices exchange."""
        here, there = f"here_{at}", f"there_{at}"
        self._text.add(f"{here}, {there} = {self._buffer()}, {self._buffer()}")
        return here, there

    def _fork(self, part: Fork, here: str, there: str) -> None:
        text, choice = self._text, part.choice
        branch_name = f"branch_{choice.position}"
        text.add(f"# {word(choice)}")
        with text.block(f"for turn in range({choice.turns}):"):
            text.add(f"{branch_name} = int(drawn[{choice.position}, turn])")
            for at, branch in enumerate(part.branches):
                with text.block(f"{'el' if at else ''}if {branch_name} == {at}:"):
                    if not branch:
                        text.add("pass")
                    for each in branch:
                        if isinstance(each, Fork):
                            self._fork(each, here, there)
                        else:
                            self._part(each, here, there)
                            text.add(f"{here}, {there} = {there}, {here}")

    def _part(self, part: Pass | Whole, here: str, target: str) -> None:
        text = self._text
        if isinstance(part, Pass):
            Sweep(text, part).write(here, target)
            return
        step = part.step
        text.add(f"# {word(step)}")
        text.seed(step)
        numbers, drawn = text.parameters(step)
        given = {"source": here, "target": target, "numbers": numbers, "drawn": drawn}
        given |= {"rng": "rng", "work": "work", "marks": "marks"}
        if step.arguments:
            # What a user's function leaves out is 0, and not what was in memory before.
            text.add(text.call(pixels.clear, target))
        names = step.arguments or tuple(given)
        text.add(text.call(step.function, *(given[name] for name in names)))
