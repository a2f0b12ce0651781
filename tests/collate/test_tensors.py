"""Tensors in the samples are tensors in the batch, of the same dtype; torch is never imported for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nogil_loader.collate import DefaultCollate, default_collate, pack_collate, pad_collate
from nogil_loader.errors import CollateError
from tests.scripts import RunScript

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2"),
]


def bits(tensor: Any) -> list[int]:
    return list(tensor.contiguous().view(torch.uint8).flatten().tolist())


@pytest.mark.filterwarnings(
    "ignore:ComplexHalf support is experimental"
)  # torch's, when it makes the samples
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 4)])
def test_every_dtype_is_kept_bit_by_bit(name: str, shape: tuple[int, ...]) -> None:
    dtype = getattr(torch, name)
    samples = [torch.ones(shape).to(dtype), torch.zeros(shape).to(dtype)]
    batch = default_collate(samples)
    assert batch.dtype == dtype
    assert batch.shape == (2, *shape)
    if shape:
        assert bits(batch) == bits(samples[0]) + bits(samples[1])
    assert batch.data_ptr() % 64 == 0 or not batch.numel()


def test_tensors_and_arrays_stand_beside_each_other() -> None:
    batch = default_collate([{"t": torch.ones(2), "a": np.ones(2)}] * 3)
    assert isinstance(batch["t"], torch.Tensor)
    assert isinstance(batch["a"], np.ndarray)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(6.0, requires_grad=True),
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.arange(8)[::3],
        torch.ones(1, 3).expand(4, 3),
        torch.ones(2, dtype=torch.bfloat16, requires_grad=True),
    ],
    ids=["transposed", "grad", "conjugate", "negative", "strided", "expanded", "bfloat16 grad"],
)
@pytest.mark.parametrize("first", [True, False])
def test_tensors_of_any_memory_are_copied_and_lose_their_graph(tensor: Any, first: bool) -> None:
    plain = torch.zeros(tensor.shape, dtype=tensor.dtype)
    samples = [tensor, plain] if first else [plain, tensor]
    batch = default_collate(samples)
    assert torch.equal(batch, torch.stack(samples).detach().resolve_conj())
    assert not batch.requires_grad
    assert batch.is_contiguous()


def test_a_tensor_batch_shares_no_memory_with_its_samples() -> None:
    sample = torch.zeros(4)
    batch = default_collate([sample])
    batch += 1
    assert sample.tolist() == [0] * 4


@pytest.mark.parametrize(
    "samples",
    [
        [torch.zeros(2), torch.zeros(3)],
        [torch.zeros(2), torch.zeros(2, dtype=torch.float64)],
        [torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)],
        [torch.zeros(2), np.zeros(2, np.float32)],
        [np.zeros(2, np.float32), torch.zeros(2)],
        [torch.zeros(2), 1.0],
        [torch.zeros(2), torch.zeros(2).to_sparse()],
        [torch.zeros(2).to_sparse(), torch.zeros(3).to_sparse()],
        [torch.zeros(2).to_sparse(), torch.zeros(2, dtype=torch.float64).to_sparse()],
        [torch.zeros(2).to_sparse(), np.zeros(2)],
        [torch.zeros(2).to_sparse(), torch.zeros(2)],
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_their_index(samples: list[Any]) -> None:
    with pytest.raises(CollateError) as caught:
        default_collate.collate([{"t": sample} for sample in samples], [10, 20])
    assert caught.value.path == "t"
    assert 20 in caught.value.indices


def test_tensors_that_numpy_cannot_see_are_stacked_by_torch() -> None:
    samples = [torch.eye(3).to_sparse(), torch.zeros(3, 3).to_sparse()]
    batch = default_collate(samples)
    assert batch.is_sparse
    assert torch.equal(batch.to_dense(), torch.stack([torch.eye(3), torch.zeros(3, 3)]))
    assert default_collate([torch.empty(2, device="meta")] * 3).shape == (3, 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16])
def test_ragged_tensors_are_padded_and_packed(dtype: Any) -> None:
    samples = [torch.ones(2, dtype=dtype), torch.ones(0, dtype=dtype), torch.ones(3, dtype=dtype)]
    values, lengths = pad_collate(value=5)(samples)
    assert values.dtype == dtype
    assert values.tolist() == [[1, 1, 5], [5, 5, 5], [1, 1, 1]]
    assert lengths.tolist() == [2, 0, 3]
    assert torch.equal(pack_collate()(samples).values, torch.cat(samples))
    assert pack_collate()(samples).offsets.tolist() == [0, 2, 2, 5]
    mask = pad_collate(returns="mask", value=5)(samples).mask
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [2, 0, 3]


def test_a_pad_value_that_a_tensor_dtype_cannot_hold_is_refused() -> None:
    with pytest.raises(CollateError, match="bfloat16"):
        pad_collate(value="x")([torch.ones(2, dtype=torch.bfloat16)])


def test_a_none_beside_tensors_is_kept_where_that_is_allowed() -> None:
    sample = torch.ones(2, dtype=torch.bfloat16)
    first, none, last = DefaultCollate(none="list")([sample, None, sample])
    assert none is None
    assert first.dtype == last.dtype == torch.bfloat16
    first += 1
    assert sample.tolist() == [1, 1]


def test_collation_never_imports_torch(run_script: RunScript) -> None:
    result = run_script(
        """
        import sys
        import numpy as np
        from nogil_loader.collate import default_collate, pad_collate
        default_collate([{"a": np.zeros(3), "b": object(), "c": "s"}] * 2)
        assert "torch" not in sys.modules and "numba" not in sys.modules
        pad_collate()([np.zeros(3), np.zeros(2)])
        assert "torch" not in sys.modules
        """
    )
    assert result.returncode == 0, result.stderr
