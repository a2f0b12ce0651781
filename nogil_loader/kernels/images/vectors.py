"""Machine code for `resample.mix_pixels`, `warp.mix_corners` and `prefetch.prefetch_row`; imported with numba.

numba's compiler vectorises loops over contiguous numbers, but not the few channels of pixels that lie anywhere
in a line. Here each pixel of a block is read together with its right neighbour by one load; then the pixels are
turned into planes within registers. A row of 224 RGB pixels took 0.2 of the time of code for single numbers with
512-bit registers, and 0.3 with 256-bit ones. With a scratch row of interleaved pixels in between it took 0.55,
since what was just stored in small pieces cannot be loaded in large ones yet.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from nogil_loader.kernels.images.prefetch import prefetch_row
from nogil_loader.kernels.images.resample import BLOCK, SPARE, mix_pixels
from nogil_loader.kernels.images.warp import mix_corners

_INT32 = ir.IntType(32)
# Of most processors. Where it is longer some requests come twice, which costs little.
_CACHE_LINE = 64
Vectors = list[Any]


def _wide_registers() -> bool:
    try:
        return bool(binding.get_host_cpu_features().get("avx512f", False))
    except RuntimeError:  # a processor on which LLVM cannot ask
        return False


class Planes:
    """Writes vector instructions that turn a block of pixels into planes.

    Planes are one vector of all channels where registers hold 16 numbers and can be permuted in pairs, else one
    vector for each channel.

    Args:
        builder: Where instructions go.
        number: LLVM's type of the numbers, float or double.
        channels: 3 or 4.
    """

    def __init__(self, builder: Any, number: Any, channels: int) -> None:
        self.builder = builder
        self.number = number
        self.channels = channels
        self.wide = number == ir.FloatType() and _wide_registers()

    def load(self, base: Any, at: Any, count: int) -> Any:
        """Load ``count`` numbers from any address."""
        place = self.builder.gep(base, [at])
        vector = ir.VectorType(place.type.pointee, count)
        return self.builder.load(self.builder.bitcast(place, vector.as_pointer()), align=1)

    def pick(self, lanes: list[int], value: Any, other: Any = None) -> Any:
        """Make a vector of lanes of one vector, or of two that count as one."""
        mask = ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes)
        return self.builder.shuffle_vector(value, value if other is None else other, mask)

    def part(self, pixels: Vectors, kind: Any) -> tuple[Vectors, Vectors]:
        """Turn pixels, each in a vector of 8 together with its neighbour, into planes of pixels and of neighbours.

        Args:
            pixels: One vector for each pixel of the block.
            kind: numba's type of the numbers in them.
        """
        step = self.channels
        if self.wide:
            halves = [
                self._convert(self.pick(list(range(16)), pixels[i], pixels[i + 1]), kind) for i in (0, 2)
            ]
            lanes = [c + 8 * i for c in range(4) for i in range(BLOCK)]
            return [self.pick(lanes, *halves)], [self.pick([lane + step for lane in lanes], *halves)]
        # The lower half of each vector becomes the pixel, the upper half its neighbour; then both are transposed.
        split = [*range(4), *range(step, step + 4)]
        rows = [self.pick(split, self._convert(each, kind)) for each in pixels]
        low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
        even, odd = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
        pairs = [[self.pick(lanes, rows[i], rows[i + 1]) for i in (0, 2)] for lanes in (low, high)]
        planes = [self.pick(odd if c % 2 else even, *pairs[c // 2]) for c in range(step)]
        return (
            [self.pick([0, 1, 2, 3], each) for each in planes],
            [self.pick([4, 5, 6, 7], each) for each in planes],
        )

    def weigh(self, planes: Vectors, weights: Any) -> Vectors:
        """Multiply planes by a vector of weights, one for each pixel of the block."""
        factors = self.pick(list(range(BLOCK)) * 4, weights) if self.wide else weights
        return [self.builder.fmul(each, factors) for each in planes]

    def add(self, planes: Vectors, others: Vectors) -> Vectors:
        """Add planes to planes."""
        return [self.builder.fadd(*each) for each in zip(planes, others, strict=True)]

    def keep(self, row: Any, x: Any, planes: Vectors, whole: Any) -> None:
        """Store planes into a row at ``x``, rounded if ``whole`` is true."""
        planes = [self.builder.select(whole, self._round(each), each) for each in planes]
        if self.wide:
            planes = [
                self.pick([BLOCK * c + i for i in range(BLOCK)], planes[0]) for c in range(self.channels)
            ]
        width = self.builder.extract_value(row.shape, 1)
        for c, plane in enumerate(planes):
            at = self.builder.add(x, self.builder.mul(width, ir.Constant(width.type, c)))
            place = self.builder.bitcast(self.builder.gep(row.data, [at]), plane.type.as_pointer())
            self.builder.store(plane, place, align=1)

    def _convert(self, vector: Any, kind: Any) -> Any:
        target = ir.VectorType(self.number, vector.type.count)
        if not isinstance(kind, types.Float):
            convert = self.builder.sitofp if getattr(kind, "signed", False) else self.builder.uitofp
            return convert(vector, target)
        if vector.type.element == self.number:
            return vector
        return (self.builder.fpext if self.number == ir.DoubleType() else self.builder.fptrunc)(
            vector, target
        )

    def _round(self, vector: Any) -> Any:
        name = f"llvm.rint.v{vector.type.count}f{32 if self.number == ir.FloatType() else 64}"
        kind = ir.FunctionType(vector.type, [vector.type])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [vector])


@intrinsic(prefer_literal=True)
def _mix_pixels(
    typing_context: Any,
    channels: Any,
    line: Any,
    starts: Any,
    weights: Any,
    taps: Any,
    x: Any,
    whole: Any,
    row: Any,
) -> Any:
    if not isinstance(channels, types.IntegerLiteral):
        return None
    only_two = isinstance(taps, types.IntegerLiteral) and taps.literal_value == 2

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        line, starts, weights, row = (
            context.make_array(kinds[i])(context, builder, args[i]) for i in (1, 2, 3, 7)
        )
        taps, x, whole = args[4], args[5], args[6]
        planes = Planes(builder, context.get_value_type(kinds[1].dtype), channels.literal_value)
        zero, one, two, step = (ir.Constant(x.type, n) for n in (0, 1, 2, planes.channels))
        places = [builder.gep(starts.data, [builder.add(x, ir.Constant(x.type, i))]) for i in range(BLOCK)]
        ats = [builder.load(place) for place in places]

        def part(tap: Any) -> tuple[Vectors, Vectors]:
            move = builder.mul(tap, step)
            pixels = [planes.load(line.data, builder.add(at, move), SPARE) for at in ats]
            return planes.part(pixels, kinds[1].dtype)

        def weigh(values: Vectors, tap: Any) -> Vectors:
            start = builder.mul(tap, builder.extract_value(weights.shape, 1))
            return planes.weigh(values, planes.load(weights.data, builder.add(start, x), BLOCK))

        near, far = part(zero)
        totals = weigh(near, zero)
        if only_two:
            planes.keep(row, x, planes.add(totals, weigh(far, one)), whole)
            return context.get_dummy_value()

        sums = [cgutils.alloca_once_value(builder, each) for each in totals]

        def add(values: Vectors) -> None:
            for place, total in zip(sums, planes.add([*map(builder.load, sums)], values), strict=True):
                builder.store(total, place)

        last = builder.sub(taps, one)
        with builder.if_then(builder.icmp_signed(">", taps, one)):
            add(weigh(far, one))
        with cgutils.for_range_slice(builder, two, last, two, x.type) as (tap, _):
            near, far = part(tap)
            add(weigh(near, tap))
            add(weigh(far, builder.add(tap, one)))
        odd = builder.icmp_signed("==", builder.and_(taps, one), one)
        with builder.if_then(builder.and_(odd, builder.icmp_signed(">", taps, one))):
            near, _ = part(last)
            add(weigh(near, last))
        planes.keep(row, x, [*map(builder.load, sums)], whole)
        return context.get_dummy_value()

    index = types.int64
    signature = types.void(
        channels, line, starts, weights, taps if only_two else index, index, types.boolean, row
    )
    return signature, generate


@overload(mix_pixels, prefer_literal=True)
def _overload_mix_pixels(
    channels: Any, line: Any, starts: Any, weights: Any, taps: Any, x: Any, whole: Any, row: Any
) -> Any:
    def implementation(
        channels: Any, line: Any, starts: Any, weights: Any, taps: Any, x: Any, whole: Any, row: Any
    ) -> None:
        _mix_pixels(channels, line, starts, weights, taps, x, whole, row)

    return implementation


@intrinsic(prefer_literal=True)
def _mix_corners(
    typing_context: Any,
    channels: Any,
    flat: Any,
    corners: Any,
    down: Any,
    weights: Any,
    x: Any,
    whole: Any,
    row: Any,
) -> Any:
    if not isinstance(channels, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        flat, corners, weights, row = (
            context.make_array(kinds[i])(context, builder, args[i]) for i in (1, 2, 4, 7)
        )
        down, x, whole = args[3], args[5], args[6]
        planes = Planes(builder, context.get_value_type(kinds[7].dtype), channels.literal_value)
        places = [builder.gep(corners.data, [builder.add(x, ir.Constant(x.type, i))]) for i in range(BLOCK)]
        ats = [builder.load(place) for place in places]
        width = builder.extract_value(weights.shape, 1)
        totals: Vectors = []
        for line in range(2):
            pixels = [planes.load(flat.data, builder.add(at, down) if line else at, SPARE) for at in ats]
            for side, values in enumerate(planes.part(pixels, kinds[1].dtype)):
                start = builder.mul(width, ir.Constant(width.type, 2 * line + side))
                weighed = planes.weigh(values, planes.load(weights.data, builder.add(start, x), BLOCK))
                totals = planes.add(totals, weighed) if totals else weighed
        planes.keep(row, x, totals, whole)
        return context.get_dummy_value()

    index = types.int64
    signature = types.void(channels, flat, corners, index, weights, index, types.boolean, row)
    return signature, generate


@overload(mix_corners, prefer_literal=True)
def _overload_mix_corners(
    channels: Any, flat: Any, corners: Any, down: Any, weights: Any, x: Any, whole: Any, row: Any
) -> Any:
    def implementation(
        channels: Any, flat: Any, corners: Any, down: Any, weights: Any, x: Any, whole: Any, row: Any
    ) -> None:
        _mix_corners(channels, flat, corners, down, weights, x, whole, row)

    return implementation


@intrinsic
def _prefetch_row(typing_context: Any, planes: Any, y: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        count, height, width = cgutils.unpack_tuple(builder, array.shape, 3)
        index, y = width.type, args[1]
        zero, stride = ir.Constant(index, 0), ir.Constant(index, _CACHE_LINE)
        # Unsigned, so that what is negative is too large.
        with builder.if_then(builder.icmp_unsigned("<", y, height)):
            length = builder.mul(width, array.itemsize)
            with cgutils.for_range_slice(builder, zero, count, ir.Constant(index, 1), index) as (plane, _):
                row = builder.mul(builder.add(builder.mul(plane, height), y), width)
                start = builder.bitcast(builder.gep(array.data, [row]), cgutils.voidptr_t)
                with cgutils.for_range_slice(builder, zero, length, stride, index) as (at, _):
                    _ask_for_writing(builder, builder.gep(start, [at]))
        return context.get_dummy_value()

    return types.void(planes, types.int64), generate


def _ask_for_writing(builder: Any, address: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT32, _INT32, _INT32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    # To write, to be kept in all caches, as data.
    builder.call(ask, [address, *(ir.Constant(_INT32, n) for n in (1, 3, 1))])


@overload(prefetch_row)
def _overload_prefetch_row(planes: Any, y: Any) -> Any:
    def implementation(planes: Any, y: Any) -> None:
        _prefetch_row(planes, y)

    return implementation
