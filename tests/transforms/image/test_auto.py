from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nogil_loader.kernels.philox import epoch_key
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.image.auto import RandAugment, TrivialAugmentWide
from nogil_loader.transforms.image.colour import Saturation
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.histogram import AutoContrast, Equalize
from nogil_loader.transforms.image.levels import Posterize, Solarize
from nogil_loader.transforms.image.magnitude import place_motion
from nogil_loader.transforms.image.sharpness import Sharpness
from nogil_loader.transforms.image.tone import Brightness
from nogil_loader.transforms.reference import draw_parameters
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.step import Choice
from nogil_loader.transforms.transform import Operation, Transform
from tests.transforms.image.agree import run
from tests.transforms.image.pictures import picture

_SPEC = Spec((60, 90, 3), np.dtype(np.uint8))
_MOTIONS = ("shear_x", "shear_y", "translate_x", "translate_y", "degrees")
_TONES = ("brightness", "color", "bits", "threshold")
_STILL = {**dict.fromkeys(_MOTIONS, 0.0), "brightness": 1.0, "color": 1.0, "bits": 8.0, "threshold": math.inf}
_OTHERS = ("Contrast", "Sharpness", "AutoContrast", "Equalize", "identity")


@functools.cache
def fitted(transform: Transform, spec: Spec) -> Fit:
    return Fit.of(transform, spec)


def taken(transform: Transform, index: int, spec: Spec = _SPEC) -> list[tuple[str, float]]:
    """The operations that a sample gets, each with its parameter, None if it has none."""
    fit = fitted(transform, spec)
    drawn = {
        node.position: values for node, values in draw_parameters(fit, epoch_key=epoch_key(0, 0), word=index)
    }
    found = []
    for choice in fit.nodes:
        assert isinstance(choice, Choice)
        name, value = "identity", math.nan
        for step in choice.branches[int(drawn[choice.position][0])]:
            name = step.name.partition("(")[0]
            values = dict(zip(step.parameters, drawn[step.position].tolist(), strict=True))  # type: ignore[union-attr]
            for parameter, value in values.items():
                if parameter in _STILL and value != _STILL[parameter]:
                    name = parameter
                    break
        found.append((name, value))
    return found


def test_all_operations_are_drawn_equally_often() -> None:
    names: Counter[str] = Counter()
    for index in range(700):
        names.update(name for name, _ in taken(RandAugment(2), index))
    assert set(names) == {*_MOTIONS, *_TONES, *_OTHERS}
    assert 60 < min(names.values()) <= max(names.values()) < 145


def test_operations_of_a_sample_are_drawn_independently() -> None:
    pairs = [taken(RandAugment(2), index) for index in range(300)]
    assert 8 < sum(first[0] == second[0] for first, second in pairs) < 40
    signs = [(a > 0, b > 0) for (n, a), (m, b) in pairs if n in _MOTIONS and m in _MOTIONS]
    assert len(set(signs)) == 4


def test_magnitudes_are_those_of_torchvision() -> None:
    expected = {  # of bin 9 of 31
        "shear_x": 0.3 * 0.3,
        "shear_y": 0.3 * 0.3,
        "translate_x": float(int(150 / 331 * 90 * 0.3)),
        "translate_y": float(int(150 / 331 * 60 * 0.3)),
        "degrees": 9.0,
        "brightness": 0.27,
        "color": 0.27,
        "Contrast": 0.27,
        "Sharpness": 0.27,
        "bits": 7.0,
        "threshold": 255 * 0.7,
    }
    seen: dict[str, set[float]] = {name: set() for name in expected}
    for index in range(300):
        for name, value in taken(RandAugment(2, 9), index):
            if name in expected:
                seen[name].add(round(value, 9))
    for name, magnitude in expected.items():
        middle = 1.0 if name in ("brightness", "color", "Contrast", "Sharpness") else 0.0
        both = {middle - magnitude, middle + magnitude} if name not in ("bits", "threshold") else {magnitude}
        assert seen[name] == {round(each, 9) for each in both}, name


def test_magnitudes_of_trivial_augment_are_drawn() -> None:
    seen: dict[str, set[float]] = {}
    for index in range(1500):
        ((name, value),) = taken(TrivialAugmentWide(), index)
        seen.setdefault(name, set()).add(value)
    assert seen["bits"] == {2, 3, 4, 5, 6, 7}  # and 8, which changes nothing
    assert max(map(abs, seen["translate_x"])) == 32
    assert all(value == int(value) for value in seen["translate_y"])
    assert 0.8 < max(seen["shear_x"]) <= 0.99
    assert 100 < max(seen["degrees"]) <= 135
    assert -135 <= min(seen["degrees"]) < -100
    assert 0.01 <= min(seen["brightness"]) < 0.3
    assert 1.7 < max(seen["Contrast"]) <= 1.99
    assert 0 <= min(seen["threshold"]) < 40
    assert 50 < len({round(each, 9) for each in seen["color"] | seen["brightness"]}) <= 61


_SAME: dict[str, Callable[[float], Operation]] = {
    "brightness": Brightness,
    "color": Saturation,
    "bits": lambda bits: Posterize(int(bits)),
    "threshold": Solarize,
    "Contrast": Contrast,
    "Sharpness": Sharpness,
    "AutoContrast": lambda _: AutoContrast(),
    "Equalize": lambda _: Equalize(),
}


def test_operations_are_those_that_can_be_had_alone() -> None:
    image = picture(9, 8)
    done = set()
    for index in range(200):
        ((name, value),) = taken(RandAugment(1, 20), index, Spec.of(image))
        result = run(RandAugment(1, 20), image, index=index)
        if name in _SAME:
            np.testing.assert_array_equal(result, run(_SAME[name](value), image))
            done.add(name)
        elif name == "identity":
            np.testing.assert_array_equal(result, image)
    assert done == set(_SAME)


def moved(index: int, image: np.ndarray, interpolation: str = "nearest") -> tuple[str, float, np.ndarray]:
    transform = RandAugment(1, 20, interpolation=interpolation, fill=7)
    ((name, value),) = taken(transform, index, Spec.of(image))
    return name, value, run(transform, image, index=index)


def test_translations_and_fill() -> None:
    image = picture(40, 30)
    done = set()
    for index in range(200):
        name, value, result = moved(index, image)
        if name == "translate_x":
            by = int(value)
            assert abs(by) == int(150 / 331 * 30 * 20 / 30)
            expected = np.roll(image, by, 1)
            expected[:, slice(0, by) if by > 0 else slice(by, None)] = 7
            np.testing.assert_array_equal(result, expected)
            done.add(value)
        if name == "translate_y":
            by = int(value)
            expected = np.roll(image, by, 0)
            expected[slice(0, by) if by > 0 else slice(by, None)] = 7
            np.testing.assert_array_equal(result, expected)
            done.add(value)
    assert len(done) == 4


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_motions_are_those_of_pillow(interpolation: str) -> None:
    module = pytest.importorskip("PIL.Image")
    y, x = np.mgrid[:40, :30]
    image = np.stack([120 + 4 * x, 60 + 3 * y, 100 + x + y], -1).astype(np.uint8)
    resample = {"nearest": 0, "bilinear": 2}[interpolation]
    done = set()
    for index in range(200):
        name, value, result = moved(index, image, interpolation)
        if name not in ("shear_x", "shear_y", "degrees"):
            continue
        done.add((name, value > 0))
        source = module.fromarray(image)
        if name == "degrees":
            expected = np.asarray(source.rotate(-value, resample, fillcolor=(7, 7, 7)))
        else:
            shear = (1, value, 0, 0, 1, 0) if name == "shear_x" else (1, 0, 0, value, 1, 0)
            expected = np.asarray(source.transform((30, 40), 0, shear, resample, fillcolor=(7, 7, 7)))
        # Along the borders Pillow leaves out what lies half outside.
        inside = (result != 7).all(-1) & (expected != 7).all(-1)
        same = np.abs(result.astype(int) - expected).max(-1) <= 4
        assert inside.mean() > 0.3
        assert same[inside].mean() > 0.95
    assert len(done) == 6


def test_corner_of_a_shear_and_middle_of_a_rotation_stay() -> None:
    size, matrix = np.array([40, 30]), np.zeros(6)

    def source(drawn: list[float], x: float, y: float) -> tuple[float, float]:
        place_motion(np.zeros(7), np.array(drawn), size, size, matrix)
        a, b, c, d, e, f = matrix.tolist()
        return a * x + b * y + c, d * x + e * y + f

    assert source([0.3, 0, 0, 0, 0], -0.5, -0.5) == pytest.approx((-0.5, -0.5))
    assert source([0.3, 0, 0, 0, 0], 3, 9.5) == pytest.approx((6, 9.5))
    assert source([0, 0.3, 0, 0, 0], 9.5, 3) == pytest.approx((9.5, 6))
    assert source([0, 0, 5, 0, 0], 9, 3) == (4, 3)
    assert source([0, 0, 0, -5, 0], 9, 3) == (9, 8)
    assert source([0, 0, 0, 0, 77], 14.5, 19.5) == pytest.approx((14.5, 19.5))
    # A quarter of a turn, clockwise: what is at the top comes from the left.
    assert source([0, 0, 0, 0, 90], 14.5, 9.5) == pytest.approx((4.5, 19.5))


@settings(max_examples=20)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([None, 1, 3]), st.integers(0, 2**64 - 1))
def test_kernel_as_plain_python_agrees_with_numpy(
    height: int, width: int, channels: int | None, index: int
) -> None:
    image = picture(height, width, channels)
    for transform in (RandAugment(2, 25), TrivialAugmentWide(interpolation="bilinear", fill=9)):
        result = run(transform, image, index=index, python=True)
        assert (result.shape, result.dtype) == (image.shape, image.dtype)


def test_compiled_kernel_agrees_with_numpy() -> None:
    transform = TrivialAugmentWide(interpolation="bilinear", fill=(1, 2, 3))
    for index in range(60):
        run(transform, picture(17, 13 + index % 5, seed=index), index=index, compiled=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandAugment(0), r"RandAugment.num_ops=0"),
        (lambda: RandAugment(2, 31), r"RandAugment.magnitude=31"),
        (lambda: RandAugment(2, -1), r"RandAugment.magnitude=-1"),
        (lambda: RandAugment(num_magnitude_bins=1), r"RandAugment.num_magnitude_bins=1"),
        (lambda: RandAugment(interpolation="bicubic"), r"expected 'nearest' or 'bilinear'"),
        (lambda: TrivialAugmentWide(num_magnitude_bins=0), r"TrivialAugmentWide.num_magnitude_bins=0"),
        (lambda: TrivialAugmentWide(fill=math.nan), r"TrivialAugmentWide.fill"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("transform", [RandAugment(), TrivialAugmentWide()])
def test_images_that_do_not_fit(transform: Transform) -> None:
    name = type(transform).__name__
    with pytest.raises(ValueError, match=rf"^{name}\(.*: expected an image of uint8"):
        Fit.of(transform, Spec((4, 5, 3), np.dtype(np.float32)))
    with pytest.raises(ValueError, match=rf"^{name}\(.*: expected an image of 1 or 3 channels"):
        Fit.of(transform, Spec((4, 5, 4), np.dtype(np.uint8)))
    with pytest.raises(ValueError, match=r"^RandAugment\(.*: fill has 2 values"):
        Fit.of(RandAugment(fill=(1, 2)), _SPEC)
