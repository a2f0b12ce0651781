"""Points, and boxes made of points, that move as the pixels of an image do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.kernels import motion
from nogil_loader.transforms.codegen import KERNEL, Writer
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.image.crop import place_crop
from nogil_loader.transforms.image.pad import place_window
from nogil_loader.transforms.passes import Part
from nogil_loader.transforms.program import Draw, Program
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Function, Node, Step

Array = npt.NDArray[Any]

#: How a box is written in four numbers: two corners; corner, width and height; centre, width and height.
BOX_FORMATS: Final = ("xyxy", "xywh", "cxcywh")

# Windows may show an image's border mirrored, or nothing of it, so their tables do not tell where they are.
_WINDOWS: Final[dict[Function, Function]] = {
    place_window: motion.fixed_window_motion,
    place_crop: motion.drawn_window_motion,
}
# Height and width come in, a course goes out; see `motion.begin`.
_SIZE: Final = Spec((2,), np.dtype(np.float64))
_COURSE: Final = Spec((14,), np.dtype(np.float64))
_FIRST: Final = np.zeros(1, np.int64)


class CourseProgram(Program):
    """Tells where the geometry of a fit moves the points of an image.

    Coordinates are those of pixel edges: the image spans 0 to W and 0 to H, before as after.
    """

    def fit_course(self, pixels: Fit) -> Fit:
        """Return the fit of this program, given the one for an array that nothing but geometry happens to."""
        form = ("course", *pixels.form)
        return replace(pixels, source=_SIZE, target=_COURSE, buffers=(), form=form)

    def course(self, fit: Fit, size: tuple[int, int], draw: Draw) -> Course:
        """Return the course of one image.

        Args:
            fit: Of this program.
            size: Height and width of the image.
            draw: Of the image.
        """
        course = np.empty((1, *_COURSE.shape))
        self.run(fit, np.array([size], np.float64), _FIRST, draw, course)
        return Course(course[0])

    def source(self, fit: Fit) -> Writer:
        """Return the kernel's source."""
        return _CourseWriter(fit.nodes, (), fit.offsets, "course", self.first_position)

    def _run_reference(
        self, fit: Fit, source: Array, indices: npt.NDArray[np.int64], draw: Draw, out: Array
    ) -> None:
        # The kernel's own text: it has no loops over pixels.
        writer = self.source(fit)
        names = dict(writer.names)
        exec(compile(writer.text, "<course>", "exec"), names)
        scratch = self._workspace.arrays(fit)
        names[KERNEL](source, indices, draw.words, draw.epoch_key, fit.numbers, fit.sizes, *scratch, out)


class _CourseWriter(Writer):
    """Writes a kernel that works out one course from all steps."""

    def __init__(self, nodes: Sequence[Node], *rest: Any) -> None:
        self._nodes = nodes
        super().__init__(nodes, *rest)

    def _write_parts(self, parts: Sequence[Part]) -> None:
        self._text.add("course = out[sample]", self._text.call(motion.begin, "given", "course"))
        for node in self._nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        text = self._text
        if isinstance(node, Choice):
            name = f"branch_{node.position}"
            with text.block(f"for turn in range({node.turns}):"):
                text.add(f"{name} = int(drawn[{node.position}, turn])")
                for at, branch in enumerate(node.branches):
                    with text.block(f"{'el' if at else ''}if {name} == {at}:"):
                        if not branch:
                            text.add("pass")
                        for each in branch:
                            self._follow(each)
        elif node.kind != "layout":
            size = [f"sizes[{node.position}, {axis}]" for axis in (2, 3)]
            text.add(text.call(motion.go_on, self._motion(node), *size, "course"))

    def _motion(self, step: Step) -> str:
        """Write what has to be known of a step, and return the expression of its motion."""
        text, size = self._text, f"sizes[{step.position}]"
        parameters, out = text.parameters(step), [f"{size}[2]", f"{size}[3]"]
        window = None if step.function is None else _WINDOWS.get(step.function)
        if window is not None:
            return text.call(window, *parameters)
        match step.kind:
            case "index":
                text.add(f"rows, cols = tables[0][:{out[0]}], tables[1][:{out[1]}]")
                text.add(f"turned = {text.call(step.function, *parameters, size, 'rows', 'cols')}")
                return text.call(motion.table_motion, "rows", "cols", "turned")
            case "resize":
                text.add(text.call(step.function, *parameters, size, "box"))
                return text.call(motion.resize_motion, "box", *out)
        text.add(text.call(step.function, *parameters, size, f"{size}[2:]", "box"))
        return text.call(motion.affine_motion, "box")


@dataclass(frozen=True)
class Course:
    """Where an image's points have moved to.

    Args:
        numbers: See `motion.begin`.
    """

    numbers: npt.NDArray[np.float64]

    def move(self, points: Array) -> Array:
        """Return points after all steps, float64.

        Args:
            points: ``(…, 2)``, x and y, of any real dtype.
        """
        a, b, c, d, e, f = self.numbers[:6].tolist()
        x, y = points[..., 0].astype(np.float64), points[..., 1].astype(np.float64)
        return np.stack([a * x + b * y + c, d * x + e * y + f], -1)

    def move_boxes(self, edges: Array) -> Array:
        """Return the upright boxes around boxes after all steps, as far as they can be seen, float64.

        Args:
            edges: Left, top, right and bottom, ``(N, 4)``.
        """
        edges = np.clip(edges, self._limits(10, 0), self._limits(10, 2))
        corners = self.move(edges[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2))
        around = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        seen: Array = np.clip(around, self._limits(6, 0), self._limits(6, 2))
        return seen

    def _limits(self, window: int, at: int) -> Array:
        """Return the lower or upper limits of left, top, right and bottom."""
        x, y = self.numbers[window + at : window + at + 2].tolist()
        return np.array([x, y, x, y])


def edges_of(boxes: Array, form: str) -> Array:
    """Return the left, top, right and bottom edges of boxes, float64 ``(N, 4)``.

    Args:
        boxes: ``(N, 4)``.
        form: How they are written, one of `BOX_FORMATS`.
    """
    boxes = boxes.astype(np.float64)
    if form == "xyxy":
        return boxes
    place, size = boxes[:, :2], boxes[:, 2:]
    first = place if form == "xywh" else place - size / 2
    return np.concatenate([first, first + size], axis=1)


def boxes_of(edges: Array, form: str) -> npt.NDArray[np.float32]:
    """Return edges in the form that is asked for, float32 ``(N, 4)``; the inverse of `edges_of`."""
    first, last = edges[:, :2], edges[:, 2:]
    place = (first + last) / 2 if form == "cxcywh" else first
    size = last if form == "xyxy" else last - first
    return np.concatenate([place, size], axis=1).astype(np.float32)
