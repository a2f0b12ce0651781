"""Compose, RandomApply and OneOf: what they take and draw, and that the fused kernel does what numpy does."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.image.crop import RandomCrop
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.spec import Spec
from tests.transforms.fused import assert_same, both

NORMALIZE = Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4])
CHAIN = Compose([RandomCrop(9), HorizontalFlip(), VerticalFlip(), NORMALIZE, ToCHW()])
CHOICES = Compose(
    [
        RandomApply([HorizontalFlip(1.0)], 0.5),
        OneOf([VerticalFlip(1.0), [HorizontalFlip(1.0), RandomApply(VerticalFlip(1.0))]]),
        RandomCrop((5, 7)),
        RandomApply(HorizontalFlip(1.0), 0.3),
    ]
)


as_it_is: Any = abs
ONE_FLIP: Any = HorizontalFlip()
A_CLASS: Any = HorizontalFlip
NUMBER: Any = 3
TEXT: Any = "flip"


def image(seed: int, shape: tuple[int, ...] = (12, 14, 3), dtype: Any = np.uint8) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 2 if np.dtype(dtype).kind == "b" else 120, shape).astype(dtype)


@given(seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**40), index=st.integers(0, 2**62))
def test_the_fused_kernel_is_bitwise_the_reference(seed: int, epoch: int, index: int) -> None:
    result = assert_same(CHAIN, image(index % 1000), seed=seed, epoch=epoch, index=index)
    assert result.shape == (3, 9, 9)
    assert result.dtype == np.float32


@given(index=st.integers(0, 2**40))
def test_choices_are_bitwise_the_reference(index: int) -> None:
    assert_same(CHOICES, image(index % 100), index=index)


@pytest.mark.parametrize(
    "dtype", ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "f8", ">i2", ">f4"]
)
def test_every_dtype_of_pixels_gives_the_same_by_kernel_and_reference(dtype: str) -> None:
    geometry = Compose([RandomCrop(5)])
    source = image(1, dtype=dtype)
    moved = assert_same(geometry, source, index=3)
    assert moved.dtype == Spec.of(source).dtype
    assert set(moved.ravel().tolist()) <= set(source.astype(moved.dtype).ravel().tolist())


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: a[::-1, ::-1],
        lambda a: a[::2, 1:],
        lambda a: a[..., ::-1],
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
    ids=["plain", "fortran", "reversed", "sliced", "bgr", "broadcast"],
)
def test_memory_layout_makes_no_difference(view: Any) -> None:
    source = view(image(2, (24, 28, 3)))
    source.flags.writeable = False
    expected, _ = both(CHAIN, np.ascontiguousarray(source), index=5)
    np.testing.assert_array_equal(assert_same(CHAIN, source, index=5), expected)


@pytest.mark.parametrize(
    ("shape", "layout"), [((12, 14), "HW"), ((12, 14, 1), "HWC"), ((12, 14, 4), "HWC"), ((12, 14, 7), "HWC")]
)
def test_any_number_of_channels(shape: tuple[int, ...], layout: str) -> None:
    chain = Compose([RandomCrop(9), HorizontalFlip(), Normalize(0.5, 0.25), ToCHW()])
    assert assert_same(chain, image(3, shape), index=1).shape[1:] == (9, 9)


def test_channels_first_is_read_when_it_is_said() -> None:
    source = image(4, (3, 12, 14))
    chain = Compose([ToHWC(), HorizontalFlip(1.0), RandomCrop(9)])
    assert assert_same(chain, source).shape == (9, 9, 3)
    expected = HorizontalFlip(1.0).apply(np.moveaxis(source, 0, 2))
    np.testing.assert_array_equal(assert_same(Compose([ToHWC(), HorizontalFlip(1.0)]), source), expected)


def test_nothing_to_do_is_a_copy() -> None:
    for source in (image(5), np.arange(7), np.arange(6.0).reshape(2, 3), np.zeros((0, 3, 3), np.uint8)):
        result = assert_same(Compose([]), source)
        np.testing.assert_array_equal(result, source)


def test_nan_and_infinities_pass_through_geometry_and_arithmetic() -> None:
    source = image(6, dtype=np.float32)
    source[2:8, 3] = np.nan
    source[4, 2:9] = np.inf
    source[5, :] = -np.inf
    result = assert_same(CHAIN, source, index=2)
    assert np.isnan(result).any()


def test_alternatives_are_taken_as_often_as_they_weigh() -> None:
    marks = Compose([OneOf([Normalize(0, 1), Normalize(1, 1), Normalize(2, 1)], weights=[1, 0, 3])])
    source = np.zeros((2, 2, 1), np.float32)
    taken = Counter(float(marks.apply(source, index=i)[0, 0, 0]) for i in range(2000))
    assert set(taken) == {0.0, -2.0}
    assert 400 < taken[0.0] < 600  # 500 expected, standard deviation 19


def test_an_alternative_is_taken_with_its_probability() -> None:
    source = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)
    for p, low, high in ((0.0, 0, 0), (0.25, 420, 580), (1.0, 2000, 2000)):
        chain = RandomApply([HorizontalFlip(1.0)], p)
        flipped = sum(chain.apply(source, index=i)[0, 0, 0] == 4 for i in range(2000))
        assert low <= flipped <= high


def test_neighbouring_samples_epochs_and_seeds_draw_differently() -> None:
    chain = Compose([RandomCrop(4)])
    drawn = [
        tuple(chain.parameters(seed, epoch, index, like=Spec.image_of(500, 500))[0].values.values())
        for seed in range(5)
        for epoch in range(5)
        for index in range(8)
    ]
    assert len(set(drawn)) == len(drawn)


def test_parameters_tell_what_a_sample_got() -> None:
    source = image(7, (40, 40, 3))
    for index in range(20):
        crop, flip = Compose([RandomCrop(8), HorizontalFlip()]).parameters(3, 1, index, like=source)
        top, left = (int(crop.values[name]) for name in ("top", "left"))
        expected = source[top : top + 8, left : left + 8]
        expected = expected[:, ::-1] if flip.values["flipped"] else expected
        got = Compose([RandomCrop(8), HorizontalFlip()]).apply(source, seed=3, epoch=1, index=index)
        np.testing.assert_array_equal(got, expected)


def test_parameters_leave_out_what_was_not_taken() -> None:
    chain = Compose([OneOf([HorizontalFlip(1.0), VerticalFlip(1.0)])])
    names = {tuple(each.transform.partition("(")[0] for each in chain.parameters(0, 0, i)) for i in range(30)}
    assert names == {("OneOf", "HorizontalFlip"), ("OneOf", "VerticalFlip")}


def test_plain_functions_end_one_kernel_and_begin_another() -> None:
    def halve(array: Any) -> Any:
        return array[::2]

    chain = Compose([HorizontalFlip(1.0), halve, RandomCrop(4), Compose([halve])])
    source = image(8)
    result = chain.apply(source, index=3)
    assert result.shape == (2, 4, 3)
    with pytest.raises(ValueError, match="plain function"):
        chain.parameters()


def test_kernels_behind_a_plain_function_draw_numbers_of_their_own() -> None:
    def same(array: Any) -> Any:
        return array

    source = np.arange(100, dtype=np.uint8).reshape(10, 10)
    chain = Compose([HorizontalFlip(0.5), same, HorizontalFlip(0.5)])
    # Were the numbers the same, every image would be flipped twice or not at all.
    assert any((chain.apply(source, index=i) != source).any() for i in range(20))


def test_transforms_are_values() -> None:
    twin = Compose([RandomCrop((9, 9)), HorizontalFlip(), VerticalFlip(), NORMALIZE, ToCHW()])
    assert twin == CHAIN
    assert hash(twin) == hash(CHAIN)
    assert pickle.loads(pickle.dumps(CHAIN)) == CHAIN
    assert copy.deepcopy(CHAIN) == CHAIN
    assert (
        repr(Compose([HorizontalFlip(), RandomCrop(3)]))
        == "Compose(transforms=[HorizontalFlip(), RandomCrop(size=(3, 3))])"
    )
    with pytest.raises(AttributeError):
        CHAIN.transforms = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Compose(A_CLASS), TypeError, "Compose.transforms"),
        (lambda: Compose([HorizontalFlip]), TypeError, "is a class; call it first"),
        (lambda: Compose([NUMBER]), TypeError, "3 is not a transform"),
        (lambda: Compose(TEXT), TypeError, "expected a list"),
        (
            lambda: RandomApply([HorizontalFlip()], 1.5),
            ValueError,
            r"RandomApply.p=1.5: expected a number from 0 to 1",
        ),
        (lambda: RandomApply([HorizontalFlip()], True), TypeError, "RandomApply.p=True"),
        (lambda: RandomApply([as_it_is]), TypeError, "plain function"),
        (lambda: OneOf([]), ValueError, "at least one"),
        (lambda: OneOf(ONE_FLIP), TypeError, "OneOf.transforms"),
        (lambda: OneOf([HorizontalFlip()], weights=[1, 2]), ValueError, "expected 1 numbers"),
        (lambda: OneOf([HorizontalFlip()], weights=[0]), ValueError, "not all of them 0"),
        (lambda: OneOf([HorizontalFlip()], weights=[-1]), ValueError, "OneOf.weights"),
        (lambda: HorizontalFlip(p=float("nan")), ValueError, "HorizontalFlip.p"),
    ],
)
def test_wrong_arguments_are_refused_when_a_transform_is_made(
    make: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize(
    ("transform", "source", "words"),
    [
        (RandomCrop(20), image(0), r"RandomCrop\(size=\(20, 20\)\): the image has 12 x 14"),
        (Normalize([1, 2], 1), image(0), "mean has 2 values.* 3 channels"),
        (HorizontalFlip(), np.zeros(5), "expected an image"),
        (HorizontalFlip(), np.zeros((2, 2, 2, 2)), "expected an image"),
        (HorizontalFlip(), np.zeros((3, 224, 224), np.uint8), "channels first; begin with ToHWC"),
        (HorizontalFlip(), np.zeros((4, 4, 3), np.int64), "images of int64 are not supported"),
        (HorizontalFlip(), np.zeros((4, 4, 3), complex), "images of complex128"),
        (RandomApply([RandomCrop(3)]), image(0), "has to keep shape and dtype"),
        (OneOf([HorizontalFlip(), NORMALIZE]), image(0), "has to keep shape and dtype"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(transform: Any, source: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        transform.apply(source)
    with pytest.raises(ValueError, match=words):
        transform.output_spec(Spec.of(source))


@pytest.mark.parametrize("value", ["text", 3, None, np.ma.masked_array([1, 2])])
def test_only_arrays_are_transformed(value: Any) -> None:
    with pytest.raises(TypeError, match="transforms take arrays"):
        HorizontalFlip().apply(value)


def test_the_source_can_be_read_and_the_plan_be_told() -> None:
    source = CHAIN.source()
    assert "def augment(" in source
    assert "# One sweep: 0 RandomCrop, 1 HorizontalFlip, 2 VerticalFlip, 3 Normalize" in source
    compile(source, "source", "exec")
    told = CHAIN.explain(image(0))
    assert "takes uint8[12, 14, 3]" in told
    assert "gives float32[3, 9, 9] CHW" in told
    assert "arrays in between: none" in told


def test_other_numbers_need_no_other_kernel() -> None:
    assert (
        Compose([RandomCrop(5), HorizontalFlip(0.1)]).source()
        == Compose([RandomCrop(9), HorizontalFlip(0.9)]).source()
    )
