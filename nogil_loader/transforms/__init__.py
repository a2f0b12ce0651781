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
__all__ += sorted({*audio.__all__, *image.__all__, *sequence.__all__, *tabular.__all__})
