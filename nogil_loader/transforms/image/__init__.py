"""Transforms of images."""

from nogil_loader.transforms.image.affine import Affine
from nogil_loader.transforms.image.auto import RandAugment, TrivialAugmentWide
from nogil_loader.transforms.image.blur import GaussianBlur
from nogil_loader.transforms.image.cast import Cast, ToFloat
from nogil_loader.transforms.image.colour import Hue, Saturation
from nogil_loader.transforms.image.contrast import Contrast
from nogil_loader.transforms.image.crop import CenterCrop, Crop, RandomCrop
from nogil_loader.transforms.image.erase import RandomErasing
from nogil_loader.transforms.image.flip import HorizontalFlip, VerticalFlip
from nogil_loader.transforms.image.grey import Grayscale, RandomGrayscale
from nogil_loader.transforms.image.histogram import AutoContrast, Equalize
from nogil_loader.transforms.image.holes import CoarseDropout, Cutout
from nogil_loader.transforms.image.jitter import ColorJitter
from nogil_loader.transforms.image.layout import ToCHW, ToHWC
from nogil_loader.transforms.image.levels import Invert, Posterize, Solarize
from nogil_loader.transforms.image.noise import GaussianNoise
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.image.pad import Pad
from nogil_loader.transforms.image.resize import RandomResizedCrop, Resize
from nogil_loader.transforms.image.sharpness import Sharpness
from nogil_loader.transforms.image.tone import Brightness, Gamma
from nogil_loader.transforms.image.turn import Rotate90, Transpose

__all__ = [
    "Affine",
    "AutoContrast",
    "Brightness",
    "Cast",
    "CenterCrop",
    "CoarseDropout",
    "ColorJitter",
    "Contrast",
    "Crop",
    "Cutout",
    "Equalize",
    "Gamma",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "HorizontalFlip",
    "Hue",
    "Invert",
    "Normalize",
    "Pad",
    "Posterize",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomResizedCrop",
    "Resize",
    "Rotate90",
    "Saturation",
    "Sharpness",
    "Solarize",
    "ToCHW",
    "ToFloat",
    "ToHWC",
    "Transpose",
    "TrivialAugmentWide",
    "VerticalFlip",
]
