"""Transforms of several parts give the same for any number of workers, and what they give by hand (G4, G9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader import transforms as T

CHAIN = [T.RandomCrop(8, padding=2), T.HorizontalFlip(), T.ToCHW()]
JOINT = T.Joint(CHAIN, ("image", "mask", "boxes"), mask_fill=255)
PARTS = ("image", "mask", "boxes")
COUNT, EPOCHS, SEED = 13, 2, 5


class Scenes:
    """Images with masks and boxes, made anew at each call."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> dict[str, Any]:
        draws = np.random.default_rng(index)
        return {
            "image": draws.integers(0, 256, (10, 9 + index % 3, 3), np.uint8),
            "mask": draws.integers(0, 4, (10, 9 + index % 3)),
            "boxes": np.sort(draws.random((2, 2, 2)) * 9, axis=1).reshape(2, 4),
            "label": index % 4,
        }


def arrays() -> nl.ArrayDataset:
    draws = np.random.default_rng(0)
    return nl.ArrayDataset(
        {
            "image": draws.random((COUNT, 3, 6, 6), np.float32),
            "label": draws.integers(0, 4, COUNT),
        }
    )


def epochs_of(dataset: Any, transform: Any, **options: Any) -> list[list[dict[str, Any]]]:
    with nl.DataLoader(dataset, 4, transform=transform, seed=SEED, **options) as loader:
        return [list(loader) for _ in range(EPOCHS)]


def assert_equal(first: Sequence[Any], second: Sequence[Any]) -> None:
    for left, right in zip(first, second, strict=True):
        for one, other in zip(left, right, strict=True):
            assert one.keys() == other.keys()
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_a_loader_gives_what_joint_gives_by_hand(num_workers: int) -> None:
    dataset = Scenes()
    for epoch, batches in enumerate(epochs_of(dataset, {PARTS: JOINT}, num_workers=num_workers)):
        at = 0
        for batch in batches:
            for row in range(len(batch["label"])):
                sample = dataset[at]
                made = JOINT.apply([sample[part] for part in PARTS], seed=SEED, epoch=epoch, index=at)
                for part, value in zip(PARTS, made, strict=True):
                    np.testing.assert_array_equal(batch[part][row], value)
                assert batch["label"][row] == sample["label"]
                at += 1
        assert at == COUNT


@pytest.mark.parametrize(
    "transform", [T.MixUp(1.0, 4), T.CutMix(1.0, 4, p=0.7)], ids=lambda transform: type(transform).__name__
)
def test_a_loader_mixes_batches_as_it_is_done_by_hand(transform: T.BatchTransform) -> None:
    dataset = arrays()
    before = [sample["image"].copy() for sample in dataset]
    runs = [
        epochs_of(dataset, {("image", "label"): transform}, num_workers=workers, shuffle=True)
        for workers in (0, 1, 3)
    ]
    for run in runs[1:]:
        assert_equal(runs[0], run)
    with nl.DataLoader(dataset, 4, seed=SEED, shuffle=True) as loader:
        order = [list(loader) for _ in range(EPOCHS)]
    keys = {sample["image"].tobytes(): index for index, sample in enumerate(dataset)}
    for epoch in range(EPOCHS):
        for batch, plain in zip(runs[0][epoch], order[epoch], strict=True):
            indices = [keys[image.tobytes()] for image in plain["image"]]
            images, labels = transform.apply(
                (plain["image"], plain["label"]), seed=SEED, epoch=epoch, indices=indices
            )
            np.testing.assert_array_equal(batch["image"], images)
            np.testing.assert_array_equal(batch["label"], labels)
    for index, image in enumerate(before):
        np.testing.assert_array_equal(dataset[index]["image"], image)


def test_samples_are_transformed_before_they_are_mixed() -> None:
    transform: Mapping[Any, Any] = {PARTS: JOINT, ("image", "label"): T.MixUp(1.0, 4)}
    mixed = epochs_of(Scenes(), transform, num_workers=2)
    plain = epochs_of(Scenes(), {PARTS: JOINT}, num_workers=0)
    at = 0
    for one, other in zip(mixed[1], plain[1], strict=True):
        count = len(other["label"])
        images, labels = T.MixUp(1.0, 4).apply(
            (other["image"], other["label"]), seed=SEED, epoch=1, indices=range(at, at + count)
        )
        np.testing.assert_array_equal(one["image"], images)
        np.testing.assert_array_equal(one["label"], labels)
        np.testing.assert_array_equal(one["mask"], other["mask"])
        at += count


class Lopsided(Scenes):
    """The mask of sample 6 does not lie over its image."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        if index == 6:
            sample["mask"] = sample["mask"][:, 1:]
        return sample


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_mask_that_does_not_fit_is_named_with_its_sample(num_workers: int) -> None:
    with (
        nl.DataLoader(Lopsided(), 4, transform={PARTS: JOINT}, num_workers=num_workers) as loader,
        pytest.raises(
            nl.DeadWorkerError, match=r"sample 6: Joint: the image has 10 x 9 pixels .* part 1, mask"
        ) as caught,
    ):
        list(loader)
    assert caught.value.index == 6


def test_a_label_out_of_range_is_named() -> None:
    with (
        nl.DataLoader(
            arrays(), 4, transform={("image", "label"): T.MixUp(num_classes=2)}, num_workers=1
        ) as loader,
        pytest.raises(nl.DeadWorkerError, match=r"MixUp\(num_classes=2\): label [23]; expected 0 to 1"),
    ):
        list(loader)


@pytest.mark.parametrize(
    ("keys", "transform", "message"),
    [
        (("image", "mask"), JOINT, r"Joint: 2 keys, but kinds=\['image', 'mask', 'boxes'\] are 3"),
        ("image", T.MixUp(), r"MixUp\(\): 1 key; expected two"),
        (("image", "label", "weight"), T.CutMix(), r"CutMix\(\): 3 keys; expected two"),
    ],
)
def test_a_wrong_number_of_keys_is_refused_when_the_loader_is_made(
    keys: Any, transform: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        nl.DataLoader(Scenes(), 4, transform={keys: transform})


@pytest.mark.torch
def test_torch_samples_give_torch_batches() -> None:
    torch = pytest.importorskip("torch")

    class Tensors(Scenes):
        def __getitem__(self, index: int) -> dict[str, Any]:
            sample = super().__getitem__(index)
            return {key: torch.from_numpy(np.array(value)) for key, value in sample.items()}

    transform = {PARTS: JOINT, ("image", "label"): T.CutMix(1.0, 4)}
    expected = epochs_of(Scenes(), transform, num_workers=0, output="numpy")
    made = epochs_of(Tensors(), transform, num_workers=2)
    assert all(isinstance(value, torch.Tensor) for batch in made[0] for value in batch.values())
    assert_equal(expected, [[{key: batch[key].numpy() for key in batch} for batch in run] for run in made])


def test_a_wrong_label_is_the_failure_of_its_sample() -> None:
    images = np.random.default_rng(0).random((20, 3, 4, 4), dtype=np.float32)
    labels = np.arange(20) % 5
    labels[13] = 77
    loader = nl.DataLoader(
        nl.ArrayDataset(images, labels),
        batch_size=8,
        seed=0,
        num_workers=1,
        transform={(0, 1): nl.transforms.MixUp(num_classes=5)},
        on_failure=nl.FailurePolicy(rebuild=0, skip=1),
    )
    assert sum(len(batch[0]) for batch in loader) == 19
    (record,) = loader.skipped
    assert record.index == 13
    assert "label 77; expected 0 to 4" in record.reason
