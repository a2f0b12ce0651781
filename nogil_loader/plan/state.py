"""Where an epoch stands, as plain data that can be saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from nogil_loader.checks import as_count, as_flag
from nogil_loader.errors import ResumeError, describe
from nogil_loader.plan.digest import KeyDigest
from nogil_loader.plan.mixing import MASK64
from nogil_loader.plan.received import Received

KINDS = ("sequential", "random", "sampler", "batch_sampler", "iterable")


@dataclass(frozen=True)
class LoaderState:
    """The position of what a consumer has received; independent of workers, prefetch depth and batch size.

    A state taken inside an epoch, after its last batch too, goes on with the rest of that epoch (which may be
    nothing). A state taken after the epoch has ended goes on with the next epoch in full.

    Attributes:
        sampler: ``"sequential"``, ``"random"``, ``"sampler"``, ``"batch_sampler"`` or ``"iterable"``.
        length: Length of the dataset, None if it has none.
        seed: The loader's seed, 0 to 2**64 - 1.
        epoch: The epoch, from 0.
        received: Samples received in order, from the epoch's start.
        ahead: Intervals (start, stop) of positions received beyond those, for unordered delivery.
        finished: The consumer has seen the end of the epoch.
        digest: What the received keys were, for a user's sampler or batch sampler; else None.
        announced: The caller has chosen the epoch, so a user's sampler is told it, in the epochs after it too.
    """

    sampler: str
    length: int | None
    seed: int
    epoch: int = 0
    received: int = 0
    ahead: tuple[tuple[int, int], ...] = ()
    finished: bool = False
    digest: str | None = None
    announced: bool = False

    VERSION: ClassVar[int] = 1

    @classmethod
    def of(
        cls,
        *,
        sampler: str,
        length: int | None,
        seed: int,
        epoch: int,
        received: Received,
        finished: bool,
        announced: bool = False,
    ) -> LoaderState:
        """Take the state of an epoch."""
        return cls(
            sampler=sampler,
            length=length,
            seed=seed,
            epoch=epoch,
            received=received.prefix,
            ahead=received.ahead,
            finished=finished,
            digest=None if received.digest is None else received.digest.hex(),
            announced=announced,
        )

    def resume(self) -> tuple[int, Received]:
        """Return the epoch to go on with and what was received of it before."""
        keyed = self.digest is not None
        if self.finished:
            return self.epoch + 1, Received(digest=KeyDigest() if keyed else None)
        digest = KeyDigest(int(self.digest, 16)) if self.digest is not None else None
        return self.epoch, Received(self.received, self.ahead, digest)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as a dict of JSON types."""
        return {
            "version": self.VERSION,
            **asdict(self),
            "ahead": [list(interval) for interval in self.ahead],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LoaderState:
        """Read what ``to_dict`` wrote.

        Raises:
            ResumeError: A field is missing, unknown, of a wrong type or out of range, or the version is not
                one that this release reads.
        """
        if not isinstance(state, Mapping):
            raise ResumeError(f"state={describe(state, 200)}: expected the dict that state_dict() returned")
        fields = dict(state)
        version = fields.pop("version", None)
        if isinstance(version, bool) or version != cls.VERSION:
            raise ResumeError(
                f"state field 'version' is {describe(version, 200)}: this release reads version "
                f"{cls.VERSION}; load the state with the release that wrote it, or start without it",
                field="version",
            )
        for name in _READERS:
            if name not in fields:
                raise ResumeError(f"state field {name!r} is missing", field=name)
        for name in fields:
            if name not in _READERS:
                raise ResumeError(f"state field {describe(name, 200)} is unknown", field=str(name))
        values = {name: _read(name, fields[name]) for name in _READERS}
        loaded = cls(**values)
        loaded._check_consistency()
        return loaded

    def _check_consistency(self) -> None:
        bound = self.received
        for start, stop in self.ahead:
            if not bound < start < stop:
                raise ResumeError(
                    f"state field 'ahead' is {list(self.ahead)}: expected ascending intervals [start, stop] "
                    f"that neither touch each other nor the {self.received} samples received before them",
                    field="ahead",
                )
            bound = stop
        if self.sampler in ("sequential", "random"):
            if self.length is None:
                raise ResumeError(
                    f"state field 'length' is None, which does not go with sampler={self.sampler!r}",
                    field="length",
                )
            if bound > self.length:
                field = "ahead" if self.ahead else "received"
                raise ResumeError(
                    f"state field {field!r} reaches position {bound} of a dataset of length {self.length}",
                    field=field,
                )
        if (self.digest is not None) != (self.sampler in ("sampler", "batch_sampler")):
            raise ResumeError(
                f"state field 'digest' is {self.digest!r}, which does not go with sampler={self.sampler!r}",
                field="digest",
            )

    def check_fits(self, *, sampler: str, length: int | None, seed: int | None) -> None:
        """Refuse a loader whose stream would not be the one that this state is a position of.

        Args:
            sampler: The loader's kind of sampler.
            length: The length of its dataset, None if it has none.
            seed: Its seed if one was given; None if not, as such a loader adopts the state's seed.

        Raises:
            ResumeError: One of them differs.
        """
        if sampler != self.sampler:
            shuffles = {"random": True, "sequential": False}
            if sampler in shuffles and self.sampler in shuffles:
                raise _misfit("shuffle", shuffles[self.sampler], shuffles[sampler])
            raise _misfit("sampler", self.sampler, sampler)
        if length != self.length and None not in (length, self.length):
            raise _misfit("length", self.length, length)
        if seed is not None and seed != self.seed:
            raise _misfit("seed", self.seed, seed)


def _misfit(field: str, saved: Any, given: Any) -> ResumeError:
    return ResumeError(
        f"the state was taken with {_SUBJECT[field]} {saved!r}, this loader has {given!r}, so its samples "
        f"come in another order: {_ADVICE[field]}, or start without the state",
        field=field,
    )


_SUBJECT = {
    "shuffle": "shuffle =",
    "sampler": "a sampler of the kind",
    "length": "a dataset of length",
    "seed": "seed =",
}
_ADVICE = {
    "shuffle": "give the same shuffle=",
    "sampler": "give the same kind of sampler",
    "length": "give the dataset that the state was taken with",
    "seed": "give the same seed=, or none to take the state's",
}


def _read(name: str, value: Any) -> Any:
    try:
        return _READERS[name](name, value)
    except (TypeError, ValueError) as error:
        raise ResumeError(f"state field {error}", field=name) from None


def _read_kind(name: str, value: Any) -> str:
    if value not in KINDS:
        raise ValueError(f"{name}={describe(value, 200)}: expected one of {', '.join(KINDS)}")
    return str(value)


def _read_count(name: str, value: Any) -> int:
    return as_count(name, value, least=0)


def _read_length(name: str, value: Any) -> int | None:
    return None if value is None else as_count(name, value, least=0)


def _read_word(name: str, value: Any) -> int:
    return as_count(name, value, least=0, most=MASK64)


def _read_intervals(name: str, value: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in value
    ):
        raise TypeError(f"{name}={describe(value, 200)}: expected a list of [start, stop] pairs")
    return tuple((_read_count(name, start), _read_count(name, stop)) for start, stop in value)


def _read_digest(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 16 or set(value) - set("0123456789abcdef"):
        raise TypeError(f"{name}={describe(value, 200)}: expected 16 hexadecimal digits or None")
    return value


_READERS = {
    "sampler": _read_kind,
    "length": _read_length,
    "seed": _read_word,
    "epoch": _read_word,
    "received": _read_count,
    "ahead": _read_intervals,
    "finished": as_flag,
    "digest": _read_digest,
    "announced": as_flag,
}
