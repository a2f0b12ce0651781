from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from nogil_loader.kernels.philox import epoch_key
from nogil_loader.transforms.fit import Fit
from nogil_loader.transforms.image.colour import Hue, Saturation
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.jitter import ColorJitter, draw_order
from nogil_loader.transforms.image.tone import Brightness
from nogil_loader.transforms.passes import Pass
from nogil_loader.transforms.reference import draw_parameters
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.transform import Operation
from tests.transforms.image.agree import run
from tests.transforms.image.test_colour_kernels import pixels

_SPEC = Spec((4, 5, 3), np.dtype(np.uint8))


def drawn(jitter: ColorJitter, index: int) -> list[list[float]]:
    fit = Fit.of(jitter, _SPEC)
    return [values.tolist() for _, values in draw_parameters(fit, epoch_key=epoch_key(0, 0), word=index)]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
@pytest.mark.parametrize("order", ["random", "fixed"])
def test_source_of_the_kernel_agrees_with_numpy(order: str, dtype: str) -> None:
    for index in range(4):
        run(ColorJitter(0.5, 0.5, 0.5, 0.3, order), pixels(dtype, (3, 4, 3), index), index=index, python=True)


def test_one_change_after_the_other_in_the_order_drawn() -> None:
    image = pixels("uint8", (4, 5, 3), 1)
    jitter = ColorJitter(0.5, 0.5, 0.5, 0.3)
    made: tuple[Callable[[float], Operation], ...] = (Brightness, Contrast, Saturation, Hue)
    for index in range(10):
        order, *amounts = drawn(jitter, index)
        assert sorted(order) == [0, 1, 2, 3]
        expected = image
        for turn in order:
            (amount,) = amounts[int(turn)]
            expected = run(made[int(turn)](amount), expected)
        np.testing.assert_array_equal(run(jitter, image, index=index), expected)


def test_all_orders_are_drawn_equally_often() -> None:
    uniforms = np.random.default_rng(0).random((2400, 3))
    orders = []
    for each in uniforms:
        order = np.zeros(4)
        draw_order(each, np.array([4.0]), None, order)
        orders.append(tuple(order.astype(int).tolist()))
    counts = [orders.count(each) for each in itertools.permutations(range(4))]
    assert sum(counts) == 2400
    assert 60 < min(counts) <= max(counts) < 145


def test_amounts_are_as_in_torchvision() -> None:
    jitter = ColorJitter(0.2, (0.5, 2.0), 3.0, 0.1)
    assert jitter.brightness == (0.8, 1.2)
    assert jitter.contrast == (0.5, 2.0)
    assert jitter.saturation == (0.0, 4.0)
    assert jitter.hue == (-0.1, 0.1)
    for index in range(50):
        _, (brightness,), (contrast,), (saturation,), (hue,) = drawn(jitter, index)
        assert 0.8 <= brightness <= 1.2
        assert 0.5 <= contrast <= 2
        assert 0 <= saturation <= 4
        assert -0.1 <= hue <= 0.1


def test_what_changes_nothing_is_left_out() -> None:
    assert Fit.of(ColorJitter(), _SPEC).nodes == ()
    assert Fit.of(ColorJitter(0, (1, 1), None, 0), _SPEC).nodes == ()
    (node,) = Fit.of(ColorJitter(contrast=0.5, hue=0), _SPEC).nodes
    assert node.name.startswith("Contrast")
    image = pixels("uint8", (4, 5, 3), 1)
    np.testing.assert_array_equal(run(ColorJitter(), image, python=True), image)


def test_without_contrast_there_is_one_sweep() -> None:
    (part,) = Fit.of(ColorJitter(0.5, 0, 0.5, 0.2), _SPEC).parts
    assert isinstance(part, Pass)


def test_other_channels() -> None:
    with pytest.raises(ValueError, match=r"^ColorJitter\(.*: expected an image of 3 channels"):
        Fit.of(ColorJitter(0.2, 0.2, 0.2), Spec((4, 5, 4), np.dtype(np.uint8)))
    run(ColorJitter(0.2, 0.2), pixels("uint8", (4, 5), 1), python=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ColorJitter(-0.2), r"ColorJitter.brightness=-0.2"),
        (lambda: ColorJitter(contrast=(-1, 1)), r"ColorJitter.contrast"),
        (lambda: ColorJitter(saturation=(2, 1)), r"low ≤ high"),
        (lambda: ColorJitter(hue=(-0.6, 0)), r"ColorJitter.hue"),
        (lambda: ColorJitter(0.1, order="any"), r"ColorJitter.order='any': expected 'random' or 'fixed'"),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
