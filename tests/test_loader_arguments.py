"""Arguments are checked when the loader is made; messages name the argument, show the value, say what is right."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
import nogil_loader.torch as nl_torch
from nogil_loader.plan import SequentialSampler
from tests.loading import Numbers, Stream, samples_of
from tests.naming import told


class NeitherNor:
    def __repr__(self) -> str:
        return "NeitherNor()"


class Unsized:
    def __getitem__(self, index: int) -> int:
        return index


# name, value, type of error, what the message says of it, apart from the name
REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("batch_size", 0, ValueError, "0"),
    ("batch_size", -1, ValueError, "-1"),
    ("batch_size", True, TypeError, "True"),
    ("batch_size", 2.0, TypeError, "2.0"),
    ("batch_size", "4", TypeError, "'4'"),
    ("batch_size", np.float32(2), TypeError, "2.0"),
    ("batch_size", np.True_, TypeError, "True"),
    ("num_workers", -1, ValueError, "-1"),
    ("num_workers", True, TypeError, "True"),
    ("num_workers", 1.5, TypeError, "1.5"),
    ("num_workers", None, TypeError, "None"),
    ("num_workers", "four", ValueError, "'four'"),
    ("prefetch_factor", 0, ValueError, "0"),
    ("prefetch_factor", -2, ValueError, "-2"),
    ("prefetch_factor", True, TypeError, "True"),
    ("prefetch_factor", 2.0, TypeError, "2.0"),
    ("seed", -1, ValueError, "-1"),
    ("seed", 2**64, ValueError, "18446744073709551616"),
    ("seed", True, TypeError, "True"),
    ("seed", 0.5, TypeError, "0.5"),
    ("seed", "0", TypeError, "'0'"),
    ("generator", 5, TypeError, "5"),
    ("generator", np.random.RandomState(0), TypeError, "RandomState"),
    ("timeout", -1, ValueError, "-1"),
    ("timeout", float("nan"), ValueError, "nan"),
    ("timeout", float("inf"), ValueError, "inf"),
    ("timeout", "1", TypeError, "'1'"),
    ("timeout", True, TypeError, "True"),
    ("timeout", None, TypeError, "None"),
    ("shuffle", 1, TypeError, "1"),
    ("shuffle", "yes", TypeError, "'yes'"),
    ("drop_last", 1, TypeError, "1"),
    ("drop_last", None, TypeError, "None"),
    ("pin_memory", "cpu", TypeError, "'cpu'"),
    ("persistent_workers", 0, TypeError, "0"),
    ("in_order", None, TypeError, "None"),
    ("sampler", 5, TypeError, "5"),
    ("batch_sampler", 5, TypeError, "5"),
    ("collate_fn", "pad", TypeError, "'pad'"),
    ("worker_init_fn", 3, TypeError, "3"),
    ("output", "tensorflow", ValueError, "'tensorflow'"),
    ("output", None, ValueError, "None"),
    ("isolation", "fiber", ValueError, "'fiber'"),
    ("on_failure", "retry", ValueError, "'retry'"),
    ("on_failure", 3, TypeError, "3"),
    ("on_failure", None, TypeError, "None"),
    ("clone_dataset", "yes", TypeError, "'yes'"),
    ("clone_dataset", None, TypeError, "None"),
]


def _label(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else getattr(value, "__name__", f"{type(value).__name__} {told(value)}")
    )


@pytest.mark.parametrize(("name", "value", "kind", "shown"), REFUSED, ids=_label)
def test_f01_a_wrong_value_is_refused_by_name_in_the_constructor(
    name: str, value: Any, kind: type[Exception], shown: str
) -> None:
    with pytest.raises(kind) as caught:
        nl.DataLoader(Numbers(4), **{name: value})
    assert type(caught.value) is kind
    message = str(caught.value)
    assert message.startswith(f"{name}=")
    assert shown in message
    assert "expected" in message


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "4"])
def test_f01_an_iterable_dataset_is_no_excuse_for_a_wrong_batch_size(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^batch_size=") as caught:
        nl.DataLoader(Stream(4), value)
    with pytest.raises(type(caught.value)) as same:
        nl.DataLoader(Numbers(4), value)
    assert str(same.value) == str(caught.value)


CONFLICTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"shuffle": True, "sampler": [0]}, ("shuffle", "sampler")),
    ({"batch_size": 2, "batch_sampler": [[0]]}, ("batch_size", "batch_sampler")),
    ({"batch_size": None, "batch_sampler": [[0]]}, ("batch_size", "batch_sampler")),
    ({"shuffle": True, "batch_sampler": [[0]]}, ("shuffle", "batch_sampler")),
    ({"sampler": [0], "batch_sampler": [[0]]}, ("sampler", "batch_sampler")),
    ({"drop_last": True, "batch_sampler": [[0]]}, ("drop_last", "batch_sampler")),
    ({"drop_last": True, "batch_size": None}, ("drop_last", "batch_size")),
    ({"seed": 0, "generator": np.random.default_rng(0)}, ("seed", "generator")),
]


@pytest.mark.parametrize(("arguments", "names"), CONFLICTS, ids=lambda value: "-".join(value))
def test_f01_a_conflict_names_both_arguments(arguments: dict[str, Any], names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        nl.DataLoader(Numbers(4), **arguments)
    for name in names:
        assert f"{name}=" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"batch_size": None, "drop_last": True}],
    ids=lambda value: "-".join(value),
)
def test_f01_what_an_iterable_dataset_cannot_do_is_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        nl.DataLoader(Stream(4), **arguments)
    for name in arguments:
        assert f"{name}=" in str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "says"),
    [(5, "5"), (None, "None"), (NeitherNor(), "NeitherNor()"), (Numbers, "class itself")],
)
def test_f01_what_is_no_dataset_is_refused_by_name(dataset: Any, says: str) -> None:
    with pytest.raises(TypeError, match=r"^dataset=") as caught:
        nl.DataLoader(dataset)
    assert says in str(caught.value)


def test_f01_a_dataset_without_a_length_needs_a_sampler() -> None:
    with pytest.raises(TypeError, match=r"dataset.*__len__.*sampler="):
        nl.DataLoader(Unsized())
    assert samples_of(nl.DataLoader(Unsized(), 2, sampler=range(5))) == [0, 1, 2, 3, 4]
    assert samples_of(nl.DataLoader(Unsized(), batch_sampler=[[3], [1, 2]])) == [3, 1, 2]


ACCEPTED: list[dict[str, Any]] = [
    {"batch_size": np.int64(2)},
    {"batch_size": np.uint8(2)},
    {"batch_size": np.array(2)},
    {"batch_size": 10**30},
    {"batch_size": None},
    {"num_workers": np.int32(2)},
    {"num_workers": "auto"},
    {"num_workers": 0, "prefetch_factor": None},
    {"num_workers": 0, "timeout": 1},
    {"num_workers": 2, "timeout": np.float32(30)},
    {"num_workers": 0, "persistent_workers": False},
    {"prefetch_factor": None},
    {"prefetch_factor": np.int64(1)},
    {"prefetch_factor": 10**6},
    {"seed": np.uint32(7)},
    {"seed": 2**64 - 1},
    {"shuffle": None},
    {"shuffle": np.False_},
    {"drop_last": np.False_},
    {"shuffle": False, "sampler": range(4)},
    {"shuffle": False, "batch_sampler": [[0, 1], [2, 3]], "drop_last": False, "batch_size": 1},
    {"on_failure": nl.FailurePolicy(rebuild=1)},
    {"worker_init_fn": None, "collate_fn": None, "generator": None},
    {"multiprocessing_context": None, "pin_memory_device": ""},
]


@pytest.mark.parametrize("arguments", ACCEPTED, ids=lambda value: "-".join(map(str, value.items())))
def test_f01_good_values_are_accepted_and_work(arguments: dict[str, Any]) -> None:
    single = arguments.get("batch_size", 1) is None
    with nl.DataLoader(Numbers(4), **arguments) as loader:
        delivered = list(loader) if single else samples_of(loader)
    assert delivered == [0, 1, 2, 3]


def test_resolved_values_are_plain_and_visible() -> None:
    arguments: dict[str, Any] = {"batch_size": np.int64(3), "num_workers": np.int8(2), "seed": np.uint64(5)}
    loader = nl.DataLoader(Numbers(4), prefetch_factor=None, **arguments)
    seen = loader.batch_size, loader.num_workers, loader.prefetch_factor, loader.seed
    assert seen == (3, 2, 2, 5)
    assert set(map(type, seen)) == {int}
    assert (loader.drop_last, loader.timeout, loader.in_order) == (False, 0.0, True)


def test_b31_a_timeout_without_workers_and_without_samples_is_no_error() -> None:
    assert list(nl.DataLoader([], num_workers=0, timeout=1)) == []


def test_c24_auto_workers_are_as_many_as_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = nl.DataLoader(Numbers(4)).num_workers
    assert 1 <= workers <= (os.cpu_count() or 1)
    assert nl.DataLoader(Numbers(4), num_workers="auto").num_workers == workers
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            assert nl.DataLoader(Numbers(4)).num_workers == 1
        finally:
            os.sched_setaffinity(0, allowed)


# Compatibility


def test_positional_arguments_come_in_torchs_order() -> None:
    names = list(inspect.signature(nl.DataLoader).parameters)
    assert names[:13] == [
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
    ]


@pytest.mark.torch
def test_every_argument_of_torchs_loader_exists_with_its_kind() -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    ours = inspect.signature(nl.DataLoader).parameters
    theirs = inspect.signature(torch_data.DataLoader).parameters
    for name, parameter in theirs.items():
        assert ours[name].kind is parameter.kind, name
    positional = [name for name, one in theirs.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert list(ours)[: len(positional)] == positional


def test_the_repr_shows_what_a_report_needs_and_never_the_data() -> None:
    class Chatty(Numbers):
        def __repr__(self) -> str:
            raise AssertionError("a dataset's repr may be gigabytes")

    text = repr(nl.DataLoader(Chatty(4), 3, num_workers=2, seed=5))
    for part in ("Chatty", "batch_size=3", "num_workers=2", "seed=5"):
        assert part in text


def test_making_a_loader_starts_nothing_and_reads_nothing() -> None:
    class Untouchable(Numbers):
        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("read in the constructor")

    class Unread:
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("iterated in the constructor")

    before = set(threading.enumerate())
    nl.DataLoader(Untouchable(4), num_workers=4)
    nl.DataLoader(Unread(), num_workers=4)
    nl.DataLoader(Numbers(4), sampler=Unread(), num_workers=4)
    nl.DataLoader(Numbers(4), batch_sampler=Unread(), num_workers=4)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("epoch", [-1, 1.5, True, "2", None])
def test_set_epoch_refuses_by_name_what_is_no_epoch(epoch: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^epoch="):
        nl.DataLoader(Numbers(4)).set_epoch(epoch)


@pytest.mark.parametrize(
    ("name", "value"), [("multiprocessing_context", "spawn"), ("pin_memory_device", "cuda:0")]
)
@pytest.mark.parametrize("kind", [nl.DataLoader, pytest.param(nl_torch.DataLoader, marks=pytest.mark.torch)])
def test_what_has_no_meaning_with_threads_is_accepted_with_one_warning_at_the_callers_line(
    kind: type[nl.DataLoader], name: str, value: Any
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        loader = kind(Numbers(12), 2, num_workers=3, **{name: value})
        for _ in range(2):
            assert samples_of(loader) == list(range(12))
        loader.close()
    (warning,) = caught
    assert f"{name}={value!r}" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, line)


@pytest.mark.torch
def test_pin_memory_without_an_accelerator_warns_once_and_goes_on() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        loader = nl.DataLoader(Numbers(12), 2, num_workers=3, pin_memory=True)
        assert samples_of(loader) == list(range(12))
        loader.close()
    (warning,) = caught
    assert "pin_memory=True" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, line)


@pytest.mark.parametrize("name", ["batch_size", "num_workers", "collate_fn", "dataset", "sampler", "seed"])
def test_an_argument_cannot_be_changed_behind_the_loaders_back(name: str) -> None:
    loader = nl.DataLoader(Numbers(4), batch_size=2)
    with pytest.raises(AttributeError, match=f"^{name}=.*make a new one"):
        setattr(loader, name, 3)
    loader.tag = "mine"  # what is not an argument is the user's own


@pytest.mark.parametrize("copy_it", [pickle.dumps, copy.copy, copy.deepcopy])
def test_f04_a_loader_says_that_it_cannot_be_copied_and_what_to_do(copy_it: Any) -> None:
    with pytest.raises(TypeError, match=r"a DataLoader has threads .* state_dict\(\)"):
        copy_it(nl.DataLoader(Numbers(4)))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"collate_fn": nl.pad_collate}, r"collate_fn=PadCollate: call it first"),
        ({"sampler": SequentialSampler}, r"sampler=SequentialSampler: this is the class itself"),
        ({"batch_sampler": SequentialSampler}, r"batch_sampler=SequentialSampler: this is the class itself"),
        ({"dataset": "train.csv"}, r"dataset='train.csv': expected a dataset, not str"),
    ],
    ids=told,
)
def test_f01_what_was_meant_to_be_made_first_is_refused(arguments: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        nl.DataLoader(**{"dataset": Numbers(4), **arguments})
