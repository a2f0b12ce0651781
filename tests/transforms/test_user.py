"""Users' own kernels: what they get, that numpy and machine code agree, and what is refused."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.image.flip import HorizontalFlip
from nogil_loader.transforms.image.layout import ToCHW
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.user import integer, kernel, normal, pixelwise, uniform
from tests.transforms.fused import assert_same

IMAGE = np.random.default_rng(0).integers(0, 256, (5, 18, 3), dtype=np.uint8)
OFFSET = 3
TABLE = np.arange(256, dtype=np.uint8)


@kernel
def noisy(image: Any, out: Any, rng: Any) -> None:
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            value = 255.0 if uniform(rng) < 0.1 else 10.0 * normal(rng) + integer(rng, 5)
            for c in range(image.shape[2]):
                out[y, x, c] = min(max(image[y, x, c] + value, 0.0), 255.0)


@kernel(output=lambda spec: Spec((spec.shape[0],), np.dtype(np.float32)))
def row_sums(image: Any, out: Any, rng: Any) -> None:
    for y in range(image.shape[0]):
        total = 0.0
        for x in range(image.shape[1]):
            total += image[y, x, 0]
        out[y] = total


@pixelwise
def halve(value: float) -> float:
    return value / 2 + 0.25


@pixelwise
def swap(red: float, green: float, blue: float) -> tuple[float, float, float]:
    return blue, green, red


@pixelwise
def add_offset(value: float) -> float:
    return value + OFFSET


@pixelwise
def look_up(value: float) -> float:
    return TABLE[int(value)]  # type: ignore[no-any-return]


CHAIN = Compose([OneOf([swap, noisy, HorizontalFlip(1.0)]), halve, RandomApply(noisy), row_sums])


def test_kernels_of_users_are_bitwise_their_python() -> None:
    results = [assert_same(CHAIN, IMAGE, index=index) for index in range(12)]
    assert results[0].shape == (5,)
    assert len({result.tobytes() for result in results}) > 6  # some samples meet no noise at all


def test_pixel_functions_are_part_of_the_sweep() -> None:
    chain = Compose([HorizontalFlip(1.0), halve, swap, ToCHW()])
    result = assert_same(chain, IMAGE)
    expected = np.rint(IMAGE[:, ::-1, ::-1] / 2 + 0.25)
    np.testing.assert_array_equal(result, np.moveaxis(expected, 2, 0))
    assert "arrays in between: none" in chain.explain(IMAGE)


def test_an_njit_function_will_do() -> None:
    numba = pytest.importorskip("numba")
    jitted = kernel(numba.njit(row_sums.function), output=row_sums.output)
    np.testing.assert_array_equal(jitted.apply(IMAGE), row_sums.apply(IMAGE))


def test_a_global_that_has_changed_is_seen_by_apply_and_by_the_next_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = nl.DataLoader([np.zeros((2, 2, 1), np.uint8)], transform=add_offset, num_workers=1)
    for offset in (3, 40, 7):
        monkeypatch.setitem(add_offset.function.__globals__, "OFFSET", offset)
        (batch,) = loader
        assert batch.max() == batch.min() == offset
        assert add_offset.apply(np.zeros((2, 2, 1), np.uint8)).max() == offset
        assert Compose([copy.deepcopy(add_offset)]).apply(np.zeros((2, 2, 1), np.uint8)).max() == offset


def test_a_table_that_has_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    first = look_up.apply(IMAGE)
    np.testing.assert_array_equal(first, IMAGE)
    monkeypatch.setitem(look_up.function.__globals__, "TABLE", TABLE[::-1].copy())
    np.testing.assert_array_equal(look_up.apply(IMAGE), 255 - IMAGE)


def test_decorated_functions_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(halve)) is halve
    assert pickle.loads(pickle.dumps(CHAIN)) == CHAIN


def a_generator(array: Any, out: Any, rng: Any) -> Any:
    out[:] = array
    yield 1


async def a_coroutine(array: Any, out: Any, rng: Any) -> None:
    out[:] = array


def a_function_with_a_result(array: Any, out: Any, rng: Any) -> Any:
    out[:] = array
    return out


def a_global_draw(array: Any, out: Any, rng: Any) -> None:
    out[:] = np.random.randint(255)


def a_helper_that_draws() -> float:
    return random.random()


def a_hidden_draw(array: Any, out: Any, rng: Any) -> None:
    out[:] = a_helper_that_draws()


A_COROUTINE: Any = a_coroutine
NUMBER: Any = 3
OF_ONE: Any = lambda image: None  # noqa: E731


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: kernel(a_generator), ValueError, "kernel a_generator: it is a generator"),
        (lambda: kernel(A_COROUTINE), ValueError, "it is a generator or a coroutine"),
        (lambda: kernel(a_function_with_a_result), ValueError, "it returns a value, which nobody sees"),
        (lambda: kernel(a_global_draw), ValueError, "it draws by np.random.randint, whose state"),
        (lambda: kernel(a_hidden_draw), ValueError, "it draws by random.random"),
        (lambda: kernel(NUMBER), TypeError, r"kernel\(3\): expected a function \(array, out, rng\)"),
        (lambda: kernel(OF_ONE), ValueError, "has to take"),
        (lambda: kernel(lambda *all_of_them: None), ValueError, "has to take"),
        (lambda: pixelwise(lambda: 3), ValueError, "has to take"),
        (lambda: pixelwise(len), TypeError, "expected a function"),
        (lambda: kernel(output=NUMBER)(noisy.function), TypeError, "kernel.output=3"),
    ],
)
def test_what_cannot_be_a_kernel_is_refused_at_once(make: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_parallel_functions_are_refused_in_words() -> None:
    numba = pytest.importorskip("numba")
    with pytest.raises(ValueError, match=r"parallel=True.*abort the process"):
        kernel(numba.njit(parallel=True)(noisy.function))


def test_a_function_of_three_values_needs_three_channels() -> None:
    with pytest.raises(ValueError, match=r"takes 3 values, but the image .* has 1 channels"):
        swap.apply(IMAGE[..., :1])


def test_what_does_not_compile_is_told_by_the_users_own_line() -> None:
    @kernel
    def wrong(image: Any, out: Any, rng: Any) -> None:
        out[0] = image.colour

    with pytest.raises(ValueError, match=r"wrong cannot be compiled: .*colour") as caught:
        wrong.apply(IMAGE)
    assert __file__ in str(caught.value)
    loader = nl.DataLoader(nl.ArrayDataset(IMAGE[None]), transform=wrong, num_workers=1)
    with pytest.raises(ValueError, match=r"wrong cannot be compiled"):
        iter(loader)


def test_what_a_kernel_leaves_out_is_zero() -> None:
    @kernel
    def first_row(image: Any, out: Any, rng: Any) -> None:
        for x in range(image.shape[1]):
            for c in range(image.shape[2]):
                out[0, x, c] = image[0, x, c]

    result = assert_same(Compose([HorizontalFlip(1.0), first_row, HorizontalFlip(1.0)]), IMAGE)
    np.testing.assert_array_equal(result[0], IMAGE[0])
    assert not result[1:].any()


def test_functions_may_be_called_as_the_kernels_own_variables() -> None:
    functions: list[Any] = []
    for name in ("x", "row", "len", "range", "key", "fill", "convert"):
        scope: dict[str, Any] = {}
        exec(f"def {name}(v):\n    return v + 1", scope)
        functions.append(pixelwise(scope[name]))
    np.testing.assert_array_equal(assert_same(Compose(functions), IMAGE // 2), IMAGE // 2 + len(functions))
