"""Machine code for `copy_bytes`; imported by `compile` once numba is there.

numba turns the assignment of a slice into a loop over elements; one call of memcpy is 3.7 to 5.7 times faster.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from nogil_loader.kernels.compiler.jit import borrowed
from nogil_loader.kernels.rows import copy_bytes


@intrinsic
def _memcpy(typing_context: Any, out: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out_type, _, source_type, _, _ = signature.args
        target = builder.gep(context.make_array(out_type)(context, builder, args[0]).data, [args[1]])
        origin = builder.gep(context.make_array(source_type)(context, builder, args[2]).data, [args[3]])
        cgutils.raw_memcpy(builder, target, origin, args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, source, types.int64, types.int64), generate


@overload(copy_bytes)
def _copy_bytes(out: Any, at: Any, source: Any, start: Any, count: Any) -> Any:
    def implementation(out: Any, at: Any, source: Any, start: Any, count: Any) -> None:
        _memcpy(out, at, source, start, count)

    return implementation


@intrinsic
def _without_owner(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        for owner in ("meminfo", "parent"):
            setattr(view, owner, cgutils.get_null_value(getattr(view, owner).type))
        return view._getvalue()

    return array(array), generate


@overload(borrowed)
def _borrowed(array: Any) -> Any:
    def implementation(array: Any) -> Any:
        return _without_owner(array)

    return implementation
