"""Arrays, numpy scalars and Python numbers become batch arrays of exactly their dtype."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import PadCollate, default_collate, pack_collate, pad_collate
from nogil_loader.errors import CollateError
from tests.collate.promises import assert_owned
from tests.scripts import RunScript

DTYPES = [
    "?",
    *("u1", "u2", "u4", "u8"),
    *("i1", "i2", "i4", "i8"),
    *("f2", "f4", "f8", "g"),
    *("c8", "c16", "G"),
    *("M8[s]", "m8[ms]"),
    *("S3", "U3"),
    "i4,f8",
]


def images(count: int) -> list[np.ndarray[Any, Any]]:
    return list(np.random.default_rng(0).integers(0, 255, (count, 6, 5, 3), np.uint8))


@pytest.mark.parametrize(
    "view",
    [
        lambda image: image[::-1],
        lambda image: image[..., ::-1],
        lambda image: image.transpose(2, 0, 1),
        lambda image: np.asfortranarray(image),
        lambda image: image[::2, 1:, :1],
        lambda image: np.broadcast_to(image[:1], image.shape),
    ],
    ids=["flipped", "BGR", "CHW", "Fortran", "cropped", "broadcast"],
)
def test_a01_strided_views_collate_like_their_contiguous_copies(view: Any) -> None:
    samples = [view(image) for image in images(4)]
    batch = default_collate(samples)
    np.testing.assert_array_equal(batch, np.stack(samples))
    assert_owned(batch, samples)


def test_a01_reversed_ranges_collate_and_can_be_handed_to_torch() -> None:
    torch = pytest.importorskip("torch")
    batch = default_collate([np.arange(10)[::-1]] * 4)
    assert torch.from_numpy(batch).tolist() == [list(range(9, -1, -1))] * 4


def test_a01_strided_and_contiguous_samples_mix_in_one_batch() -> None:
    samples = [image if at % 2 else image[::-1] for at, image in enumerate(images(7))]
    np.testing.assert_array_equal(default_collate(samples), np.stack(samples))


def test_a03_read_only_samples_give_a_writable_batch_and_no_warning(tmp_path: Path) -> None:
    locked = np.arange(12, dtype=np.int16).reshape(3, 4)
    locked.flags.writeable = False
    frozen = np.frombuffer(locked.tobytes(), np.int16).reshape(3, 4)
    locked.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.int16, "r", shape=(3, 4))
    batch = default_collate([locked, frozen, mapped])
    assert_owned(batch, [locked, frozen, mapped])
    batch[:] = -1
    for sample in (locked, frozen, mapped):
        np.testing.assert_array_equal(sample, np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c16", ">U3", ">M8[s]", [("a", ">i4"), ("b", "<f8")]])
def test_a05_big_endian_samples_give_a_native_batch(dtype: Any) -> None:
    sample = np.array([3, 1, 2]).astype(np.dtype(dtype)) if isinstance(dtype, str) else np.ones(3, dtype)
    batch = default_collate([sample, sample])
    np.testing.assert_array_equal(batch, np.stack([sample, sample]))
    assert_owned(batch, [sample])


@pytest.mark.parametrize("orders", [(">f4", "<f4", ">f4"), ("<f4", ">f4", "<f4")])
def test_a05_byte_orders_mix_in_one_batch(orders: tuple[str, ...]) -> None:
    samples = [np.arange(5).astype(order) for order in orders]
    batch = default_collate(samples)
    assert batch.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert_owned(batch, samples)


def test_a07_object_arrays_are_collated_by_reference() -> None:
    thing = object()
    batch = default_collate([np.array([1, None], object), np.array([thing, "text"], object)])
    assert batch.dtype == object
    assert batch.tolist() == [[1, None], [thing, "text"]]


def test_a07_zero_dimensional_object_arrays_keep_what_they_hold() -> None:
    first, second = np.empty((), object), np.empty((), object)
    first[()], second[()] = [1, 2], {"a": 1}
    assert default_collate([first, second]).tolist() == [[1, 2], {"a": 1}]


def test_a08_object_arrays_keep_their_reference_counts(run_script: RunScript) -> None:
    result = run_script(
        """
        import gc, sys
        import numpy as np
        from nogil_loader.collate import default_collate, pack_collate, pad_collate

        tracked = bytearray(1_000_000)
        start = sys.getrefcount(tracked)
        for collate in (default_collate, pad_collate(value=None), pack_collate()):
            for _ in range(200):
                fresh = [np.array([bytearray(10_000), tracked], object) for _ in range(4)]
                batch = collate(fresh)
                del fresh
                values = batch[0] if isinstance(batch, tuple) else batch
                assert all(len(item) in (10_000, 1_000_000) for item in values.flat)
                del batch, values
        gc.collect()
        assert sys.getrefcount(tracked) == start, sys.getrefcount(tracked)
        tracked[:] = bytes(len(tracked))
        """
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_a09_every_dtype_is_kept_exactly(dtype: str, shape: tuple[int, ...]) -> None:
    samples = [np.ones(shape, dtype), np.zeros(shape, dtype), np.ones(shape, dtype)]
    batch = default_collate(samples)
    assert batch.dtype == np.dtype(dtype)
    assert batch.shape == (3, *shape)
    np.testing.assert_array_equal(batch, np.stack(samples))
    assert_owned(batch, samples)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype[0] not in "SU"])
def test_a12_numpy_scalars_keep_their_dtype(dtype: str) -> None:
    scalars = [np.ones((), dtype)[()], np.zeros((), dtype)[()]]
    batch = default_collate(scalars)
    assert batch.dtype == np.dtype(dtype)
    assert batch.tolist() == [scalars[0].item(), scalars[1].item()]
    assert_owned(batch, [])


@pytest.mark.parametrize(
    ("samples", "dtype"),
    [
        ([True, False], np.bool_),
        ([1, -(2**63)], np.int64),
        ([1.5, 2.0], np.float64),
        ([1j, 2.0 + 0j], np.complex128),
        ([np.float32(1), np.float32(2)], np.float32),
        ([np.array(1, np.float32), np.array(2, np.float32)], np.float32),
        ([np.float32(1), np.array(2, np.float32)], np.float32),
        ([1.5, np.float64(2)], np.float64),
        ([np.int64(1), 2], np.int64),
        ([True, np.bool_(False)], np.bool_),
    ],
)
def test_a12_numbers_give_one_dimension_of_their_own_dtype(samples: list[Any], dtype: Any) -> None:
    batch = default_collate(samples)
    assert batch.dtype == dtype
    assert batch.shape == (2,)
    assert batch.tolist() == [complex(s) if dtype is np.complex128 else np.asarray(s).item() for s in samples]
    assert_owned(batch, samples)


@pytest.mark.parametrize(
    "samples",
    [
        [2**63, 1],
        [1, 2**63],
        [1, -(2**63) - 1],
        [np.uint64(2**60 + 1), np.int64(5)],
        [np.int64(5), np.uint64(2**60 + 1)],
        [np.array([1], np.uint64), np.array([1], np.int64)],
        [1, 2.5],
        [2.5, 1],
        [True, 1],
        [1, True],
        [np.float32(1), 2.0],
        [np.zeros(2, np.float32), np.zeros(2, np.float64)],
        [np.zeros(2, "M8[s]"), np.zeros(2, "M8[ms]")],
        [np.datetime64(1, "s"), np.datetime64(1, "ms")],
        [np.array(["ab"]), np.array(["abc"])],
    ],
)
def test_a11_what_could_round_or_wrap_is_an_error_and_never_a_promotion(samples: list[Any]) -> None:
    with pytest.raises(CollateError):
        default_collate(samples)


def test_a11_a_dtype_error_names_both_dtypes() -> None:
    with pytest.raises(CollateError, match=r"int64.*uint64") as caught:
        default_collate.collate([np.uint64(2**60 + 1), np.int64(5)], [10, 20])
    assert caught.value.dtypes == (np.uint64, np.int64)
    assert caught.value.indices == (10, 20)


def test_a11_64_bit_integers_are_exact_at_the_ends_of_their_range() -> None:
    assert default_collate([np.uint64(2**64 - 1), np.uint64(2**60 + 1)]).tolist() == [2**64 - 1, 2**60 + 1]
    assert default_collate([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]


def test_a19_a_larger_later_sample_is_an_error_and_writes_nowhere_else(run_script: RunScript) -> None:
    result = run_script(
        """
        import numpy as np
        from nogil_loader.collate import PadCollate, default_collate, pack_collate, pad_collate
        from nogil_loader.errors import CollateError

        for small, large in (((4,), (400_000,)), ((2, 2), (2, 200_000)), ((400_000,), (4,)), ((4,), (1,))):
            slots = default_collate.begin(np.zeros(small), range(3))
            slots.put(np.zeros(small), 0)
            canary = np.full(500_000, 7.0)
            try:
                slots.put(np.ones(large), 1)
            except CollateError as error:
                assert error.shapes == (small, large), error.shapes
            else:
                raise AssertionError("no error")
            assert (canary == 7.0).all()
            assert not slots.finish(1).any()
        """
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("shapes", [[(1, 4), (4,)], [(4,), (1, 4)], [(3, 4), (1, 4)], [(4,), ()], [(), (4,)]])
def test_shapes_that_numpy_would_broadcast_are_errors(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(CollateError, match="shapes differ"):
        default_collate([np.zeros(shape) for shape in shapes])


class Tagged(np.ndarray):
    """A subclass that nobody here knows."""


@pytest.mark.parametrize("make", [lambda a: a.view(Tagged), lambda a: a.view(np.recarray)])
def test_a29_subclasses_of_ndarray_collate_as_arrays(make: Any) -> None:
    sample = make(np.ones((2, 2), "i4,f8"))
    batch = default_collate([sample, sample])
    np.testing.assert_array_equal(batch["f1"], np.ones((2, 2, 2)))
    assert_owned(batch, [sample])


@pytest.mark.parametrize("at", [0, 1])
def test_a29_a_masked_array_is_refused_before_its_mask_is_lost(at: int) -> None:
    samples: list[Any] = [np.zeros(2), np.zeros(2)]
    samples[at] = np.ma.array([0.0, 1.0], mask=[False, True])
    with pytest.raises(CollateError, match=r"masked array.*filled"):
        default_collate(samples)


@pytest.mark.parametrize("elements", [3, 70_000, 2_000_000])
def test_a_batch_of_one_is_a_copy_too(elements: int) -> None:
    sample = np.arange(elements, dtype=np.float32)
    batch = default_collate([sample])
    np.testing.assert_array_equal(batch, sample[None])
    assert_owned(batch, [sample])


def test_a_dataset_may_reuse_one_buffer_for_all_samples() -> None:
    buffer = np.empty(5)
    slots = default_collate.begin(buffer, range(3))
    for position in range(3):
        buffer[:] = position
        slots.put(buffer, position)
    assert slots.finish(3).tolist() == [[0] * 5, [1] * 5, [2] * 5]


def test_a_trimmed_batch_pickles_to_its_own_size() -> None:
    slots = default_collate.begin(np.zeros(1000), range(1000))
    slots.put(np.zeros(1000), 0)
    assert len(pickle.dumps(slots.finish(1))) < 10_000


@pytest.mark.parametrize("collate", [default_collate, pad_collate(returns="values"), pack_collate()])
@pytest.mark.parametrize("dtype", ["V5", np.dtypes.StringDType()])
def test_opaque_bytes_and_strings_of_any_width_are_collated(collate: Any, dtype: Any) -> None:
    values = (
        ["short", "quite a long one, not kept inline", ""] if dtype != "V5" else [b"short", b"bytes", b""]
    )
    sample = np.array([values, values[::-1]]).astype(dtype)
    if isinstance(collate, PadCollate) and dtype != "V5":
        collate = dataclasses.replace(collate, value="")
    batch = collate([sample, sample[::-1]])
    batch = batch[0].reshape(2, 2, 3) if isinstance(batch, tuple) else batch
    assert batch.dtype == sample.dtype
    assert batch.tolist() == [sample.tolist(), sample[::-1].tolist()]
