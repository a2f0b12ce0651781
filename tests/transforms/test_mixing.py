"""Every sample of a batch is mixed with the next one, pixels and labels by the same weight."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nogil_loader.kernels.mixing import draw_patch, symmetric_beta
from nogil_loader.transforms.chain import draw_for
from nogil_loader.transforms.labels import mix_labels
from nogil_loader.transforms.mixing import CutMix, MixUp, blended, pasted
from nogil_loader.transforms.several import BatchTransform
from tests.scripts import RunScript

Array = npt.NDArray[Any]

unit = st.integers(0, 2**32 - 1).map(lambda word: word * 2.0**-32)


def images_of(count: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).random((count, *shape))
    return (values * (200 if np.dtype(dtype).kind in "iu" else 1)).astype(dtype)


def mixed_with_weights(transform: BatchTransform, images: Array, indices: Any, seed: int = 0) -> Any:
    """Return mixed images and the samples' own weights, which labels of two classes tell."""
    # Sample i has class i, so that no label is its own partner's.
    labels = np.eye(len(images))
    made, weights = transform.apply((images, labels), seed=seed, indices=indices)
    return made, np.diagonal(weights)


# The distribution


@given(u=unit, v=unit, alpha=st.floats(1e-3, 1e6))
def test_a_beta_number_is_between_0_and_1_whatever_is_drawn(u: float, v: float, alpha: float) -> None:
    assert 0 <= symmetric_beta(u, v, alpha) <= 1


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 3.0, 40.0])
def test_beta_numbers_have_the_moments_of_their_distribution(alpha: float) -> None:
    # Over a grid of both uniform numbers, so that nothing is left to chance.
    steps = (np.arange(400) + 0.5) / 400
    numbers = np.array([symmetric_beta(u, v, alpha) for u in steps for v in steps])
    assert numbers.mean() == pytest.approx(0.5, abs=1e-12)
    for power in (2, 4, 8):
        # E[x**n] is the product of (alpha + i) / (2 alpha + i) for i < n.
        expected = math.prod((alpha + i) / (2 * alpha + i) for i in range(power))
        assert (numbers**power).mean() == pytest.approx(expected, rel=3e-3)


@given(
    drawn=st.tuples(unit, unit, unit, unit, unit),
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    p=st.floats(0, 1),
)
def test_a_patch_lies_in_the_image_and_leaves_the_weight_of_what_it_leaves(
    drawn: tuple[float, ...], size: tuple[int, int], p: float
) -> None:
    patch = np.empty(5)
    draw_patch(np.array(drawn), np.array([p, 1.0]), np.array(size), patch)
    weight, top, left, bottom, right = patch
    assert 0 <= top <= bottom <= size[0]
    assert 0 <= left <= right <= size[1]
    assert weight == pytest.approx(1 - (bottom - top) * (right - left) / math.prod(size), abs=1e-12)
    if drawn[0] >= p:
        assert weight == 1
        return
    # As torchvision has it, for rows and for columns.
    reach = 0.5 * math.sqrt(1 - symmetric_beta(drawn[1], drawn[2], 1.0))
    for centre, length, low, high in zip(drawn[3:], size, (top, left), (bottom, right), strict=True):
        middle, half = int(centre * length), int(reach * length)
        assert low == max(middle - half, 0)
        assert high == min(middle + half, length)


# MixUp


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int16", "uint32"])
def test_mixup_does_what_numpy_does(dtype: str) -> None:
    images = images_of(6, (3, 5, 7), dtype)
    before = images.copy()
    made, weights = mixed_with_weights(MixUp(alpha=1.0), images, range(6))
    assert made.dtype == images.dtype
    np.testing.assert_array_equal(made, blended(before, weights))
    np.testing.assert_array_equal(images, before)
    assert len(set(weights.tolist())) == 6


@given(data=st.data())
def test_mixup_of_any_shape_blends_each_sample_with_the_next_one(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 9), max_size=3)))
    count = data.draw(st.integers(2, 6))
    images = images_of(count, shape, "float32", data.draw(st.integers(0, 99)))
    made, weights = mixed_with_weights(MixUp(alpha=2.0), images, range(count), data.draw(st.integers(0, 99)))
    for i in range(count):
        expected = weights[i] * images[i] + (1 - weights[i]) * images[(i + 1) % count]
        np.testing.assert_allclose(made[i], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float32"])
@pytest.mark.parametrize("transform", [MixUp(1.0), CutMix(1.0)], ids=["MixUp", "CutMix"])
def test_mixing_equal_images_changes_no_integer(transform: BatchTransform, dtype: str) -> None:
    largest = np.iinfo(dtype).max if dtype != "float32" else 1.0
    images = np.full((4, 1, 3, 3), largest, dtype)
    made, _ = mixed_with_weights(transform, images, range(4))
    np.testing.assert_allclose(made, images, rtol=0 if dtype != "float32" else 2e-7)


@pytest.mark.parametrize("transform", [MixUp(p=0.0, num_classes=3), CutMix(p=0.0, num_classes=3)])
def test_with_p_0_a_sample_stays_as_it_is_whatever_its_neighbour_is(transform: BatchTransform) -> None:
    images = np.array([[[[1.0]]], [[[math.nan]]], [[[math.inf]]]], np.float32)
    made, labels = transform.apply((images, np.array([2, 0, 1])), indices=range(3))
    np.testing.assert_array_equal(made, images)
    np.testing.assert_array_equal(labels, np.eye(3)[[2, 0, 1]])
    assert labels.dtype == np.float32


@settings(max_examples=20)
@given(p=st.floats(0.1, 0.9), seed=st.integers(0, 2**32))
def test_p_is_the_share_of_samples_that_are_mixed(p: float, seed: int) -> None:
    _, labels = MixUp(2.0, 2, p).apply(
        (np.zeros((1000, 1), np.float32), np.arange(1000) % 2), seed=seed, indices=range(1000)
    )
    # Five standard deviations.
    assert abs((labels.max(1) < 1).mean() - p) < 5 * math.sqrt(p * (1 - p) / 1000)


# CutMix


@pytest.mark.parametrize(
    ("layout", "shape"), [("CHW", (2, 9, 14)), ("HWC", (9, 14, 2)), ("CHW", (9, 14)), ("HWC", (9, 14))]
)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
def test_a_patch_is_the_same_rectangle_of_the_next_image_and_labels_weigh_its_area(
    layout: str, shape: tuple[int, ...], dtype: str
) -> None:
    count = 8
    images = (np.arange(count * math.prod(shape)).reshape(count, *shape) // 3 % 251).astype(dtype)
    made, weights = mixed_with_weights(CutMix(layout=layout), images, range(count))
    marks = np.zeros(images.shape, np.int16) + np.arange(count).reshape(-1, *(1,) * len(shape))
    (origins, again) = mixed_with_weights(CutMix(layout=layout), marks.astype(np.int16), range(count))
    np.testing.assert_array_equal(weights, again)
    assert 0 < weights.min() < weights.max()
    for i in range(count):
        assert set(np.unique(origins[i])) <= {i, (i + 1) % count}
        own = origins[i] == i
        assert own.mean() == pytest.approx(weights[i], abs=1e-6)
        np.testing.assert_array_equal(made[i], np.where(own, images[i], images[(i + 1) % count]))
        planes = own.reshape(-1, 9, 14) if layout == "CHW" or len(shape) == 2 else own.transpose(2, 0, 1)
        patch = ~planes[0]
        assert (planes == planes[0]).all()
        assert patch.sum() == patch.any(0).sum() * patch.any(1).sum()


def test_numpy_pastes_the_same_patches() -> None:
    images = images_of(3, (2, 4, 5), "float32")
    drawn = np.array([[0.5, 0, 0, 2, 3], [0.5, 1, 2, 4, 5], [0.5, 3, 0, 4, 5]])
    made = pasted(images, drawn)
    np.testing.assert_array_equal(made[0, :, :2, :3], images[1, :, :2, :3])
    np.testing.assert_array_equal(made[1, :, 1:4, 2:], images[2, :, 1:4, 2:])
    np.testing.assert_array_equal(made[2, :, 3:], images[0, :, 3:])
    assert (made != images).sum() == 2 * (6 + 9 + 5)


# Both


@pytest.mark.parametrize("transform", [MixUp(1.0), CutMix(1.0)], ids=["MixUp", "CutMix"])
def test_the_weight_of_a_sample_depends_on_its_own_key_alone(transform: BatchTransform) -> None:
    images = images_of(5, (1, 8, 8), "float32")
    keys = [7, 2**40, "name", (1, 2), -3]
    _, weights = mixed_with_weights(transform, images, keys)
    order = [3, 0, 4, 1, 2]
    _, moved = mixed_with_weights(transform, images, [keys[at] for at in order])
    np.testing.assert_array_equal(moved, weights[order])
    _, other = mixed_with_weights(transform, images, keys, seed=1)
    assert not set(weights) & set(other)


@pytest.mark.parametrize("transform", [MixUp(1.0, 3), CutMix(1.0, 3)], ids=["MixUp", "CutMix"])
def test_a_batch_of_one_is_mixed_with_itself(transform: BatchTransform) -> None:
    images = images_of(1, (1, 6, 6), "float32")
    made, labels = transform.apply((images, np.array([1])), indices=[4])
    np.testing.assert_allclose(made, images, rtol=2e-7)
    np.testing.assert_array_equal(labels, [[0, 1, 0]])


@pytest.mark.parametrize("transform", [MixUp(1.0), CutMix(1.0)], ids=["MixUp", "CutMix"])
def test_arrays_in_any_memory_order_give_the_same(transform: BatchTransform) -> None:
    images = images_of(4, (3, 6, 8), "float32")
    expected, _ = mixed_with_weights(transform, images, range(4))
    labels = np.eye(4)
    frozen = images.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(images), images.astype(">f4"), np.repeat(images, 2, 0)[::2], frozen):
        made, _ = transform.transform_batch((other, labels), draw_for(0, 0, range(4)))
        np.testing.assert_array_equal(made, expected)


def test_labels_are_one_hot_rows_mixed_by_the_weights() -> None:
    weights = np.array([0.25, 1.0, 0.5])
    labels = np.array([1, 1, 3], np.uint8)
    expected = [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0.5, 0, 0.5]]
    np.testing.assert_array_equal(mix_labels("T", labels, weights, 4), expected)
    soft = np.array([[0.5, 0.5], [1, 0], [0, 1]], np.float16)
    mixed = mix_labels("T", soft, weights, None)
    assert mixed.dtype == np.float16
    np.testing.assert_array_equal(mixed, [[0.875, 0.125], [1, 0], [0.25, 0.75]])


def test_plain_python_gives_the_same_bits(tmp_path: Path, run_script: RunScript) -> None:
    transforms = [MixUp(0.4, 10, 0.7), CutMix(1.0, 10, layout="HWC")]
    batches = [(images_of(5, (7, 6, 3), dtype), np.arange(5)) for dtype in ("float32", "uint8")]
    (tmp_path / "given").write_bytes(pickle.dumps((transforms, batches)))
    script = """
        import pickle
        from pathlib import Path
        import numpy as np

        transforms, batches = pickle.loads(Path("given").read_bytes())
        made = [each.apply(batch, seed=3, epoch=1, indices=range(5)) for each in transforms for batch in batches]
        np.savez("made", *(part for parts in made for part in parts))
    """
    result = run_script(script, environment={"NUMBA_DISABLE_JIT": "1"})
    assert result.returncode == 0, result.stderr
    expected = [
        each.apply(batch, seed=3, epoch=1, indices=range(5)) for each in transforms for batch in batches
    ]
    with np.load(tmp_path / "made.npz") as made:
        for at, part in enumerate(part for parts in expected for part in parts):
            np.testing.assert_array_equal(made[f"arr_{at}"], part)


IMAGES = np.zeros((4, 3, 8, 8), np.float32)
LABELS = np.arange(4)


@pytest.mark.parametrize(
    ("transform", "images", "labels", "message"),
    [
        (MixUp(), IMAGES, LABELS, r"MixUp\(\): integer labels need num_classes"),
        (MixUp(num_classes=3), IMAGES, LABELS, r"MixUp\(num_classes=3\): label 3; expected 0 to 2"),
        (
            CutMix(num_classes=9),
            IMAGES,
            LABELS - 1,
            r"CutMix\(num_classes=9\): label -1; expected 0 to 8",
        ),
        (MixUp(num_classes=9), IMAGES, LABELS[:, None], r"labels of int64 and shape \(4, 1\)"),
        (MixUp(num_classes=9), IMAGES, LABELS > 1, r"labels of bool and shape \(4,\)"),
        (
            MixUp(num_classes=9),
            IMAGES,
            np.zeros((4, 8)),
            r"float labels of shape \(4, 8\); expected \(B, 9\)",
        ),
        (MixUp(), IMAGES, np.zeros(4), r"float labels of shape \(4,\); expected \(B, classes\)"),
        (MixUp(num_classes=9), IMAGES, LABELS[:3], r"labels of shape \(3,\) in a batch of 4 samples"),
        (MixUp(num_classes=9), IMAGES[:2], LABELS, r"images of shape \(2, 3, 8, 8\) in a batch of 4 samples"),
        (MixUp(num_classes=9), IMAGES.astype(np.int64), LABELS, "images of int64 are not supported"),
        (MixUp(num_classes=9), IMAGES > 0, LABELS, "images of bool cannot be blended"),
        (CutMix(num_classes=9), IMAGES[:, 0, 0], LABELS, r"not an array of shape \(4, 8\)"),
        (CutMix(num_classes=9), IMAGES[:, :, :0], LABELS, r"not an array of shape \(4, 3, 0, 8\)"),
    ],
)
def test_what_cannot_be_mixed_is_refused(
    transform: BatchTransform, images: Array, labels: Array, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        transform.apply((images, labels), indices=range(4))
    assert str(caught.value).startswith(type(transform).__name__)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: MixUp(alpha=0), ValueError, r"MixUp.alpha=0: expected a number from 0.001"),
        (lambda: MixUp(alpha=cast(Any, "1")), TypeError, r"MixUp.alpha='1'"),
        (lambda: CutMix(p=1.5), ValueError, r"CutMix.p=1.5: expected a number from 0 to 1"),
        (lambda: CutMix(num_classes=0), ValueError, r"CutMix.num_classes"),
        (lambda: CutMix(layout="HW"), ValueError, r"CutMix.layout='HW': expected 'CHW' or 'HWC'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_two_keys_are_needed() -> None:
    MixUp().check_keys(2)
    with pytest.raises(ValueError, match=r"MixUp\(\): 1 key; expected two"):
        MixUp().check_keys(1)


@pytest.mark.parametrize("transform", [MixUp(0.3, 7), CutMix(layout="HWC")])
def test_they_are_values(transform: BatchTransform) -> None:
    assert pickle.loads(pickle.dumps(transform)) == transform == copy.deepcopy(transform)
    assert hash(transform) == hash(copy.copy(transform))
    assert repr(MixUp(0.3, 7)) == "MixUp(alpha=0.3, num_classes=7)"


def test_the_other_order_of_axes_is_noticed() -> None:
    batch = images_of(4, (16, 16, 3), "float32"), np.arange(4)
    with pytest.raises(ValueError, match=r"seem to be HWC; say so with layout='HWC'"):
        CutMix(1.0, 10).apply(batch, indices=range(4))
    batch = images_of(4, (3, 16, 16), "float32"), np.arange(4)
    with pytest.raises(ValueError, match=r"seem to be CHW"):
        CutMix(1.0, 10, layout="HWC").apply(batch, indices=range(4))
