"""Other loaders: each that is installed delivers every sample of every epoch, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nogil_loader as nl
from nogil_loader.bench import peers
from nogil_loader.bench.feeds import PeerFeed, Plan
from nogil_loader.bench.peers import PEERS, choose_peers, stack_samples
from nogil_loader.bench.subject import Subject
from tests.bench.datasets import Broken, Rows, join
from tests.loading import frozen

THREADED = ["torchdata", "spdl", "grain"]


def opened(name: str, subject: Subject, workers: int = 1, batch_size: int | None = None) -> PeerFeed:
    pytest.importorskip(PEERS[name].module)
    return PEERS[name].open(subject, Plan(subject, batch_size, 0), workers, 3)


# Not torch's processes: they would be forked beside the threads of other tests.
@pytest.mark.parametrize(
    ("name", "workers"),
    [("torch", 0), ("torchdata", 0), ("torchdata", 2), ("spdl", 2), ("grain", 0), ("grain", 2)],
)
def test_a_peer_delivers_every_sample_of_every_epoch_in_order(name: str, workers: int) -> None:
    feed = opened(name, Subject(Rows()), workers, 30)
    for epoch in range(1, 3):
        keys = [int(row[0]) for batch in feed.epoch() for row in batch]
        assert keys == list(range(100))
        assert feed.delivered() == 100 * epoch
    feed.close()


@pytest.mark.parametrize("name", PEERS)
def test_a_collation_of_ones_own_is_used_by_all(name: str) -> None:
    workers = 0 if name == "torch" else 1
    feed = opened(name, Subject(Rows(), {"collate_fn": join, "batch_size": 50}), workers)
    assert [batch.shape for batch in feed.epoch()] == [(100,), (100,)]
    assert "the loader's collate_fn" in feed.note
    feed.close()


@pytest.mark.parametrize("name", PEERS)
def test_single_samples_are_handed_through(name: str) -> None:
    workers = 0 if name == "torch" else 1
    feed = opened(name, Subject(Rows(5), {"batch_size": None}), workers)
    assert [float(sample[0]) for sample in feed.epoch()] == [0, 1, 2, 3, 4]
    assert feed.delivered() == 5
    feed.close()


@pytest.mark.parametrize("name", THREADED)
def test_a_peer_that_fails_does_not_go_on_without_the_sample(name: str) -> None:
    feed = opened(name, Subject(Broken(), {"batch_size": 10}))
    with pytest.raises(Exception):
        list(feed.epoch())
    assert feed.failed == 70
    feed.close()


def test_samples_are_stacked_as_the_default_collation_does() -> None:
    samples = [
        {"a": np.full((2, 3), at, np.float32), "b": (at, np.uint8(at)), "c": f"name {at}"} for at in range(4)
    ]
    ours: Any = nl.default_collate(samples)
    theirs = stack_samples(samples)
    assert frozen(theirs["a"]) == frozen(ours["a"])
    assert [frozen(part) for part in theirs["b"]] == [frozen(part) for part in ours["b"]]
    assert theirs["c"] == ours["c"]


@pytest.mark.torch
def test_tensors_are_stacked_by_torch() -> None:
    torch = pytest.importorskip("torch")
    assert torch.equal(stack_samples([torch.ones(2), torch.zeros(2)]), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))


def test_peers_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = peers.Peer("no_such_module_anywhere", "gone", 0, PEERS["torch"].open)
    there = peers.Peer("json", "there", 0, PEERS["torch"].open)
    monkeypatch.setattr(peers, "PEERS", {"gone": gone, "there": there})
    assert choose_peers(["there", "gone", "there"]) == (["there"], ["gone"])
    assert choose_peers(["all"]) == (["there"], ["gone"])
    assert choose_peers([]) == ([], [])
    with pytest.raises(ValueError, match="compare='ffcv': expected gone, there, or all"):
        choose_peers(["ffcv"])
