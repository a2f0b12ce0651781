"""What to deliver: the order of an epoch, its batches, and how far the consumer got. Pure, no threads."""

from nogil_loader.plan.batching import Batching, check_cut, nominal_batches
from nogil_loader.plan.epoch import EpochPlan, Slice
from nogil_loader.plan.permutation import Permutation
from nogil_loader.plan.received import Received
from nogil_loader.plan.samplers import (
    RandomSampler,
    Sampler,
    SequentialSampler,
    UserBatchSampler,
    UserSampler,
    length_of,
)
from nogil_loader.plan.state import LoaderState

__all__ = [
    "Batching",
    "EpochPlan",
    "LoaderState",
    "Permutation",
    "RandomSampler",
    "Received",
    "Sampler",
    "SequentialSampler",
    "Slice",
    "UserBatchSampler",
    "UserSampler",
    "check_cut",
    "length_of",
    "nominal_batches",
]
