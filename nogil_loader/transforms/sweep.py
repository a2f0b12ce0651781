"""Writes one sweep over the rows of an image: fetch a row of pixels, change it in place, store it."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from nogil_loader.kernels.images import pixels, resample, taps, warp
from nogil_loader.kernels.images.prefetch import prefetch_row
from nogil_loader.transforms.numbers import steps, walk
from nogil_loader.transforms.passes import Pass
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice, Step
from nogil_loader.transforms.text import Text, word

_LOAD = {1: pixels.load_1, 3: pixels.load_3, 4: pixels.load_4}
_STORE = {1: pixels.store_1, 3: pixels.store_3, 4: pixels.store_4}
_GATHER = {1: resample.gather_1, 3: resample.gather_3, 4: resample.gather_4}
_WARP = {3: warp.warp_3, 4: warp.warp_4}
# Rows that are asked for before they are written; two to four were equally fast.
_AHEAD = 3
_TAPS = {"bilinear": taps.bilinear_taps, "triangle": taps.triangle_taps, "area": taps.area_taps}


class Sweep:
    """Writes one pass.

    Args:
        text: Where to.
        part: The pass.
    """

    def __init__(self, text: Text, part: Pass) -> None:
        self._text = text
        self._part = part
        self._channels = part.source.channels
        self._planar = part.source.layout == "CHW"
        self._first = part.geometry[0] if part.geometry else None
        # Whether pixels are made of several; else each is one of the source, or outside.
        self._mixes = self._first is not None and self._first.taps != "nearest"
        wide = part.source.work.itemsize == 8
        self._row_buffer = "wide_row_pixels" if wide else "row_pixels"
        self._scratch = "wide_work" if wide else "work"

    def write(self, here: str, target: str) -> None:
        """Write the sweep from one array to another.

        Args:
            here: The name of the array that is read.
            target: The name of the array that is written.
        """
        text, part = self._text, self._part
        told = ", ".join(map(word, (*part.geometry, *part.points)))
        text.add(f"# One sweep: {told}" if told else "# One sweep: copy pixels")
        text.add(f"image, target = {here}, {target}")
        start, end = text.offsets.fills[id(part)]
        text.add(f"fill = numbers[{start}:{end}]")
        self._prepare_geometry()
        self._prepare_rows()
        # What lies between the parts stays in the caches, the batch does not.
        is_far = target.startswith("out")
        if is_far:
            height, length = (f"target.shape[{at}]" for at in ("0", "1"))
            whole = f"target.reshape((1, {height}, {length} * {part.target.channels}))"
            text.add(f"planes = {'target' if part.target.layout == 'CHW' else whole}")
        with text.block("for y in range(len(rows)):"):
            text.add(f"row = row_{self._channels}")
            self._fetch()
            *points, last = part.points or (None,)
            for each in points:
                self._point(each)
            if is_far:
                text.add(text.call(prefetch_row, "planes", f"y + {_AHEAD}"))
            if _is_stored_scaled(last, part.target):
                scaled = ("row", "target", "y", f"numbers_{last.position}")
                text.add(text.call(pixels.store_planes_scaled, *scaled))
            else:
                if last is not None:
                    self._point(last)
                self._store(part.target)

    # Before the rows

    def _prepare_rows(self) -> None:
        """Look up what does not change from row to row: a slice costs as much as some dozen pixels."""
        text, part = self._text, self._part
        for count in sorted({self._channels, *(step.target.channels for step in steps(part.points))}):
            text.add(f"row_{count} = {self._row_buffer}[: {count} * len(cols)].reshape(({count}, len(cols)))")
        for node in walk(part.points):
            if isinstance(node, Step) and not node.arguments:
                numbers, drawn = text.parameters(node)
                text.add(f"numbers_{node.position}, drawn_{node.position} = {numbers}, {drawn}")

    def _prepare_geometry(self) -> None:
        text, first = self._text, self._first
        if first is None:
            height, width = self._size()
            text.add(f"rows, cols, turned = tables[0][:{height}], tables[1][:{width}], 0")
            text.add(text.call(pixels.count_up, "rows"), text.call(pixels.count_up, "cols"))
        elif first.kind == "index":
            given = (*text.parameters(first), f"sizes[{first.position}]")
            self._open_tables(first)
            text.add(f"turned = {text.call(first.function, *given, 'rows', 'cols')}")
        elif first.kind == "resize":
            self._resize(first)
        else:
            self._affine(first)
        for at, step in enumerate(self._part.geometry[1:]):
            self._follow(step, at)
        if self._mixes and first is not None and first.kind == "resize":
            self._place_columns()
        elif first is None or first.kind != "affine":
            text.add(f"run = {text.call(pixels.run_of, 'cols')}")

    def _open_tables(self, step: Step) -> None:
        height, width = (f"sizes[{step.position}, {axis}]" for axis in (2, 3))
        self._text.add(f"rows, cols = tables[0][:{height}], tables[1][:{width}]")

    def _follow(self, step: Step, at: int) -> None:
        """Look up an index step through those before it."""
        text = self._text
        height, width = (f"sizes[{step.position}, {axis}]" for axis in (2, 3))
        given = (*text.parameters(step), f"sizes[{step.position}]", "step_rows", "step_cols")
        new = 0 if at % 2 else 4
        text.add(f"step_rows, step_cols = tables[2][:{height}], tables[3][:{width}]")
        text.add(f"step_turned = {text.call(step.function, *given)}")
        text.add(f"new_rows, new_cols = tables[{new}][:{height}], tables[{new + 1}][:{width}]")
        names = ("rows", "cols", "step_turned", "step_rows", "step_cols", "new_rows", "new_cols")
        text.add(text.call(pixels.follow, *names))
        text.add("rows, cols, turned = new_rows, new_cols, turned ^ step_turned")

    def _resize(self, step: Step) -> None:
        text, size = self._text, f"sizes[{step.position}]"
        self._open_tables(step)
        text.add(text.call(step.function, *text.parameters(step), size, "box"))
        axes = (("rows", "0", "2", f"{size}[0]"), ("cols", "1", "3", f"{size}[1]"))
        if not self._mixes:
            for table, start, extent, limit in axes:
                text.add(
                    text.call(taps.nearest_index, f"box[{start}]", f"box[{extent}]", limit, table),
                )
            text.add("turned = 0")
            return
        text.add("at = 0")
        for number, (table, start, extent, limit) in enumerate(axes):
            most = f"{size}[{4 + number}]"
            weights = f"{self._scratch}[at : at + len({table}) * {most}]"
            text.add(
                f"first_{table} = tables[{6 + number}][: len({table})]",
                f"{table}_weights = {weights}.reshape((len({table}), {most}))",
                f"at += len({table}) * {most}",
            )
            given = (f"box[{start}]", f"box[{extent}]", limit, f"first_{table}", f"{table}_weights")
            text.add(f"{table}_taps = {text.call(_TAPS[step.taps], *given)}")
        text.add(text.call(pixels.count_up, "rows"), text.call(pixels.count_up, "cols"), "turned = 0")

    def _place_columns(self) -> None:
        """Bring the weights of columns into the order in which they are used."""
        text = self._text
        channels = 1 if self._planar else self._channels
        text.add(
            "starts = tables[8][: len(cols)]",
            f"weights = {self._scratch}[at : at + cols_taps * len(cols)].reshape((cols_taps, len(cols)))",
            "at += cols_taps * len(cols)",
        )
        given = ("first_cols", "cols_weights", "cols_taps", "cols", str(channels), "starts", "weights")
        text.add("low, columns, holes = 0, 0, 0")
        with text.block("if not turned:"):
            text.add(f"low, columns, holes = {text.call(taps.place_columns, *given)}")
        text.add(f"line = {self._scratch}[at : at + columns * {channels} + {resample.SPARE}]")
        text.add(f"blended = line[: columns * {channels}]")
        if not self._planar:
            text.add("lines = image.reshape((image.shape[0], -1))")
        self._flatten()

    def _affine(self, step: Step) -> None:
        text, size = self._text, f"sizes[{step.position}]"
        self._open_tables(step)
        text.add(text.call(step.function, *text.parameters(step), size, f"{size}[2:]", "box"))
        text.add(text.call(pixels.count_up, "rows"), "turned = 0", "corners = tables[6][: len(cols)]")
        if self._mixes:
            corners = warp.CORNERS
            text.add(
                f"weights = {self._scratch}[: {corners} * len(cols)].reshape(({corners}, len(cols)))",
            )
        self._flatten()

    def _flatten(self) -> None:
        height, width = self._size()
        deep, steps_ = {
            "HWC": ("1", f"{width} * {self._channels}, {self._channels}"),
            "HW": ("0", f"{width}, 1"),
            "CHW": (f"{height} * {width}", f"{width}, 1"),
        }[self._part.source.layout]
        self._text.add("flat = image.reshape(-1)", f"steps = ({steps_}, {deep})")

    def _size(self) -> tuple[str, str]:
        height, width = (f"image.shape[{self._part.source.layout.index(axis)}]" for axis in "HW")
        return height, width

    # A row

    def _fetch(self) -> None:
        text, first = self._text, self._first
        if first is not None and first.kind == "affine":
            self._fetch_warped(first)
        else:
            with text.block("if rows[y] < 0:"):
                text.add(text.call(pixels.fill_row, "row", "fill"))
            if self._mixes and first is not None:
                self._fetch_resized(first)
            else:
                self._fetch_moved()
        limits = None if first is None else first.target.limits()
        if first is not None and limits is not None and self._mixes and not first.exact:
            text.add(text.call(pixels.saturate, "row", *map(repr, limits)))

    def _fetch_moved(self) -> None:
        text, has_channels = self._text, "C" in self._part.source.layout
        with text.block("elif turned:"):
            image = "image" if has_channels else "image.reshape((image.shape[0], image.shape[1], 1))"
            load_column = pixels.load_plane_columns if self._planar else pixels.load_column
            text.add(text.call(load_column, image, "rows[y]", "cols", "fill", "row"))
        with text.block("else:"):
            if self._planar:
                text.add(text.call(pixels.load_planes, "image", "rows[y]", "cols", "run", "fill", "row"))
            else:
                load = _LOAD.get(self._channels, pixels.load_many)
                line = "image[rows[y]].reshape(-1)"
                text.add(text.call(load, line, "cols", "run", "fill", "row"))

    def _fetch_resized(self, step: Step) -> None:
        text = self._text
        whole = repr(step.target.limits() is not None)
        blended = ("first_rows", "rows_weights", "rows_taps")
        with text.block("elif turned:"):
            columns = ("first_cols", "cols_weights", "cols_taps")
            given = ("flat", "steps", *blended, *columns, "rows[y]", "cols", whole, "row")
            text.add(text.call(resample.resize_column, *given))
            text.add(text.call(resample.fill_holes, "cols", "fill", "row"))
        with text.block("else:"):
            mixed = ("starts", "weights", "cols_taps", whole, "row")
            if self._planar:
                given = ("image", *blended, "rows[y]", "low", "blended", *mixed)
                text.add(text.call(resample.resize_planes, *given))
            else:
                begin = f"low * {self._channels}"
                text.add(text.call(resample.blend_rows, "lines", *blended, "rows[y]", begin, "blended"))
                gather = _GATHER.get(self._channels, resample.gather_many)
                text.add(text.call(gather, "line", *mixed))
            with text.block("if holes:"):
                text.add(text.call(resample.fill_holes, "cols", "fill", "row"))

    def _fetch_warped(self, step: Step) -> None:
        text = self._text
        height, width = self._size()
        if not self._mixes:
            text.add(text.call(warp.nearest_pixels, "box", "y", height, width, "corners"))
            text.add(text.call(pixels.load_scattered, "flat", "corners", "steps", "fill", "row"))
            return
        interleaved = not self._planar
        function = _WARP.get(self._channels, warp.warp_many) if interleaved else warp.warp_many
        whole = repr(step.target.limits() is not None)
        given = (
            "flat",
            f"({height}, {width})",
            "steps",
            "box",
            "y",
            "fill",
            whole,
            "corners",
            "weights",
            "row",
        )
        text.add(text.call(function, *given))

    def _point(self, node: Step | Choice) -> None:
        text = self._text
        if isinstance(node, Step):
            before, after = node.source.channels, node.target.channels
            if after > before:
                text.add(f"row = row_{after}")
            text.seed(node)
            if node.arguments:
                self._values(node)
            else:
                given = ("row", "y", f"numbers_{node.position}", f"drawn_{node.position}", "rng")
                text.add(text.call(node.function, *given))
            if after < before:
                text.add(f"row = row_{after}")
            limits = node.target.limits()
            if limits is not None and not node.exact:
                text.add(text.call(pixels.saturate, "row", *map(repr, limits)))
            return
        with text.block(f"for turn in range({node.turns}):"):
            name = f"branch_{node.position}"
            text.add(f"{name} = int(drawn[{node.position}, turn])")
            for at, branch in enumerate(node.branches):
                with text.block(f"{'el' if at else ''}if {name} == {at}:"):
                    if not branch:
                        text.add("pass")
                    for each in branch:
                        assert isinstance(each, Step | Choice)
                        self._point(each)

    def _values(self, step: Step) -> None:
        """Call a user's function for each value, or for each pixel."""
        # In float64, as in plain Python, where a number has no other precision.
        text = self._text
        text.names["float64"] = np.float64
        if len(step.arguments) == 1:
            with text.block(f"for channel in range({step.source.channels}):"):
                text.add("plane = row[channel]")
                with text.block("for x in range(len(plane)):"):
                    text.add(f"plane[x] = {text.call(step.function, 'float64(plane[x])')}")
            return
        planes = [f"plane_{channel}" for channel in range(step.source.channels)]
        text.add(*(f"{plane} = row[{channel}]" for channel, plane in enumerate(planes)))
        with text.block("for x in range(len(cols)):"):
            values = text.call(step.function, *(f"float64({plane}[x])" for plane in planes))
            text.add(f"{', '.join(f'{plane}[x]' for plane in planes)} = {values}")

    def _store(self, target: Spec) -> None:
        text = self._text
        if target.layout == "CHW":
            text.add(text.call(pixels.store_planes, "row", "target", "y"))
        else:
            store = _STORE.get(target.channels, pixels.store_many)
            text.add(text.call(store, "row", "target[y].reshape(-1)"))


def _is_stored_scaled(node: Step | Choice | None, target: Spec) -> TypeGuard[Step]:
    """Whether the last thing that happens to a row can be done while it is stored."""
    return (
        isinstance(node, Step)
        and node.function is pixels.scale_and_shift
        and target.layout == "CHW"
        and target.limits() is None
    )
