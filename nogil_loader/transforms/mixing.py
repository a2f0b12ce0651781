"""MixUp and CutMix: every sample of a batch mixed with the next one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nogil_loader.checks import as_count
from nogil_loader.kernels import mixing
from nogil_loader.kernels.compiler.generated import GeneratedKernel, load_kernel
from nogil_loader.kernels.philox import uniforms
from nogil_loader.transforms.arguments import as_chance, as_choice, as_number, settle
from nogil_loader.transforms.labels import mix_labels
from nogil_loader.transforms.program import Draw
from nogil_loader.transforms.several import BatchTransform
from nogil_loader.transforms.spec import Spec

Array = npt.NDArray[Any]

# What stands for the transforms in the random numbers, far from the positions of any chain's steps.
_MIX_UP: Final = 0xFFFF_0000
_CUT_MIX: Final = 0xFFFF_0001
# Below, a beta distribution has nothing but 0 and 1, to the precision of pixels; above, nothing but 1/2.
_ALPHAS: Final = (1e-3, 1e6)
_MOST_CLASSES: Final = 1 << 24


class _Mixing(BatchTransform):
    """What MixUp and CutMix share: a weight for every sample, and labels mixed by it."""

    alpha: float
    num_classes: int | None
    p: float

    def _settle(self) -> None:
        name = type(self).__name__
        settle(
            self,
            alpha=as_number(f"{name}.alpha", self.alpha, least=_ALPHAS[0], most=_ALPHAS[1]),
            num_classes=None
            if self.num_classes is None
            else as_count(f"{name}.num_classes", self.num_classes, least=1, most=_MOST_CLASSES),
            p=as_chance(f"{name}.p", self.p),
        )

    def check_keys(self, count: int) -> None:
        """Refuse anything but two keys.

        Raises:
            ValueError: There are not two.
        """
        if count != 2:
            raise ValueError(
                f"{self}: {count} key{'s' if count != 1 else ''}; expected two, as in "
                f"{{('image', 'label'): {type(self).__name__}(…)}}"
            )

    def transform_batch(self, values: Sequence[Any], draw: Draw) -> tuple[Array, Array]:
        """Return images and labels of a batch, mixed; see `BatchTransform`.

        Raises:
            ValueError: They do not fit.
        """
        images, labels = (np.asarray(value) for value in values)
        count = len(draw.words)
        for what, array in (("images", images), ("labels", labels)):
            if not array.ndim or len(array) != count:
                raise ValueError(f"{self}: {what} of shape {array.shape} in a batch of {count} samples")
        if not (images.flags.c_contiguous and images.flags.writeable and images.dtype.isnative):
            images = np.array(images, images.dtype.newbyteorder("="), order="C")
        drawn = self._mix(images, draw) if count else np.ones((0, 1))
        return images, mix_labels(self, labels, drawn[:, 0], self.num_classes)

    @abstractmethod
    def _mix(self, images: Array, draw: Draw) -> Array:
        """Mix images in place and return what was drawn, ``(B, parameters)``: first each sample's own weight."""


@dataclass(frozen=True)
class MixUp(_Mixing):
    """Every image of a batch blended with the next one, and its label too (Zhang et al., 2018).

    Sample i becomes ``w x[i] + (1 - w) x[i + 1]``, the last one is blended with the first. The weight w is drawn
    from Beta(alpha, alpha) for every sample by itself; torchvision draws one for the whole batch. ::

        DataLoader(dataset, 64, transform={("image", "label"): MixUp(num_classes=10)})

    Images are any arrays ``(B, …)`` of floats or integers, which are rounded. Integer labels ``(B,)`` become
    probabilities of classes, float32 ``(B, num_classes)``; float labels ``(B, classes)`` are mixed as they are.
    A batch is kept whole, and with other batches come other partners: the transform needs the same batches to give
    the same samples.

    Args:
        alpha: Of the beta distribution: small values leave most samples almost as they are.
        num_classes: Needed for integer labels.
        p: Probability that a sample is blended at all.
    """

    alpha: float = 0.2
    num_classes: int | None = None
    p: float = 1.0

    def __post_init__(self) -> None:
        self._settle()

    def prepare(self) -> None:
        """Compile the kernel for float32 images, in the calling thread."""
        _blending(np.dtype(np.float32))

    def _mix(self, images: Array, draw: Draw) -> Array:
        dtype = images.dtype
        if dtype.kind == "b":
            raise ValueError(f"{self}: images of bool cannot be blended; cast them to float32 first")
        if dtype != np.float16:
            Spec((1, 1), dtype).image(self)
        numbers, drawn = np.array([self.p, self.alpha]), np.empty((len(images), 1))
        kernel = None if dtype == np.float16 else _blending(dtype)
        if kernel is None:
            _draw(mixing.draw_weight, draw, _MIX_UP, numbers, (1, 1), drawn)
            images[...] = blended(images, drawn[:, 0])
        else:
            samples = images.reshape(len(images), -1)
            first = np.empty_like(samples[0])
            kernel(samples, first, draw.words, draw.epoch_key, numbers, np.empty(3), drawn)
        return drawn


# Channels that images mostly have.
_DEPTHS = (1, 3, 4)


@dataclass(frozen=True)
class CutMix(_Mixing):
    """A patch of every image of a batch replaced by that of the next one, and its label mixed (Yun et al., 2019).

    The patch of sample i is taken from sample i + 1, that of the last one from the first. Its area is 1 - w of the
    image's, w drawn from Beta(alpha, alpha), its centre anywhere in the image; what lies outside is cut off, and
    the label gets the weights of the pixels. All of it is drawn for every sample by itself; torchvision draws one
    patch for the whole batch. ::

        DataLoader(dataset, 64, transform={("image", "label"): CutMix(num_classes=10)})

    Images are ``(B, C, H, W)``, ``(B, H, W, C)`` or ``(B, H, W)`` of any dtype; labels, and what is said of
    batches, as for `MixUp`.

    Args:
        alpha: Of the beta distribution; with 1 all areas are equally likely.
        num_classes: Needed for integer labels.
        p: Probability that a sample gets a patch at all.
        layout: Order of the axes of one image, ``"CHW"`` or ``"HWC"``.
    """

    alpha: float = 1.0
    num_classes: int | None = None
    p: float = 1.0
    layout: str = "CHW"

    def __post_init__(self) -> None:
        self._settle()
        settle(self, layout=as_choice("CutMix.layout", self.layout, ("CHW", "HWC")))

    def prepare(self) -> None:
        """Compile the kernel, in the calling thread."""
        _pasting()

    def _mix(self, images: Array, draw: Draw) -> Array:
        planes, height, width = self._lengths(images)
        numbers, drawn = np.array([self.p, self.alpha]), np.empty((len(images), 5))
        kernel = _pasting()
        if kernel is None:
            _draw(mixing.draw_patch, draw, _CUT_MIX, numbers, (height, width), drawn)
            images[...] = pasted(images.reshape(len(images), planes, height, width, -1), drawn).reshape(
                images.shape
            )
        else:
            flat = images.reshape(len(images), -1).view(np.uint8)
            first = np.empty_like(flat[0])
            lengths = np.array([height, width, planes, len(first) // (planes * height * width)])
            kernel(flat, first, draw.words, draw.epoch_key, numbers, lengths, np.empty(5), drawn)
        return drawn

    def _lengths(self, images: Array) -> tuple[int, int, int]:
        """Return the planes, rows and columns of an image."""
        if images.ndim not in (3, 4) or 0 in images.shape:
            raise ValueError(
                f"{self}: expected images (B, C, H, W), (B, H, W, C) or (B, H, W), not an array of shape "
                f"{images.shape}"
            )
        if images.ndim == 4:
            first, last = images.shape[1] in _DEPTHS, images.shape[3] in _DEPTHS
            if (last and not first and self.layout == "CHW") or (first and not last and self.layout == "HWC"):
                other = "HWC" if self.layout == "CHW" else "CHW"
                raise ValueError(
                    f"{self}: images of shape {images.shape[1:]} seem to be {other}; say so with layout={other!r}"
                )
        planar = images.ndim == 4 and self.layout == "CHW"
        height, width = images.shape[2:] if planar else images.shape[1:3]
        return images.shape[1] if planar else 1, height, width


_MIX_UP_SOURCE: Final = f"""def mix_up(samples, first, keys, epoch_key, numbers, uniforms, drawn):
    draw_weights(keys, epoch_key, {_MIX_UP}, numbers, uniforms, drawn)
    blend(samples, first, drawn)
"""
_CUT_MIX_SOURCE: Final = f"""def cut_mix(images, first, keys, epoch_key, numbers, lengths, uniforms, drawn):
    draw_patches(keys, epoch_key, {_CUT_MIX}, numbers, lengths, uniforms, drawn)
    paste_patches(images, first, lengths, drawn)
"""


@lru_cache
def _blending(dtype: np.dtype[Any]) -> Callable[..., None] | None:
    """Return the kernel of MixUp for images of a dtype, None where nothing compiles."""
    if dtype.kind == "f":
        blend = mixing.blend_floats
    else:
        blend = mixing.blend_narrow if dtype.itemsize <= 2 else mixing.blend_wide

    def signature(types: Any) -> Any:
        element = getattr(types, dtype.name)
        batch = types.Array(element, 2, "C"), types.Array(element, 1, "C")
        return types.void(*batch, *_common(types))

    names = {"draw_weights": mixing.draw_weights, "blend": blend}
    return _compiled(load_kernel(_MIX_UP_SOURCE, "mix_up", signature, names))


@lru_cache
def _pasting() -> Callable[..., None] | None:
    """Return the kernel of CutMix, None where nothing compiles."""

    def signature(types: Any) -> Any:
        batch = types.Array(types.uint8, 2, "C"), types.Array(types.uint8, 1, "C")
        keys, epoch_key, numbers, *scratch = _common(types)
        return types.void(*batch, keys, epoch_key, numbers, types.Array(types.int64, 1, "C"), *scratch)

    names = {"draw_patches": mixing.draw_patches, "paste_patches": mixing.paste_patches}
    return _compiled(load_kernel(_CUT_MIX_SOURCE, "cut_mix", signature, names))


def _common(types: Any) -> tuple[Any, ...]:
    """Return the types of keys, epoch key, numbers, uniforms and drawn."""
    keys, floats = types.Array(types.uint64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
    return keys, types.uint64, floats, floats, types.Array(types.float64, 2, "C")


def _compiled(kernel: GeneratedKernel | None) -> Callable[..., None] | None:
    # As plain Python it would visit pixels one by one.
    return None if kernel is None or kernel.origin == "python" else kernel.function


# In numpy: what kernels are tested against, and what runs without them


def blended(images: Array, weights: Array) -> Array:
    """Return images ``(B, …)`` of floats or integers, each blended with the next one."""
    work = Spec.of(images).work
    own = weights.astype(work).reshape(-1, *(1,) * (images.ndim - 1))
    with np.errstate(all="ignore"):
        mixed = images.astype(work) * own + np.roll(images, -1, 0).astype(work) * (1 - own)
    if images.dtype.kind != "f":
        mixed = np.rint(mixed)
    # Weight 1 means that the other sample does not count, whatever it is.
    return np.where(own == 1, images, mixed.astype(images.dtype))


def pasted(images: Array, drawn: Array) -> Array:
    """Return images ``(B, planes, H, W, …)``, each with a patch of the next one; see `mixing.draw_patch`."""
    result = images.copy()
    for i, (top, left, bottom, right) in enumerate(drawn[:, 1:].astype(int)):
        other = images[(i + 1) % len(images)]
        result[i, :, top:bottom, left:right] = other[:, top:bottom, left:right]
    return result


def _draw(
    function: Callable[..., None],
    draw: Draw,
    position: int,
    numbers: Array,
    size: tuple[int, int],
    drawn: Array,
) -> None:
    # Of the five numbers MixUp uses the first three.
    for row, given in zip(drawn, uniforms(draw.epoch_key, draw.words, position, 5), strict=True):
        function(given, numbers, size, row)
