"""Declared augmentations that become kernels.

==========================  =====================================================================================
in combination              `Compose`, `RandomApply`, `OneOf`
of one's own                `kernel`, `pixelwise`, with the random numbers `uniform`, `normal`, `integer`
several parts of a sample   `Joint`
whole batches               `MixUp`, `CutMix`
images                      all of `transforms.image`
sequences                   all of `transforms.sequence`
audio and time series       all of `transforms.audio`
tables                      all of `transforms.tabular`
==========================  =====================================================================================
"""

from nogil_loader.transforms import audio, image, sequence, tabular
from nogil_loader.transforms.audio import *  # noqa: F403 - the names that each of them lists
from nogil_loader.transforms.compose import Compose, OneOf, RandomApply
from nogil_loader.transforms.drawn import Drawn
from nogil_loader.transforms.image import *  # noqa: F403
from nogil_loader.transforms.joint import Joint
from nogil_loader.transforms.mixing import CutMix, MixUp
from nogil_loader.transforms.sequence import *  # noqa: F403
from nogil_loader.transforms.several import BatchTransform, JointTransform
from nogil_loader.transforms.spec import Spec
from nogil_loader.transforms.tabular import *  # noqa: F403
from nogil_loader.transforms.transform import Transform
from nogil_loader.transforms.user import integer, kernel, normal, pixelwise, uniform

__all__ = [
    "BatchTransform",
    "Compose",
    "CutMix",
    "Drawn",
    "Joint",
    "JointTransform",
    "MixUp",
    "OneOf",
    "RandomApply",
    "Spec",
    "Transform",
    "integer",
    "kernel",
    "normal",
    "pixelwise",
    "uniform",
]
# What these are called elsewhere.
_OTHER_NAMES = {
    "ToTensor": "ToFloat() and ToCHW()",
    "PILToTensor": "ToCHW()",
    "ToImage": "nothing: arrays are taken as they are",
    "ToDtype": "Cast(dtype), or ToFloat() to scale to 0-1",
    "ConvertImageDtype": "ToFloat() or Cast(dtype)",
    "RandomHorizontalFlip": "HorizontalFlip(p)",
    "RandomVerticalFlip": "VerticalFlip(p)",
    "RandomRotation": "Affine(degrees=…)",
    "RandomAffine": "Affine(…)",
    "Rotate": "Affine(degrees=…)",
    "ShiftScaleRotate": "Affine(…)",
    "RandomRotate90": "Rotate90()",
    "RandomBrightnessContrast": "ColorJitter(brightness=…, contrast=…)",
    "HueSaturationValue": "ColorJitter(saturation=…, hue=…)",
    "RandomSolarize": "Solarize(threshold, p)",
    "RandomPosterize": "Posterize(bits, p)",
    "RandomInvert": "Invert(p)",
    "RandomEqualize": "RandomApply(Equalize(), p)",
    "RandomAutocontrast": "RandomApply(AutoContrast(), p)",
    "RandomAdjustSharpness": "RandomApply(Sharpness(factor), p)",
    "RandomChoice": "OneOf([…])",
    "RandomGamma": "Gamma(range)",
    "GaussNoise": "GaussianNoise(std)",
    "ToGray": "RandomGrayscale(p) or Grayscale()",
    "Lambda": "a plain function in Compose([…])",
}


def __getattr__(name: str) -> object:
    if name in _OTHER_NAMES:
        raise AttributeError(f"{__name__} has no {name}; here it is {_OTHER_NAMES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ += sorted({*audio.__all__, *image.__all__, *sequence.__all__, *tabular.__all__})
