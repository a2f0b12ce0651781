"""The fingerprint of a function changes with what changes the code a compiler makes of it, and only then."""

from __future__ import annotations

import enum
import functools
import json
import math
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numba
import numpy as np
import pytest
from hypothesis import given
from numba.extending import overload, register_jitable

from nogil_loader.kernels import pad_rows
from nogil_loader.kernels.compiler.fingerprint import fingerprint, is_parallel
from nogil_loader.kernels.compiler.references import is_known_by_name, references
from tests.scripts import RunScript


def digest(value: Any) -> str:
    found = fingerprint(value)
    assert found.opaque == ()
    return found.digest


def define(source: str, file: str = "<test>", **names: Any) -> Callable[..., Any]:
    """The function f that a source defines, in a namespace of its own."""
    scope: dict[str, Any] = {"__name__": "elsewhere", **names}
    exec(compile(source, file, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


def module(**contents: Any) -> types.ModuleType:
    made = types.ModuleType("helpers")
    vars(made).update(contents)
    return made


class Colour(enum.Enum):
    RED = 1


class OtherColour(enum.Enum):
    RED = 2


Point = namedtuple("Point", "x y")
USES_G = "def f(x): return x + g"
CALLS_G = "def f(x): return g(x)"
CALLS_MODULE = "def f(x): return helpers.g(x)"
ONE, TWO = (define(f"def f(x): return x * {factor}") for factor in (1, 2))
DEEP_ONE, DEEP_TWO = (define(CALLS_MODULE, helpers=module(g=each)) for each in (ONE, TWO))


def within(value: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return x + value

    return f


CHANGES: dict[str, tuple[Any, Any]] = {
    "a constant": (ONE, TWO),
    "the operation": (define("def f(x): return x + 1"), define("def f(x): return x - 1")),
    "an attribute": (define("def f(x): return x.a"), define("def f(x): return x.b")),
    "a global number": (define(USES_G, g=1), define(USES_G, g=2)),
    "the type of a global": (define(USES_G, g=1), define(USES_G, g=1.0)),
    "a bool for a number": (define(USES_G, g=1), define(USES_G, g=True)),
    "the sign of zero": (define(USES_G, g=0.0), define(USES_G, g=-0.0)),
    "a global text": (define(USES_G, g="1"), define(USES_G, g=b"1")),
    "a global that is missing": (define(USES_G), define(USES_G, g=None)),
    "the width of a global": (define(USES_G, g=np.float32(1)), define(USES_G, g=np.float64(1))),
    "a table": (define(USES_G, g=np.arange(3)), define(USES_G, g=np.arange(1, 4))),
    "the dtype of a table": (define(USES_G, g=np.zeros(2, "i4")), define(USES_G, g=np.zeros(2, "f4"))),
    "the shape of a table": (define(USES_G, g=np.zeros((2, 3))), define(USES_G, g=np.zeros((3, 2)))),
    "the layout of a table": (
        define(USES_G, g=np.ones((2, 2))),
        define(USES_G, g=np.ones((2, 2), order="F")),
    ),
    "a field of a table": (
        define(USES_G, g=np.zeros(1, [("a", "i4")])),
        define(USES_G, g=np.zeros(1, [("b", "i4")])),
    ),
    "an item of a tuple": (define(USES_G, g=(1, (2, 3))), define(USES_G, g=(1, (2, 4)))),
    "the bounds of a tuple": (define(USES_G, g=((1,), 2)), define(USES_G, g=((1, 2),))),
    "a tuple with names": (define(USES_G, g=Point(1, 2)), define(USES_G, g=(1, 2))),
    "an item of a set": (define(USES_G, g={1, 2}), define(USES_G, g={1, 3})),
    "an enum": (define(USES_G, g=Colour), define(USES_G, g=OtherColour)),
    "a member of an enum": (define(USES_G, g=Colour.RED), define(USES_G, g=OtherColour.RED)),
    "a type": (define(CALLS_G, g=np.float32), define(CALLS_G, g=np.float64)),
    "a type of numba": (define(CALLS_G, g=numba.float32), define(CALLS_G, g=numba.float64)),
    "a function of numpy": (define(CALLS_G, g=np.sin), define(CALLS_G, g=np.cos)),
    "a function by its module": (
        define("def f(x): return m.sin(x)", m=np),
        define("def f(x): return m.sin(x)", m=math),
    ),
    "a callee": (define(CALLS_G, g=ONE), define(CALLS_G, g=TWO)),
    "a callee in a module": (define(CALLS_MODULE, helpers=module(g=ONE)), DEEP_TWO),
    "a constant in a module": (
        define("def f(x): return helpers.g", helpers=module(g=1)),
        define("def f(x): return helpers.g", helpers=module(g=2)),
    ),
    "a callee in a module of a module": (
        define("def f(x): return a.b.g(x)", a=module(b=module(g=ONE))),
        define("def f(x): return a.b.g(x)", a=module(b=module(g=TWO))),
    ),
    "the callee of a callee": (define(CALLS_G, g=DEEP_ONE), define(CALLS_G, g=DEEP_TWO)),
    "a callee in a tuple": (
        define("def f(x): return g[0](x)", g=(ONE,)),
        define("def f(x): return g[0](x)", g=(TWO,)),
    ),
    "a variable of an enclosing function": (within(1), within(2)),
    "a callee of an enclosing function": (within(ONE), within(TWO)),
    "a default": (define("def f(x, y=1): return y"), define("def f(x, y=2): return y")),
    "a default by keyword": (define("def f(x, *, y=1): return y"), define("def f(x, *, y=2): return y")),
    "what an inner function refers to": (
        define("def f(x): return (lambda y: y + g)(x)", g=1),
        define("def f(x): return (lambda y: y + g)(x)", g=2),
    ),
    "a compiled function": (define(CALLS_G, g=numba.njit(ONE)), define(CALLS_G, g=numba.njit(TWO))),
    "that it is compiled": (define(CALLS_G, g=ONE), define(CALLS_G, g=numba.njit(ONE))),
    "an option of the compiler": (numba.njit(ONE), numba.njit(fastmath=True)(ONE)),
    "the name of what it belongs to": ({"a": ONE}, {"b": ONE}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_changes_with(change: str) -> None:
    before, after = CHANGES[change]
    assert digest(before) != digest(after)
    assert digest(before) == digest(before)


SAME: dict[str, tuple[Any, Any]] = {
    "its file and line": (
        define("def f(x): return g", g=1),
        define("\n\ndef f(x):\n    return g", "other", g=1),
    ),
    "globals that it does not use": (define(USES_G, g=1), define(USES_G, g=1, h=2)),
    "annotations": (define("def f(x): return x"), define("def f(x: int) -> int: return x")),
    "which of two equal tables it uses": (define(USES_G, g=np.ones(2)), define(USES_G, g=np.ones(2))),
    "which of two equal callees": (define(CALLS_G, g=within(1)), define(CALLS_G, g=within(1))),
    "that a constant is read only": (
        define(USES_G, g=np.ones(2)),
        define(USES_G, g=np.frombuffer(np.ones(2).tobytes())),
    ),
    "that numba may compile it": (ONE, register_jitable(define("def f(x): return x * 1"))),
}


@pytest.mark.parametrize("change", SAME)
def test_a_fingerprint_does_not_change_with(change: str) -> None:
    before, after = SAME[change]
    assert digest(before) == digest(after)


CONSTANTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=6,
)


@given(CONSTANTS, CONSTANTS)
def test_two_constants_have_the_same_fingerprint_if_they_are_written_the_same(
    first: Any, second: Any
) -> None:
    # NaNs are written the same whatever their bits are.
    assert repr(first) != repr(second) or "nan" in repr(first) or digest(first) == digest(second)
    assert repr(first) == repr(second) or digest(first) != digest(second)


def test_a_fingerprint_changes_with_given_signatures() -> None:
    assert digest(numba.njit(ONE)) != digest(numba.njit("f4(f8)")(ONE)) != digest(numba.njit("f8(f8)")(ONE))


def test_functions_that_call_each_other_have_a_fingerprint() -> None:
    def pair(factor: int) -> Callable[..., Any]:
        source = f"def f(x): return g(x) if x else 0\ndef g(x): return f(x - 1) * {factor}"
        return define(source)

    assert digest(pair(2)) == digest(pair(2)) != digest(pair(3))


def test_a_list_that_holds_itself_has_a_fingerprint() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert digest(define(USES_G, g=loop)) != digest(define(USES_G, g=[1, 1]))


def test_a_variable_that_is_not_set_yet_counts_as_missing() -> None:
    def outer() -> Callable[..., Any]:
        def f(x: Any) -> Any:
            return later(x)

        early = digest(f)

        def later(x: Any) -> Any:
            return x

        assert digest(f) != early
        return f

    digest(outer())


EVERYTHING = """
import enum, sys
import numpy as np
from nogil_loader.kernels import pad_rows
from nogil_loader.kernels.compiler.fingerprint import fingerprint

class Kind(enum.IntEnum):
    A = 1

TABLE = np.linspace(0, 1, 7).astype(">f4")
NAMES = frozenset({"a", "b", "c", "d"})

def helper(x, kind=Kind.A):
    return x in {"x", "y", "z"} or x in NAMES, np.clip(TABLE, 0, Kind.A), abs(x)

def function(x):
    return [helper(y) for y in (x, lambda: TABLE)]

print(fingerprint((function, pad_rows.python)).digest)
"""


def test_a_fingerprint_is_the_same_in_every_process(run_script: RunScript) -> None:
    results = [run_script(EVERYTHING, environment={"PYTHONHASHSEED": seed}) for seed in ("1", "2")]
    assert all(each.returncode == 0 for each in results), results
    assert results[0].stdout == results[1].stdout != ""


def test_what_has_no_value_is_opaque_and_named() -> None:
    thing = object()
    found = fingerprint(define(USES_G, g=thing))
    assert found.opaque == ("g in f (builtins.object)",)
    assert found == fingerprint(define(USES_G, g=thing)) != fingerprint(define(USES_G, g=object()))
    assert fingerprint({"table": thing}).opaque == ("table (builtins.object)",)


def test_what_numba_makes_in_other_ways_is_opaque() -> None:
    def stub(x: Any) -> Any:
        raise NotImplementedError

    @overload(stub)
    def _stub(x: Any) -> Any:
        return lambda x: x

    ufunc = numba.vectorize(lambda x: x)
    assert fingerprint(define(CALLS_G, g=stub)).opaque[0].endswith("stub (implemented by an overload)")
    assert fingerprint(define(CALLS_G, g=ufunc)).opaque == ("g in f (numba.np.ufunc.dufunc.DUFunc)",)
    assert fingerprint(define(CALLS_G, g=functools.partial(ONE))).opaque == ("g in f (functools.partial)",)


def test_the_package_s_own_functions_are_never_opaque() -> None:
    pad_rows.compile()
    assert fingerprint(pad_rows.python).opaque == ()


@pytest.mark.parametrize(
    "value", [np, np.sin, np.clip, np.float32, math, math.sin, json.dumps, len, float, numba.prange]
)
def test_libraries_are_known_by_name(value: Any) -> None:
    assert is_known_by_name(value)


def test_a_user_s_module_named_like_one_of_python_s_is_the_user_s() -> None:
    function = define("def f(x): return x", "/home/user/wave.py", __name__="wave")
    mine = types.ModuleType("wave")
    mine.__file__ = "/home/user/wave.py"
    wrapped = functools.wraps(np.mean)(define("def f(x): return x"))
    assert not any(is_known_by_name(value) for value in (function, mine, wrapped))


def test_references_are_found_by_the_names_that_lead_there() -> None:
    function = define(
        "def f(x): return h.g(x).size + np.linalg.norm(h.g.shape) + len(lost.x) + sum(c.x for _ in x)",
        h=module(g=ONE),
        np=np,
        c=Point(1, 2),
    )
    found = {".".join((*each.path, *each.rest)) for each in references(function)}  # type: ignore[arg-type]
    assert found == {"h.g", "np.linalg.norm", "len", "lost", "sum", "c"}


def test_a_parallel_function_is_found_among_the_callees() -> None:
    parallel = numba.njit(parallel=True)(ONE)
    assert is_parallel(parallel)
    assert is_parallel(define(CALLS_MODULE, helpers=module(g=define(CALLS_G, g=parallel))))
    assert not is_parallel(define(CALLS_G, g=numba.njit(ONE)))
    assert not is_parallel(ONE)
