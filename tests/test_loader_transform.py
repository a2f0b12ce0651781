"""``DataLoader(transform=…)``: the same samples on every way a batch is made, and clear words where it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.transforms.compose import Compose
from nogil_loader.transforms.image.crop import RandomCrop
from nogil_loader.transforms.image.flip import HorizontalFlip
from nogil_loader.transforms.image.layout import ToCHW
from nogil_loader.transforms.image.normalize import Normalize
from nogil_loader.transforms.user import kernel, uniform

IMAGES = np.random.default_rng(0).integers(0, 256, (50, 12, 14, 3), dtype=np.uint8)
LABELS = np.arange(50)
CHAIN = Compose([RandomCrop(9), HorizontalFlip(), Normalize([0.4, 0.5, 0.6], 0.25), ToCHW()])
SEED = 11


def by_hand(epoch: int = 0, indices: Any = range(50)) -> Any:
    return np.stack([CHAIN.apply(IMAGES[i], seed=SEED, epoch=epoch, index=i) for i in indices])


class Images:
    """The images, one at a time."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Any:
        return IMAGES[index]


class ManyImages(Images):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [IMAGES[i] for i in indices]


class ImageStream:
    def __iter__(self) -> Iterator[Any]:
        yield from IMAGES


class Pair(NamedTuple):
    image: Any
    label: int


@dataclass(frozen=True)
class Record:
    image: Any
    label: int


def load(dataset: Any, **arguments: Any) -> list[Any]:
    options: dict[str, Any] = {"batch_size": 8, "seed": SEED, "transform": CHAIN, **arguments}
    return list(nl.DataLoader(dataset, **options))


def images_of(batches: list[Any]) -> Any:
    return np.concatenate(batches)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nl.ArrayDataset(IMAGES),
        lambda: nl.Subset(nl.ArrayDataset(IMAGES), range(50)),
        lambda: nl.ArrayDataset(np.asfortranarray(IMAGES)),
        Images,
        ManyImages,
        ImageStream,
        lambda: nl.Mapper(ManyImages(), lambda image: image),
        lambda: list(IMAGES),
    ],
    ids=["array", "subset", "fortran", "singly", "getitems", "iterable", "mapper", "list"],
)
def test_every_kind_of_dataset_gives_what_apply_gives(make: Any, workers: int) -> None:
    got = images_of(load(make(), num_workers=workers))
    np.testing.assert_array_equal(got, by_hand())


@pytest.mark.parametrize("collate", [None, np.stack, nl.pad_collate()])
def test_every_collation_gets_the_same_samples(collate: Any) -> None:
    batches = load(Images(), num_workers=2, collate_fn=collate)
    if type(batches[0]) is not np.ndarray:
        batches = [batch.values for batch in batches]
    np.testing.assert_array_equal(images_of(batches), by_hand())


def test_single_samples_are_transformed_too() -> None:
    samples = load(Images(), num_workers=2, batch_size=None)
    np.testing.assert_array_equal(np.stack(samples), by_hand())


def test_shuffling_and_epochs_change_what_is_drawn_and_nothing_else() -> None:
    loader = nl.DataLoader(
        nl.ArrayDataset(image=IMAGES, label=LABELS),
        batch_size=8,
        shuffle=True,
        seed=SEED,
        num_workers=2,
        transform={"image": CHAIN},
    )
    first, second = list(loader), list(loader)
    for epoch, batches in enumerate((first, second)):
        order = np.concatenate([batch["label"] for batch in batches])
        images = np.concatenate([batch["image"] for batch in batches])
        np.testing.assert_array_equal(images, by_hand(epoch, order.tolist()))
        np.testing.assert_array_equal(np.sort(order), LABELS)


def test_the_stream_is_the_same_after_a_resume() -> None:
    def make() -> nl.DataLoader:
        return nl.DataLoader(Images(), batch_size=8, shuffle=True, seed=SEED, transform=CHAIN, num_workers=2)

    whole = list(make())
    loader = make()
    with iter(loader) as part:
        begun = [next(part) for _ in range(3)]
        state = loader.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    np.testing.assert_array_equal(images_of([*begun, *resumed]), images_of(whole))


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda i, n: {"image": i, "label": n, "more": {"image": i}}, "image"),
        (lambda i, n: {"more": {"image": i}, "label": n}, "more.image"),
        (lambda i, n: (i, n), 0),
        (lambda i, n: [n, i], 1),
        (Pair, "image"),
        (Record, "image"),
    ],
    ids=["dict", "nested", "tuple", "list", "namedtuple", "record"],
)
@pytest.mark.parametrize("collate", [None, lambda samples: samples], ids=["default", "own"])
def test_a_key_says_which_part_is_transformed(make: Any, key: Any, collate: Any) -> None:
    samples = [make(image, n) for n, image in enumerate(IMAGES[:10])]
    batches = load(samples, transform={key: CHAIN}, batch_size=5, collate_fn=collate, num_workers=1)

    def part(tree: Any) -> Any:
        for name in str(key).split("."):
            tree = (
                getattr(tree, name)
                if isinstance(tree, Record | Pair)
                else tree[int(name) if name.isdigit() else name]
            )
        return tree

    parts = [part(batch) if collate is None else np.stack([part(s) for s in batch]) for batch in batches]
    np.testing.assert_array_equal(np.concatenate(parts), by_hand(0, range(10)))
    for sample, image in zip(samples, IMAGES, strict=False):
        np.testing.assert_array_equal(part(sample), image)


def test_the_batch_is_the_consumers_and_the_dataset_stays_as_it_is() -> None:
    source = IMAGES.copy()
    batches = load(nl.ArrayDataset(source), num_workers=2)
    for batch in batches:
        assert not np.shares_memory(batch, source)
        assert batch.flags.writeable
        batch[...] = 0
    np.testing.assert_array_equal(source, IMAGES)


def test_d07_draws_are_the_same_after_another_loader_and_in_the_global_state_nothing_moves() -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    first = images_of(load(Images(), num_workers=1))
    load(Images(), num_workers=3, seed=1, transform=Compose([RandomCrop(3)]))
    np.testing.assert_array_equal(images_of(load(Images(), num_workers=4)), first)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_a_users_kernel_draws_by_the_sample(caplog: pytest.LogCaptureFixture) -> None:
    @kernel
    def speckle(image: Any, out: Any, rng: Any) -> None:
        for y in range(image.shape[0]):
            for x in range(image.shape[1]):
                for c in range(image.shape[2]):
                    out[y, x, c] = 255 if uniform(rng) < 0.2 else image[y, x, c]

    singly = images_of(load(Images(), transform=speckle, num_workers=0))
    at_once = images_of(load(nl.ArrayDataset(IMAGES), transform=speckle, num_workers=3))
    np.testing.assert_array_equal(singly, at_once)
    assert 0.15 < (singly == 255).mean() < 0.25
    assert not caplog.records


def test_plain_functions_run_and_the_loader_says_once_that_they_hold_the_gil(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def brighten(image: Any) -> Any:
        return image // 2 + nl.sample_rng().integers(0, 100, dtype=np.uint8)

    chain = Compose([HorizontalFlip(), brighten, RandomCrop(5)])
    loader = nl.DataLoader(nl.ArrayDataset(IMAGES), batch_size=8, seed=SEED, transform=chain, num_workers=2)
    with caplog.at_level(logging.WARNING, logger="nogil_loader"):
        first = images_of(list(loader))
        list(loader)
        load(Images(), transform=chain, num_workers=0)
    (record,) = caplog.records
    line = brighten.__code__.co_firstlineno
    assert record.message == (
        f"part of the transform is plain Python, which holds the GIL: {brighten.__qualname__} ({__file__}:{line})"
    )
    np.testing.assert_array_equal(images_of(load(Images(), transform=chain, num_workers=0)), first)


def test_tensors_stay_tensors() -> None:
    torch = pytest.importorskip("torch")
    samples = [(torch.from_numpy(image), n) for n, image in enumerate(IMAGES)]
    for collate in (None, lambda samples: torch.stack([image for image, _ in samples])):
        batches = load(samples, transform={0: CHAIN}, num_workers=1, collate_fn=collate)
        images = [batch if collate else batch[0] for batch in batches]
        assert all(isinstance(image, torch.Tensor) for image in images)
        np.testing.assert_array_equal(torch.cat(images).numpy(), by_hand())


def test_a_failing_sample_is_skipped_and_the_others_are_what_they_were() -> None:
    small = np.zeros((3, 3, 3), np.uint8)
    samples = [small if n == 5 else image for n, image in enumerate(IMAGES)]
    loader = nl.DataLoader(
        samples,
        batch_size=8,
        seed=SEED,
        num_workers=2,
        transform=CHAIN,
        on_failure=nl.FailurePolicy(rebuild=1, skip=1),
    )
    got = images_of(list(loader))
    np.testing.assert_array_equal(got, by_hand(0, [n for n in range(50) if n != 5]))
    assert [record.index for record in loader.skipped] == [5]
    assert "RandomCrop" in loader.skipped[0].reason


@pytest.mark.parametrize("collate", [None, np.stack], ids=["default", "own"])
def test_what_does_not_fit_names_transform_key_and_sample(collate: Any) -> None:
    samples = [{"image": IMAGES[n] if n != 5 else np.zeros((3, 3, 3), np.uint8)} for n in range(8)]
    make = None if collate is None else lambda batch: collate([sample["image"] for sample in batch])
    with pytest.raises(nl.DeadWorkerError) as caught:
        load(samples, transform={"image": CHAIN}, collate_fn=make, num_workers=1)
    assert caught.value.index == 5
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert "transform at 'image', sample 5: RandomCrop" in str(cause)


def test_images_of_mixed_sizes_are_refused_by_name() -> None:
    samples = [IMAGES[n][: 12 - (n == 5)] for n in range(8)]
    with pytest.raises(
        nl.DeadWorkerError, match=r"shapes differ.*sample 5.*\(11, 14, 3\).*HorizontalFlip"
    ) as caught:
        load(samples, transform=HorizontalFlip(), num_workers=1)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"transform": {"imgae": CHAIN}}, ValueError, "no part 'imgae'; there are: 'image', 'label'"),
        ({"transform": CHAIN}, ValueError, "say which one is meant"),
        ({"transform": {"image": RandomCrop(20)}}, ValueError, "transform at 'image': RandomCrop"),
        ({"transform": {"label": CHAIN}}, ValueError, "transform at 'label': RandomCrop.*images of int64"),
        ({"transform": {}}, ValueError, "at least one key"),
        ({"transform": {"image": HorizontalFlip}}, TypeError, "call it first"),
        ({"transform": {"image": abs}}, TypeError, "goes into Compose"),
        ({"transform": {("image", "label"): CHAIN}}, TypeError, "Joint"),
        ({"transform": 3}, TypeError, "transform=3"),
    ],
)
def test_wrong_transforms_are_refused_when_the_loader_is_made(
    arguments: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        nl.DataLoader(nl.ArrayDataset(image=IMAGES, label=LABELS), **arguments)


def test_a_part_that_samples_lack_is_named_when_the_first_one_comes() -> None:
    for collate in (None, list):
        with pytest.raises(nl.DeadWorkerError, match="imgae") as caught:
            load([{"image": IMAGES[0]}], transform={"imgae": CHAIN}, collate_fn=collate)
        assert isinstance(caught.value.__cause__, ValueError)


def test_e06_other_dtypes_in_the_stream_are_no_reason_to_stop() -> None:
    kinds = [np.uint8, np.int16, np.float32, np.float64, np.float16, np.dtype(">f4")]
    views: list[Any] = [np.asfortranarray, np.ascontiguousarray, lambda a: a[::-1]]
    samples = [view(IMAGES[0].astype(kind)) for kind in kinds for view in views for _ in range(2)]
    chain = Compose([RandomCrop(9)])
    batches = load(samples, transform=chain, batch_size=2, num_workers=2)
    for at, batch in enumerate(batches):
        expected = [chain.apply(samples[n], seed=SEED, index=n) for n in (2 * at, 2 * at + 1)]
        np.testing.assert_array_equal(batch, np.stack(expected))
    programs = chain._as_chain().program
    assert programs is not None
    assert (
        len(programs._kernels) == 4
    )  # uint8, int16, float32 and float64: layouts and byte orders make no difference


@pytest.mark.parametrize("dataset", [Images(), nl.ArrayDataset(IMAGES)], ids=["singly", "array"])
def test_e05_compiling_is_not_on_the_clock(
    dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOGIL_LOADER_CACHE_DIR", str(tmp_path))

    @kernel
    def upside_down(image: Any, out: Any, rng: Any) -> None:
        for y in range(image.shape[0]):
            for x in range(image.shape[1]):
                for c in range(image.shape[2]):
                    out[y, x, c] = image[image.shape[0] - 1 - y, x, c]

    # A compiler takes at least ten times as long as a worker may be silent.
    batches = load(dataset, transform=Compose([upside_down]), num_workers=3, timeout=0.05, batch_size=25)
    np.testing.assert_array_equal(images_of(batches), IMAGES[:, ::-1])


def test_mixing_keeps_batches_whole() -> None:
    mix = {(0, 1): nl.transforms.MixUp(num_classes=50)}
    loader = nl.DataLoader(
        nl.ArrayDataset(IMAGES.astype(np.float32), LABELS), batch_size=8, transform=mix, seed=1
    )
    images, labels = next(iter(loader))
    assert images.shape == (8, 12, 14, 3)
    np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="fixed_batch_size=False and a transform of whole batches"):
        nl.DataLoader(
            nl.ArrayDataset(IMAGES, LABELS),
            transform=mix,
            memory=nl.MemoryPolicy(fixed_batch_size=False),
        )


def test_mixing_leaves_alone_what_a_collate_function_returned() -> None:
    images = IMAGES[:8].astype(np.float32)
    before = images.copy()
    mix = {(0, 1): nl.transforms.MixUp(num_classes=50)}
    for collate in (lambda samples: (images, LABELS[:8]), None):
        dataset = [(image, label) for image, label in zip(images, LABELS, strict=False)]
        (batch,) = nl.DataLoader(
            dataset, batch_size=8, transform=mix, collate_fn=collate, seed=1, num_workers=1
        )
        assert not np.array_equal(batch[0], before)
        np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize(
    ("sample", "transform", "words"),
    [
        ((IMAGES[0], 3), CHAIN, r"(?s)not tuple .*say which item is meant: transform=\{0: …\}"),
        ({"image": IMAGES[0]}, CHAIN, r"say which value is meant: transform=\{'image': …\}"),
        (Record(IMAGES[0], 1), CHAIN, r"say which field is meant: transform=\{'image': …\}"),
        ({"x": IMAGES[0], "y": "text"}, {"y": CHAIN}, r"transform at 'y', sample 0: .*not str"),
        ({"a": {"b": IMAGES[0]}}, {"a": CHAIN}, r"transform=\{'a.b': …\}"),
    ],
    ids=["tuple", "dict", "record", "text", "nested"],
)
@pytest.mark.parametrize("collate", [None, list], ids=["default", "own"])
def test_what_is_no_array_is_refused_with_advice(
    sample: Any, transform: Any, words: str, collate: Any
) -> None:
    with pytest.raises(nl.DeadWorkerError) as caught:
        load([sample], transform=transform, collate_fn=collate, num_workers=1)
    with pytest.raises(ValueError, match=words):
        raise caught.value.__cause__  # type: ignore[misc]


def test_another_dtype_is_called_one() -> None:
    samples = [IMAGES[0], IMAGES[1].astype(np.float32)]
    with pytest.raises(nl.DeadWorkerError, match=r"dtypes differ .*float32.*uint8"):
        load(samples, transform=HorizontalFlip(), num_workers=1)


def test_no_part_is_transformed_twice() -> None:
    joint = nl.transforms.Joint([HorizontalFlip()], kinds=("image", "mask"))
    for twice in ({"image": CHAIN, ("image", "mask"): joint}, {("image", "image"): joint}):
        with pytest.raises(ValueError, match="'image' is transformed twice; put all"):
            nl.DataLoader([], transform=twice)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [Images, lambda: nl.ArrayDataset(IMAGES)], ids=["singly", "array"])
def test_a_chain_may_end_with_a_plain_function(make: Any, workers: int) -> None:
    chain = Compose([RandomCrop(9), lambda image: image // 2])
    got = images_of(load(make(), transform=chain, num_workers=workers))
    expected = [chain.apply(image, seed=SEED, index=n) for n, image in enumerate(IMAGES)]
    np.testing.assert_array_equal(got, np.stack(expected))


@pytest.mark.parametrize("make", ["array", "singly", "own collate"])
def test_two_keys_are_two_views(make: str) -> None:
    samples = {"one": IMAGES, "two": IMAGES}
    dataset: Any = nl.ArrayDataset(samples)
    if make != "array":
        dataset = [{"one": image, "two": image} for image in IMAGES]
    collate: Any = None
    if make == "own collate":
        collate = lambda batch: {key: np.stack([each[key] for each in batch]) for key in ("one", "two")}  # noqa: E731
    batches = load(dataset, transform={"one": CHAIN, "two": CHAIN}, num_workers=2, collate_fn=collate)
    one, two = (np.concatenate([batch[key] for batch in batches]) for key in ("one", "two"))
    np.testing.assert_array_equal(one, by_hand())
    expected = [CHAIN.apply(image, seed=SEED, index=n, part=1) for n, image in enumerate(IMAGES)]
    np.testing.assert_array_equal(two, np.stack(expected))
    assert sum(np.array_equal(*pair) for pair in zip(one, two, strict=True)) < 10


def test_a_function_that_works_in_place_leaves_the_dataset_alone() -> None:
    def in_place(image: Any) -> Any:
        image += 1
        return image

    source = IMAGES.copy()
    for chain in (Compose([in_place]), Compose([in_place, ToCHW()])):
        load(nl.ArrayDataset(source), transform=chain, num_workers=1)
        load(list(source), transform=chain, num_workers=1, collate_fn=list)
        chain.apply(source[0])
    np.testing.assert_array_equal(source, IMAGES)
    (same,) = load([source[0]], transform=Compose([lambda image: image]), batch_size=None)
    assert not np.shares_memory(same, source)
