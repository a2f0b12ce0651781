"""torch's datasets are read for what they are, by themselves and inside ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nogil_loader.data import (
    Mapper,
    Subset,
    batched_fetch,
    check_dataset,
    dataset_length,
    is_map_style,
    stream_samples,
)


@pytest.mark.torch
def test_torch_datasets_are_told_apart_by_what_they_are() -> None:
    pytest.importorskip("torch")
    import torch
    from torch.utils import data

    class Map(data.Dataset):
        def __getitem__(self, index: int) -> int:
            return index

        def __len__(self) -> int:
            return 4

    class Forgot(data.Dataset):
        """Defines neither: torch's own ``__getitem__``, which raises, must not count."""

    class Iterates(data.Dataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    class Iterable(data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    class Both(Iterable):
        def __getitem__(self, index: int) -> int:
            raise AssertionError

    for dataset in (Map(), data.Subset(Map(), [1]), data.TensorDataset(torch.zeros(2)), torch.zeros(2)):
        assert is_map_style(dataset), dataset
        check_dataset(dataset)
    for dataset in (Iterates(), Iterable(), Both(), data.ChainDataset([Iterable()])):
        assert not is_map_style(dataset), dataset
        check_dataset(dataset)
    assert not is_map_style(Forgot())
    with pytest.raises(TypeError, match="Forgot defines neither"):
        check_dataset(Forgot())
    assert dataset_length(Iterable()) is None
    assert dataset_length(Forgot()) is None
    assert dataset_length(Map()) == 4


@pytest.mark.torch
def test_d26_a_subclass_of_torchs_subset_that_overrides_getitem_alone_wins() -> None:
    pytest.importorskip("torch")
    from torch.utils import data

    class Doubled(data.Subset):
        def __init__(self, dataset: Any, indices: list[int]) -> None:
            self.dataset, self.indices = (
                dataset,
                indices,
            )  # torch's own refuses such a class in newer versions

        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index) * 2

    inner: Any = [1, 2, 3]
    assert batched_fetch(data.Subset(inner, [2, 0])) is not None
    assert batched_fetch(Doubled(inner, [2, 0])) is None
    assert list(stream_samples(Doubled(inner, [2, 0]), [0, 1])) == [6, 2]


@pytest.mark.torch
def test_torch_datasets_nest_in_ours_and_ours_in_torchs() -> None:
    pytest.importorskip("torch")
    from torch.utils import data

    torch_subset: Any = data.Subset([10, 11, 12, 13], [3, 1, 0])
    mapped = Mapper(Subset(torch_subset, [2, 0]), str)
    assert list(mapped) == ["10", "13"]
    assert mapped.__getitems__ is not None
    assert mapped.__getitems__([1, 0]) == ["13", "10"]
    loader = data.DataLoader(mapped, batch_size=2)
    assert list(loader) == [["10", "13"]]
