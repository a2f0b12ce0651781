"""Batches arrive as what the consumer asked for, in memory that is theirs alone."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
import nogil_loader.torch as nl_torch
from tests.loading import Noisy, Numbers, Stream, samples_of, stream_of
from tests.scripts import RunScript

Point = namedtuple("Point", ["x", "y"])


class Rows(Numbers):
    """Samples of many kinds below one another."""

    def __getitem__(self, index: Any) -> Any:
        return {
            "image": np.full((2, 3), index, np.float32),
            "label": index,
            "weight": float(index),
            "flag": index % 2 == 0,
            "name": f"sample {index}",
            "point": Point(np.int16(index), [np.uint8(index)]),
        }


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("output", ["auto", "numpy"])
def test_numpy_in_numpy_out(num_workers: int, output: str) -> None:
    (batch,) = nl.DataLoader(Rows(4), 4, num_workers=num_workers, output=output)
    assert {name: str(value.dtype) for name, value in batch.items() if name not in ("name", "point")} == {
        "image": "float32",
        "label": "int64",
        "weight": "float64",
        "flag": "bool",
    }
    assert batch["image"].shape == (4, 2, 3)
    assert batch["name"] == [f"sample {index}" for index in range(4)]
    assert type(batch["point"]) is Point
    assert batch["point"].x.dtype == np.int16
    assert batch["point"].y[0].tolist() == [0, 1, 2, 3]


def test_the_package_runs_without_torch(run_script: RunScript) -> None:
    result = run_script(
        """
        import sys
        sys.modules["torch"] = None  # importing it now fails
        import numpy as np
        import nogil_loader as nl
        import nogil_loader.torch

        for output in ("auto", "numpy"):
            with nl.DataLoader(np.arange(12.0), 4, num_workers=2, output=output) as loader:
                assert sum(len(batch) for batch in loader) == 12
        for make in (lambda: nl.DataLoader([1], output="torch"), lambda: nogil_loader.torch.DataLoader([1])):
            try:
                make()
            except ImportError as error:
                assert 'pip install "nogil_loader[torch]"' in str(error)
            else:
                raise AssertionError("no ImportError")
        """
    )
    assert result.returncode == 0, result.stderr


def test_torch_is_not_imported_unless_it_is_asked_for(run_script: RunScript) -> None:
    result = run_script(
        """
        import sys
        import numpy as np
        import nogil_loader as nl

        with nl.DataLoader(np.arange(12.0), 4, num_workers=2, output="numpy") as loader:
            list(loader)
        print("torch" in sys.modules)
        """
    )
    assert result.stdout.strip() == "False", result.stderr


# torch

torch_only = pytest.mark.torch


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


class Tensors(Numbers):
    def __getitem__(self, index: Any) -> Any:
        import torch

        return torch.full((2, 3), float(index)), torch.tensor(index)


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("output", ["auto", "torch"])
def test_tensors_in_tensors_out(torch: Any, num_workers: int, output: str) -> None:
    for images, labels in nl.DataLoader(Tensors(6), 3, num_workers=num_workers, output=output):
        assert type(images) is type(labels) is torch.Tensor
        assert (images.dtype, images.shape, labels.dtype) == (torch.float32, (3, 2, 3), torch.int64)
        assert (images == labels[:, None, None]).all()


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
def test_output_torch_makes_tensors_of_arrays_and_leaves_the_rest(torch: Any, num_workers: int) -> None:
    (batch,) = nl.DataLoader(Rows(4), 4, num_workers=num_workers, output="torch")
    assert {name: value.dtype for name, value in batch.items() if isinstance(value, torch.Tensor)} == {
        "image": torch.float32,
        "label": torch.int64,
        "weight": torch.float64,
        "flag": torch.bool,
    }
    assert batch["name"] == [f"sample {index}" for index in range(4)]
    assert type(batch["point"]) is Point
    assert batch["point"].x.dtype is torch.int16
    assert batch["point"].y[0].dtype is torch.uint8


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
def test_output_numpy_makes_arrays_of_tensors(torch: Any, num_workers: int) -> None:
    for images, labels in nl.DataLoader(Tensors(6), 3, num_workers=num_workers, output="numpy"):
        assert type(images) is type(labels) is np.ndarray
        assert (images == labels[:, None, None]).all()


_DTYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@torch_only
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("source", ["samples", "array dataset", "batched fetch"])
def test_a09_every_dtype_that_torch_has_arrives_exactly(torch: Any, dtype: str, source: str) -> None:
    data = np.arange(12).reshape(6, 2).astype(dtype)
    dataset: Any = {
        "samples": list(data),
        "array dataset": nl.ArrayDataset(data),
        "batched fetch": Fetched(data),
    }
    loader = nl.DataLoader(dataset[source], 3, num_workers=2, output="torch")
    batches = list(loader)
    assert {batch.dtype for batch in batches} == {getattr(torch, dtype)}
    assert np.array_equal(torch.cat(batches).numpy(), data)


class Fetched(Numbers):
    def __init__(self, data: Any) -> None:
        super().__init__(len(data))
        self.data = data

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __getitems__(self, indices: list[int]) -> Any:
        return list(self.data[indices])


@torch_only
@pytest.mark.parametrize(
    "data",
    [
        np.array(["2020-01-01"] * 4, dtype="M8[D]"),
        np.array([3] * 4, dtype="m8[s]"),
        np.array([[b"abc", b"d"]] * 4),
        np.array([(1, 2.0)] * 4, dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(4, dtype=np.longdouble),
    ],
    ids=lambda data: str(data.dtype),
)
def test_a09_what_torch_has_no_dtype_for_stays_an_array(torch: Any, data: Any) -> None:
    if data.dtype == np.float64:
        pytest.skip("long double is double here")
    with nl.DataLoader(
        nl.ArrayDataset({"odd": data, "even": np.zeros(4)}), 2, num_workers=2, output="torch"
    ) as loader:
        for batch in loader:
            assert isinstance(batch["odd"], np.ndarray)
            assert isinstance(batch["even"], torch.Tensor)


@torch_only
@pytest.mark.parametrize("value", [np.str_("a"), np.bytes_(b"a"), np.datetime64("2020-01-01"), "a", None])
def test_values_that_torch_has_no_type_for_are_the_same_with_and_without_it(torch: Any, value: Any) -> None:
    samples = [{"x": value}] * 2
    collate = nl.DefaultCollate(none="list") if value is None else None
    for batch_size, collate_fn in ((2, collate), (None, None)):
        arguments = (samples, batch_size)
        (first, *_) = nl.DataLoader(*arguments, num_workers=0, collate_fn=collate_fn, output="torch")
        (same, *_) = nl.DataLoader(*arguments, num_workers=0, collate_fn=collate_fn, output="numpy")
        assert type(first["x"]) is type(same["x"])
        if isinstance(same["x"], list):
            assert list(map(type, first["x"])) == list(map(type, same["x"]))


@torch_only
def test_dtypes_that_only_torch_has_arrive_exactly(torch: Any) -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        samples = [torch.full((3,), value).to(dtype) for value in (0.5, 1.0, 2.0)]
        (batch,) = nl.DataLoader(samples, 3, num_workers=1)
        assert batch.dtype is dtype
        assert batch.float()[:, 0].tolist() == [0.5, 1.0, 2.0]


@torch_only
@pytest.mark.parametrize("output", ["auto", "torch", "numpy"])
def test_a_collate_fn_of_ones_own_decides_what_a_batch_is(torch: Any, output: str) -> None:
    with nl.DataLoader(Numbers(6), 3, num_workers=2, output=output, collate_fn=np.array) as loader:
        assert all(type(batch) is np.ndarray for batch in loader)
    with nl.DataLoader(Numbers(6), 3, num_workers=2, output=output, collate_fn=torch.tensor) as loader:
        assert all(type(batch) is torch.Tensor for batch in loader)
    with nl.DataLoader(Numbers(6), 3, num_workers=2, output="torch", collate_fn=nl.default_collate) as loader:
        assert all(type(batch) is torch.Tensor for batch in loader)


@torch_only
def test_a_sample_alone_becomes_tensors_as_in_torch_and_keeps_its_other_values(torch: Any) -> None:
    samples = [{"x": np.arange(3), "y": np.float32(2), "z": "text"}]
    (sample,) = nl.DataLoader(samples, None, num_workers=0, output="torch")
    assert sample["x"].tolist() == [0, 1, 2]
    assert (sample["y"].dtype, sample["y"].shape) == (torch.float32, ())
    assert sample["z"] == "text"
    locked = np.arange(3)[::-1]
    locked.flags.writeable = False
    (reversed_,) = nl.DataLoader([locked], None, num_workers=0, output="torch")
    reversed_ += 1
    assert (reversed_.tolist(), locked.tolist()) == ([3, 2, 1], [2, 1, 0])


@torch_only
def test_output_numpy_holds_for_samples_alone_as_well(torch: Any) -> None:
    for sample in nl.DataLoader(Tensors(2), None, num_workers=0, output="numpy"):
        assert all(type(value) is np.ndarray for value in sample)


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("output", ["auto", "torch", "numpy"])
def test_g9_batches_share_memory_with_nothing_else(torch: Any, num_workers: int, output: str) -> None:
    data = torch.arange(24.0).reshape(12, 2)

    class Views(Numbers):
        def __getitem__(self, index: Any) -> Any:
            return {"row": data[index], "same": data[index]}

    pristine = data.clone()
    kept: list[Any] = []
    for batch in nl.DataLoader(Views(12), 3, num_workers=num_workers, output=output):
        for value in batch.values():
            array = value if isinstance(value, np.ndarray) else value.numpy()
            assert not any(np.shares_memory(array, other) for other in [*kept, data.numpy()])
            array += 1000
            kept.append(array)
    assert torch.equal(data, pristine)
    assert np.array_equal(np.concatenate(kept[::2]), pristine.numpy() + 1000)


@torch_only
def test_a_batch_is_not_copied_on_its_way_to_torch(torch: Any) -> None:
    addresses: list[int] = []

    class Spy(nl.DefaultCollate):
        def begin(self, first: Any, keys: Sequence[Hashable], leaves: Any = None) -> Any:
            inner = super().begin(first, keys, leaves)

            class Noting:
                put = staticmethod(inner.put)

                @staticmethod
                def finish(count: int) -> Any:
                    array = inner.finish(count)
                    addresses.append(array.ctypes.data)
                    return array

            return Noting

    batches = list(nl.DataLoader(Numbers(8), 4, num_workers=0, output="torch", collate_fn=nl.default_collate))
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    Spy.__module__ = "nogil_loader.collate.default"  # counts as the loader's own
    batches = list(nl.DataLoader(Numbers(8), 4, num_workers=0, output="torch", collate_fn=Spy()))
    assert [batch.data_ptr() for batch in batches] == addresses


# The drop-in


@torch_only
def test_the_drop_in_is_the_same_class_with_tensors(torch: Any) -> None:
    loader = nl_torch.DataLoader(Rows(4), 2, True, num_workers=2, seed=0)
    assert isinstance(loader, nl.DataLoader)
    assert all(isinstance(batch["image"], torch.Tensor) for batch in loader)
    assert nl_torch.get_worker_info is nl.get_worker_info
    loader.close()
    (batch,) = nl_torch.DataLoader(Rows(4), 4, output="numpy", num_workers=0)
    assert isinstance(batch["image"], np.ndarray)


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_changing_the_import_line_changes_no_batch(
    torch: Any, num_workers: int, batch_size: int, drop_last: bool
) -> None:
    import torch.utils.data as theirs

    @dataclass
    class Plain(theirs.Dataset):
        length: int

        def __len__(self) -> int:
            return self.length

        def __getitem__(self, index: int) -> Any:
            assert 0 <= index < self.length
            return (
                torch.full((2,), index),
                {"n": index, "f": index / 2, "s": str(index), "b": index > 3},
                [np.float32(index), np.arange(index, index + 2, dtype=np.int16)],
                Point(torch.tensor(index), index),
            )

    dataset = Plain(10)
    expected = theirs.DataLoader(dataset, batch_size, False, num_workers=0, drop_last=drop_last)
    loader = nl_torch.DataLoader(dataset, batch_size, False, num_workers=num_workers, drop_last=drop_last)
    assert len(loader) == len(expected)
    for ours, same in zip(loader, expected, strict=True):
        assert _described(ours) == _described(same)


def _described(tree: Any) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        return "tensor", tree.dtype, tree.shape, tree.tolist()
    if isinstance(tree, dict):
        return {key: _described(value) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return [_described(value) for value in tree]
    return tree


@torch_only
@pytest.mark.parametrize("num_workers", [0, 3])
def test_torchs_datasets_work_as_they_are(torch: Any, num_workers: int) -> None:
    import torch.utils.data as theirs

    class Count(theirs.IterableDataset):
        def __iter__(self) -> Any:
            assert theirs.get_worker_info() is None
            yield from range(10)

    table = theirs.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    for dataset, expected in (
        (Count(), list(range(10))),
        (theirs.Subset(Numbers(100), [5, 3, 8]), [5, 3, 8]),
        (theirs.ConcatDataset([Numbers(3), Numbers(2)]), [0, 1, 2, 0, 1]),
        (theirs.ChainDataset([Count(), Count()]), [*range(10), *range(10)]),
    ):
        with nl_torch.DataLoader(dataset, 4, num_workers=num_workers) as loader:
            batches = list(loader)
            assert all(isinstance(batch, torch.Tensor) for batch in batches)
            assert samples_of(batches) == expected
    with nl_torch.DataLoader(table, 4, num_workers=num_workers) as loader:
        rows, labels = zip(*loader, strict=True)
    assert torch.equal(torch.cat(rows), table.tensors[0])
    assert torch.equal(torch.cat(labels), table.tensors[1])


@torch_only
def test_a_subset_of_a_dataset_with_a_batched_fetch_uses_it(torch: Any) -> None:
    import torch.utils.data as theirs

    asked: list[list[int]] = []

    class Batched(Numbers):
        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("one by one")

        def __getitems__(self, indices: list[int]) -> list[int]:
            asked.append(list(indices))
            return indices

    subset = theirs.Subset(Batched(100), list(range(50, 56)))
    with nl_torch.DataLoader(subset, 4, num_workers=1) as loader:
        assert samples_of(loader) == list(range(50, 56))
    assert asked == [[50, 51, 52, 53], [54, 55]]


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_samplers_work_as_they_are(torch: Any, num_workers: int) -> None:
    import torch.utils.data as theirs

    class Strict(Numbers):
        def __getitem__(self, index: Any) -> Any:
            assert type(index) is int
            return index

    data = Strict(12)

    def seeded() -> Any:
        return torch.Generator().manual_seed(3)

    for sampler in (
        theirs.SequentialSampler(data),
        theirs.RandomSampler(data, generator=seeded()),
        theirs.RandomSampler(data, replacement=True, num_samples=7, generator=seeded()),
        theirs.SubsetRandomSampler([4, 2, 9], generator=seeded()),
        theirs.WeightedRandomSampler(torch.arange(12.0), 30, generator=seeded()),
        torch.randperm(12, generator=seeded()),
    ):
        if hasattr(sampler, "generator") and sampler.generator is not None:
            sampler.generator.manual_seed(9)
            expected = [int(index) for index in sampler]
            sampler.generator.manual_seed(9)
        else:
            expected = [int(index) for index in sampler]
        with nl_torch.DataLoader(data, 5, sampler=sampler, num_workers=num_workers) as loader:
            assert len(loader) == -(-len(expected) // 5)
            assert samples_of(loader) == expected
    batch_sampler = theirs.BatchSampler(theirs.SequentialSampler(data), 5, drop_last=True)
    with nl_torch.DataLoader(data, batch_sampler=batch_sampler, num_workers=num_workers) as loader:
        assert len(loader) == 2
        assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@torch_only
@pytest.mark.parametrize("how", ["sampler.set_epoch", "loader.set_epoch", "neither"])
def test_a_distributed_sampler_works_with_either_set_epoch(torch: Any, how: str) -> None:
    from torch.utils.data.distributed import DistributedSampler

    data = Numbers(11)

    def expected(rank: int, epoch: int) -> list[int]:
        sampler = DistributedSampler(data, num_replicas=2, rank=rank, seed=1)
        sampler.set_epoch(epoch)
        return list(sampler)

    ranks: list[list[list[int]]] = []
    for rank in range(2):
        sampler = DistributedSampler(data, num_replicas=2, rank=rank, seed=1)
        with nl_torch.DataLoader(data, 4, sampler=sampler, num_workers=2) as loader:
            ranks.append([])
            for epoch in (0, 1, 5):
                if how == "sampler.set_epoch":
                    loader.sampler.set_epoch(epoch)  # type: ignore[union-attr]
                elif how == "loader.set_epoch":
                    loader.set_epoch(epoch)
                ranks[rank].append(samples_of(loader))
                assert ranks[rank][-1] == expected(rank, 0 if how == "neither" else epoch)
    for halves in zip(*ranks, strict=True):
        assert set(halves[0]) | set(halves[1]) == set(range(11))


@torch_only
def test_a_torch_generator_gives_the_seed_and_is_left_as_it_was(torch: Any) -> None:
    def run(seed: int) -> list[Any]:
        generator = torch.Generator().manual_seed(seed)
        before = generator.get_state()
        with nl.DataLoader(Noisy(10), 4, shuffle=True, num_workers=2, generator=generator) as loader:
            assert loader.seed == seed
            stream = stream_of(loader)
        assert torch.equal(generator.get_state(), before)
        return stream

    assert run(5) == run(5) == stream_of(nl.DataLoader(Noisy(10), 4, shuffle=True, seed=5))
    assert run(5) != run(6)


@torch_only
@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_global_random_state_is_neither_read_nor_changed(torch: Any, num_workers: int) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = stream_of(nl_torch.DataLoader(Noisy(10), 4, shuffle=True, num_workers=num_workers, seed=2))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert (
        stream_of(nl_torch.DataLoader(Noisy(10), 4, shuffle=True, num_workers=num_workers, seed=2)) == first
    )


@torch_only
def test_a_model_trains_on_what_arrives(torch: Any) -> None:
    class Line(Numbers):
        def __getitem__(self, index: Any) -> Any:
            x = np.float32(nl.sample_rng().uniform(-1, 1))
            return np.array([x], np.float32), np.array([3 * x - 1], np.float32)

    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    with nl_torch.DataLoader(Line(64), 16, shuffle=True, num_workers=2, seed=0) as loader:
        for _ in range(20):
            for x, y in loader:
                optimiser.zero_grad()
                torch.nn.functional.mse_loss(model(x), y).backward()
                optimiser.step()
    assert abs(model.weight.item() - 3) < 0.01
    assert abs(model.bias.item() + 1) < 0.01


@torch_only
def test_tensors_of_an_iterable_arrive_as_tensors(torch: Any) -> None:
    class Rows(Stream):
        def __iter__(self) -> Any:
            for number in super().__iter__():
                yield torch.full((2,), number)

    batches = list(nl_torch.DataLoader(Rows(5), 2, num_workers=2))
    assert [batch[:, 0].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert "torch" in sys.modules
