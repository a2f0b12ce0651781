"""What happens to an image happens to its mask, its boxes and its keypoints, as far as it is geometry."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.image.affine import Affine
from nogil_loader.transforms.image.crop import CenterCrop, Crop, RandomCrop
from nogil_loader.transforms.image.erase import RandomErasing
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from nogil_loader.transforms.image.grey import Grayscale
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.levels import Invert
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.image.pad import Pad
from nogil_loader.transforms.image.resize import RandomResizedCrop
from nogil_loader.transforms.image.tone import Brightness
from nogil_loader.transforms.image.turn import Rotate90, Transpose
from nogil_loader.transforms.joint import Joint
from nogil_loader.transforms.masks import MaskForm
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Step
from nogil_loader.transforms.transform import Operation
from tests.scripts import RunScript

Array = npt.NDArray[Any]

ALL = ("image", "mask", "boxes", "keypoints")

# Marks what lies outside of the source.
OUTSIDE = -1.0
# Everything that moves pixels without blending them; (x + 1) / 0.5 is what is done to values.
MOVES = Joint(
    [
        RandomCrop(12, padding=5, fill=OUTSIDE),
        HorizontalFlip(),
        OneOf([RandomApply(Rotate90()), [Transpose(), VerticalFlip()], []]),
        Normalize(mean=-1.0, std=0.5),
        Pad((1, 2, 3, 4), fill=0.0),
        ToCHW(),
        CenterCrop((15, 14)),
    ],
    kinds=ALL,
    mask_fill=OUTSIDE,
)


class Scene:
    """An image whose pixels tell their own row and column, a mask that tells both, and points on every pixel."""

    def __init__(self, height: int, width: int) -> None:
        self.height, self.width = height, width
        self.rows, self.cols = np.mgrid[:height, :width]
        self.image = np.stack([self.rows, self.cols], -1).astype(np.float32)
        self.mask = (self.rows * 1000 + self.cols).astype(np.int32)
        self.points = np.stack([self.cols + 0.5, self.rows + 0.5], -1).reshape(-1, 2)
        corners = self.points - 0.5
        self.boxes = np.concatenate([corners, corners + 1], 1)


@given(
    height=st.integers(4, 30), width=st.integers(4, 30), seed=st.integers(0, 2**32), index=st.integers(0, 99)
)
def test_mask_points_and_boxes_stay_where_they_are_on_the_image(
    height: int, width: int, seed: int, index: int
) -> None:
    scene = Scene(height, width)
    image, mask, boxes, points = MOVES.apply(
        (scene.image, scene.mask, scene.boxes, scene.points), seed=seed, index=index
    )
    assert image.shape == (2, 15, 14)
    assert mask.shape == (15, 14)
    assert (mask.dtype, boxes.dtype, points.dtype) == (np.int32, np.float32, np.float32)
    rows, cols = (image * 0.5 - 1).astype(int)
    # The margin of the crop is 0 after normalisation, as that of the padding.
    outside = (image == 0).all(0)
    np.testing.assert_array_equal(mask, np.where(outside, OUTSIDE, rows * 1000 + cols))

    labels = scene.mask.reshape(-1)
    seen = np.isin(labels, mask)
    x, y = np.floor(points).astype(int).T
    np.testing.assert_array_equal(mask[y[seen], x[seen]], labels[seen])
    np.testing.assert_array_equal(points % 1, 0.5)
    # What the crop has cut off comes to lie in the margin, if anywhere in the picture.
    hidden = ~seen & (x >= 0) & (x < 14) & (y >= 0) & (y < 15)
    np.testing.assert_array_equal(mask[y[hidden], x[hidden]], OUTSIDE)

    sizes = boxes[:, 2:] - boxes[:, :2]
    np.testing.assert_array_equal(sizes.prod(1), seen)
    np.testing.assert_array_equal(boxes[seen, :2] + 0.5, points[seen])


@given(
    edges=st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(0, 15), st.integers(0, 15)),
    seed=st.integers(0, 2**32),
)
def test_a_box_is_as_tight_around_its_pixels_as_before(edges: tuple[int, ...], seed: int) -> None:
    left, right = sorted(edges[:2])
    top, bottom = sorted(edges[2:])
    scene = Scene(16, 16)
    _, mask, boxes, _ = MOVES.apply(
        (scene.image, scene.mask, [[left, top, right + 1, bottom + 1]], np.zeros((0, 2))), seed=seed
    )
    rows, cols = mask // 1000, mask % 1000
    inside = (mask >= 0) & (rows >= top) & (rows <= bottom) & (cols >= left) & (cols <= right)
    if inside.any():
        y, x = np.nonzero(inside)
        np.testing.assert_array_equal(boxes, [[x.min(), y.min(), x.max() + 1, y.max() + 1]])
    else:
        assert np.prod(boxes[0, 2:] - boxes[0, :2]) == 0


# Blending with the fill is far from any coordinate.
FAR = -1e9
BLENDS = Joint(
    [
        RandomResizedCrop(24, scale=(0.3, 1.0), antialias=False),
        Affine(degrees=(-40, 40), translate=0.1, scale=(0.7, 1.3), shear=(-10, 10), fill=FAR),
    ],
    kinds=ALL,
    mask_fill=OUTSIDE,
)


@given(
    height=st.integers(8, 20),
    width=st.integers(8, 20),
    edges=st.tuples(*[st.floats(0, 20)] * 4),
    index=st.integers(0, 2**40),
)
def test_points_are_where_a_blended_image_shows_their_coordinates(
    height: int, width: int, edges: tuple[float, ...], index: int
) -> None:
    scene = Scene(height, width)
    box = np.array([[*np.sort(edges[:2]), *np.sort(edges[2:])]])[:, [0, 2, 1, 3]]
    image, mask, *_ = BLENDS.apply((scene.image, scene.mask, box, np.zeros((0, 2))), index=index)
    # A linear ramp stays one when it is blended: pixels show the coordinates of the place that they come from.
    rows, cols = image[..., 0] + 0.5, image[..., 1] + 0.5
    part = BLENDS.parameters(index=index, like=scene.image)[0].values
    top, left = part["top"], part["left"]
    bottom, right = top + part["height"], left + part["width"]
    corners = np.clip(box[0, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(4, 2), [left, top], [right, bottom])
    shown = np.stack([cols, rows], -1).reshape(-1, 2)
    _, _, moved, points = BLENDS.apply(
        (scene.image, scene.mask, box, np.concatenate([shown, corners])), index=index
    )
    # Pixels near the border of the part are blended with copies of it.
    inner = (rows > top + 1.5) & (rows < bottom - 1.5) & (cols > left + 1.5) & (cols < right - 1.5)
    y, x = np.nonzero(inner)
    np.testing.assert_allclose(points[:-4].reshape(24, 24, 2)[inner], np.stack([x, y], -1) + 0.5, atol=2e-3)

    expected = np.concatenate([points[-4:].min(0), points[-4:].max(0)])
    np.testing.assert_allclose(moved[0], np.clip(expected, 0, 24), atol=1e-4)

    # The mask shows the nearest pixel of the nearest pixel.
    assert (np.abs(mask[inner] // 1000 + 0.5 - rows[inner]) < 1.3).all()
    assert (np.abs(mask[inner] % 1000 + 0.5 - cols[inner]) < 1.3).all()
    assert set(np.unique(mask)) <= {OUTSIDE, *scene.mask.reshape(-1)}


def test_what_is_no_geometry_is_done_to_the_image_only() -> None:
    joint = Joint(
        [
            Invert(),
            RandomCrop(16),
            RandomErasing(1.0),
            OneOf([Invert(), Brightness((0.5, 2.0))]),
            Grayscale(),
            HorizontalFlip(),
            Normalize(0.5, 0.2),
            ToCHW(),
        ]
    )
    image = np.random.default_rng(0).integers(0, 256, (24, 20, 3), np.uint8)
    mask = np.arange(480, dtype=np.uint16).reshape(24, 20)
    flips = set()
    for index in range(8):
        made, moved = joint.apply((image, mask), index=index)
        np.testing.assert_array_equal(made, Compose(cast(Any, joint.transforms)).apply(image, index=index))
        drawn = {
            each.transform.partition("(")[0]: each.values
            for each in joint.parameters(index=index, like=image)
        }
        top, left = (int(drawn["RandomCrop"][name]) for name in ("top", "left"))
        expected = mask[top : top + 16, left : left + 16]
        flips.add(drawn["HorizontalFlip"]["flipped"])
        np.testing.assert_array_equal(moved, expected[:, :: -1 if drawn["HorizontalFlip"]["flipped"] else 1])
    assert flips == {0, 1}


def test_without_geometry_the_other_parts_stay_as_they_are() -> None:
    joint = Joint([OneOf([Invert(), Brightness((0.5, 2.0))])], ALL)
    image, mask = np.zeros((4, 5, 3), np.uint8), np.arange(20, dtype=np.int16).reshape(4, 5)
    boxes, points = np.array([[0, 1, 2, 3.5]]), np.array([[7.0, -1.0, 2.0]])
    _, same_mask, same_boxes, same_points = joint.apply((image, mask, boxes, points))
    np.testing.assert_array_equal(same_mask, mask)
    np.testing.assert_array_equal(same_boxes, boxes)
    np.testing.assert_array_equal(same_points, points)
    assert not np.shares_memory(same_mask, mask)


PADDED = Joint([Pad(1)], mask_fill=1)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("bool", (3, 4)), ("int64", (3, 4)), (">u2", (3, 4, 2)), ("float16", (3, 4, 2))]
)
def test_a_mask_keeps_its_dtype_and_its_values(dtype: str, shape: tuple[int, ...]) -> None:
    mask = np.zeros(shape, dtype)
    mask[1, 2:] = 1
    if mask.dtype.kind != "b":
        largest = np.finfo(dtype).max if mask.dtype.kind == "f" else np.iinfo(dtype).max
        mask[0, 0] = largest
    before = mask.copy()
    _, moved = PADDED.apply((np.zeros((3, 4, 1), np.float32), mask))
    margin = ((1, 1), (1, 1), (0, 0))[: len(shape)]
    np.testing.assert_array_equal(moved, np.pad(mask, margin, constant_values=1))
    assert moved.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(mask, before)


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
@given(data=st.data())
def test_labels_become_pixels_and_pixels_labels(planar: bool, shape: tuple[int, ...], data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from("?bBhHiIqQefd")))
    mask = np.frombuffer(np.random.default_rng(0).bytes(480), dtype)[: np.prod(shape)].reshape(shape)
    if dtype.kind == "b":
        mask = mask.view(np.uint8) > 127
    form = MaskForm.of("T", Spec(shape, dtype), 1, planar=planar)
    pixels = form.pixels(mask)
    assert Spec(pixels.shape, pixels.dtype, form.spec.layout).image("T") == form.spec
    assert form.mask(pixels).tobytes() == mask.tobytes()
    fill = np.array(form.fill).astype(pixels.dtype)
    assert len(fill) in (1, form.spec.channels)
    filled = np.broadcast_to(fill, pixels.shape) if form.spec.layout != "CHW" else np.full(pixels.shape, fill)
    np.testing.assert_array_equal(form.mask(np.ascontiguousarray(filled)), np.ones(shape))


def test_an_image_with_its_channels_first_has_a_mask_with_its_channels_first() -> None:
    joint = Joint([ToHWC(), Crop(1, 2, 3, 4)], ("image", "mask", "mask", "image"))
    image = np.arange(2 * 6 * 7, dtype=np.uint8).reshape(2, 6, 7)
    mask = np.arange(3 * 6 * 7).reshape(3, 6, 7)
    made, moved, plain, second = joint.apply((image, mask, mask[0], image + 1))
    np.testing.assert_array_equal(made, image.transpose(1, 2, 0)[1:4, 2:6])
    np.testing.assert_array_equal(second, made + 1)
    np.testing.assert_array_equal(moved, mask[:, 1:4, 2:6])
    np.testing.assert_array_equal(plain, mask[0, 1:4, 2:6])


def test_a_mirrored_margin_mirrors_the_mask_but_no_points() -> None:
    joint = Joint([Pad((3, 0, 0, 0), "reflect")], ALL)
    scene = Scene(2, 5)
    image, mask, boxes, points = joint.apply((scene.image, scene.mask, [[0, 0, 2, 1]], [[0.5, 1.5]]))
    np.testing.assert_array_equal(image[0, :, 1], [3, 2, 1, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(mask[0], image[0, :, 1])
    np.testing.assert_array_equal(boxes, [[3, 0, 5, 1]])
    np.testing.assert_array_equal(points, [[3.5, 1.5]])


BOXES = Joint([Crop(2, 1, 6, 8), HorizontalFlip(1.0)], ("image", "boxes", "keypoints"))
IMAGE = np.zeros((10, 12, 3), np.uint8)


def test_boxes_are_cut_at_the_edge_and_keep_their_places() -> None:
    boxes = [[0, 0, 4, 4], [2.5, 3, 5, 4.5], [9.5, 0, 12, 10], [3, 0, 5, 1.5]]
    _, moved, _ = BOXES.apply((IMAGE, boxes, np.zeros((0, 2))))
    np.testing.assert_array_equal(moved, [[5, 0, 8, 2], [4, 1, 6.5, 2.5], [0, 0, 0, 6], [4, 0, 6, 0]])
    left, top, right, bottom = moved.T
    np.testing.assert_array_equal((right > left) & (bottom > top), [True, True, False, False])


def test_points_may_leave_the_picture_and_take_their_columns_along() -> None:
    people = np.array([[[1, 2, 0], [9, 8, 1]], [[0, 0, 2], [5.5, 5, 2]]], np.float64)
    _, boxes, moved = BOXES.apply((IMAGE, np.zeros((0, 4)), people))
    np.testing.assert_array_equal(moved, [[[8, 0, 0], [0, 6, 1]], [[9, -2, 2], [3.5, 3, 2]]])
    assert moved.dtype == boxes.dtype == np.float32
    assert boxes.shape == (0, 4)


def test_the_forms_of_boxes_mean_the_same() -> None:
    boxes = np.array([[0, 0, 4, 4], [2.5, 3, 5, 4.5]])
    first, last = boxes[:, :2], boxes[:, 2:]
    _, expected = Joint(BOXES.transforms, ("image", "boxes")).apply((IMAGE, boxes))
    for form, place in (("xywh", first), ("cxcywh", (first + last) / 2)):
        joint = Joint(BOXES.transforms, ("image", "boxes"), box_format=form)
        _, moved = joint.apply((IMAGE, np.concatenate([place, last - first], 1)))
        corner = moved[:, :2] if form == "xywh" else moved[:, :2] - moved[:, 2:] / 2
        np.testing.assert_array_equal(np.concatenate([corner, corner + moved[:, 2:]], 1), expected)


def test_plain_python_gives_the_same_bits(tmp_path: Path, run_script: RunScript) -> None:
    scene = Scene(13, 9)
    parts = (scene.image, scene.mask, [[1.5, 2, 7, 8]], [[3, 4.25], [0, 10]])
    (tmp_path / "joint").write_bytes(pickle.dumps((MOVES, parts)))
    script = """
        import pickle
        from pathlib import Path
        import numpy as np

        joint, parts = pickle.loads(Path("joint").read_bytes())
        made = [part for index in range(12) for part in joint.apply(parts, index=index)]
        np.savez("made", *made)
    """
    result = run_script(script, environment={"NUMBA_DISABLE_JIT": "1"})
    assert result.returncode == 0, result.stderr
    with np.load(tmp_path / "made.npz") as made:
        for at in range(48):
            index, part = divmod(at, 4)
            np.testing.assert_array_equal(made[f"arr_{at}"], MOVES.apply(parts, index=index)[part])


class EveryOtherRow(Operation):
    """Changes the size of an image, and nobody knows how."""

    def step(self, spec: Spec) -> Step:
        spec = spec.image(self)
        return Step("EveryOtherRow()", "sample", None, None, spec, spec.resized(spec.height // 2, spec.width))


PLAIN = [HorizontalFlip()]
MASK = np.zeros((10, 12), np.int32)


@pytest.mark.parametrize(
    ("joint", "values", "message"),
    [
        (
            Joint(PLAIN),
            (IMAGE, MASK[:, :9]),
            r"image has 10 x 12 pixels \(shape \(10, 12, 3\)\), but part 1, mask",
        ),
        (Joint(PLAIN), (IMAGE, MASK[0]), r"expected an image or a mask, not an array of shape \(12,\)"),
        (Joint(PLAIN), (IMAGE, MASK.astype(complex)), "a mask of complex128 is not supported"),
        (Joint(PLAIN, mask_fill=0.5), (IMAGE, MASK), "mask_fill 0.5 does not fit arrays of int32"),
        (Joint(PLAIN, mask_fill=256), (IMAGE, MASK.astype(np.uint8)), "mask_fill 256.0 does not fit"),
        (Joint([RandomCrop(11)]), (IMAGE, MASK), r"RandomCrop\(size=\(11, 11\)\): the image has 10 x 12"),
        (Joint([EveryOtherRow()]), (IMAGE, MASK), r"EveryOtherRow\(\): it makes uint8\[5, 12, 3\] HWC of"),
        (Joint(PLAIN, ("image", "boxes")), (IMAGE, np.zeros(4)), r"expected boxes \(N, 4\)"),
        (Joint(PLAIN, ("image", "boxes")), (IMAGE, [["a"] * 4]), "boxes of <U1 are not supported"),
        (Joint(PLAIN, ("image", "keypoints")), (IMAGE, np.zeros((3, 1))), r"expected keypoints \(N, 2\)"),
        (Joint(PLAIN), (IMAGE,), r"1 keys, but kinds=\['image', 'mask'\] are 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(joint: Joint, values: Sequence[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        joint.apply(values)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: Joint(cast(Any, [np.flip])),
            TypeError,
            "Joint.transforms: <function flip.* is a plain function",
        ),
        (
            lambda: Joint([Compose([np.flip])]),
            TypeError,
            "Joint.transforms: <function flip.* is a plain function",
        ),
        (lambda: Joint(cast(Any, [HorizontalFlip])), TypeError, "HorizontalFlip is a class; call it first"),
        (
            lambda: Joint(PLAIN, ("mask", "boxes")),
            ValueError,
            r"Joint.kinds=\['mask', 'boxes'\]: expected an image",
        ),
        (lambda: Joint(PLAIN, ("image", "box")), ValueError, "Joint.kinds='box': expected 'image' or 'mask'"),
        (lambda: Joint(PLAIN, "image"), TypeError, "Joint.kinds='image': expected a list"),
        (lambda: Joint(PLAIN, box_format="yxyx"), ValueError, "Joint.box_format='yxyx'"),
        (lambda: Joint(PLAIN, mask_fill=float("nan")), ValueError, "Joint.mask_fill=nan"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_it_is_a_value() -> None:
    PADDED.apply((np.zeros((3, 4, 1), np.float32), np.zeros((3, 4), bool)))
    for twin in (pickle.loads(pickle.dumps(PADDED)), copy.deepcopy(PADDED)):
        assert twin == PADDED
        assert hash(twin) == hash(PADDED)
    assert repr(PADDED) == "Joint(transforms=[Pad(padding=(1, 1, 1, 1))], mask_fill=1.0)"
    assert Joint(PADDED.transforms) != PADDED
