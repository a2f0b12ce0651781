"""What a sample is, in a form that can be kept, compared and counted: its structure and a digest of its values.

Samples of any kind are taken apart, as collation would, into leaves. A leaf knows its place, its type, dtype and
shape, and a digest of its content. Two samples with equal fingerprints hold the same values; what cannot be looked
into (an open file, a lock) counts as its type alone.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from nogil_loader.collate.kinds import PYTHON_NUMBERS
from nogil_loader.collate.roster import child_path

Kind = Literal[
    "array", "tensor", "number", "text", "none", "row", "image", "mapping", "sequence", "record", "object"
]

# A sample has a handful of leaves. Beyond these, the rest of a container is one leaf, so that a list of a million
# strings does not become a million objects.
_MOST_LEAVES = 400
_MOST_DEPTH = 12
# 128 bits: two different samples do not meet by chance.
_DIGEST_BYTES = 16
_TENSOR_PREFIX = "torch."


@dataclass(frozen=True, slots=True)
class Leaf:
    """One place in a sample.

    Attributes:
        path: Where it is, as collation writes it: ``"image"``, ``"boxes[0]"``; empty at the root.
        kind: What it is to collation; ``"row"`` is a list of numbers, ``"image"`` one of Pillow's.
        type: Name of its type.
        dtype: Of an array or tensor; the type of the numbers of a row; the mode of an image; else empty.
        shape: Of an array, tensor, row or image; the length of a container; None for anything else.
        digest: Of its content. A container's is one of its keys.
    """

    path: str
    kind: Kind
    type: str
    dtype: str
    shape: tuple[int, ...] | None
    digest: bytes

    @property
    def spec(self) -> str:
        """What it is without its values: ``float32 (3, 224, 224)``, ``int``, ``None``."""
        if self.kind in ("array", "tensor"):
            prefix = "" if self.kind == "array" else "tensor of "
            return f"{prefix}{self.dtype} {self.shape}"
        if self.kind == "row":
            return f"list of {self.shape[0] if self.shape else 0} {self.dtype or 'values'}"
        if self.kind == "image":
            return f"image {self.dtype} {self.shape}"
        if self.kind in ("mapping", "sequence"):
            return f"{self.type} of {self.shape[0] if self.shape else 0}"
        return "None" if self.kind == "none" else self.type

    @property
    def structure(self) -> tuple[Any, ...]:
        """What two leaves have in common that differ in their values only."""
        return self.path, self.kind, self.type, self.dtype, self.shape


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A sample's leaves, containers before what is in them."""

    leaves: tuple[Leaf, ...]

    @property
    def structure(self) -> tuple[Any, ...]:
        """The sample without its values."""
        return tuple(leaf.structure for leaf in self.leaves)


def fingerprint(sample: Any, *, largest: int | None = None) -> Fingerprint:
    """Return the fingerprint of a sample.

    Nothing raises, whatever the sample's objects do when they are looked at, and no framework is imported.

    Args:
        sample: Anything.
        largest: Bytes of an array from which on its identity stands for its content; None for never.
    """
    walk = _Walk(largest)
    walk.visit(sample, "", 0)
    return Fingerprint(tuple(walk.leaves))


def digest_of(*parts: bytes | memoryview) -> bytes:
    """Return a digest of some bytes."""
    sink = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        sink.update(part)
    return sink.digest()


class _Walk:
    """Takes one sample apart."""

    def __init__(self, largest: int | None) -> None:
        self.leaves: list[Leaf] = []
        self._largest = largest
        self._open: set[int] = set()

    def visit(self, value: Any, path: str, depth: int) -> None:
        try:
            self._visit(value, path, depth)
        except Exception:  # noqa: BLE001 - someone else's object, which may raise anything
            self._opaque(value, path)

    def _visit(self, value: Any, path: str, depth: int) -> None:
        kind = type(value)
        if value is None:
            self._add(path, "none", "None", digest=b"")
        elif isinstance(value, str | bytes | bytearray | memoryview):
            self._text(value, path)
        elif isinstance(value, np.ndarray):
            self._array(value, path, depth)
        elif isinstance(value, np.generic):
            self._add(path, "number", str(value.dtype), digest=digest_of(value.tobytes()))
        elif isinstance(value, tuple(PYTHON_NUMBERS)):
            self._add(path, "number", kind.__name__, digest=digest_of(_number_bytes(value)))
        elif _is_tensor(value):
            self._tensor(value, path)
        elif depth >= _MOST_DEPTH or id(value) in self._open or len(self.leaves) >= _MOST_LEAVES:
            self._opaque(value, path)
        else:
            self._open.add(id(value))
            try:
                self._container(value, path, depth)
            finally:
                self._open.discard(id(value))

    def _container(self, value: Any, path: str, depth: int) -> None:
        name = type(value).__name__
        if isinstance(value, Mapping):
            items = sorted(value.items(), key=lambda item: repr(item[0]))
            keys = repr([key for key, _ in items])
            self._add(path, "mapping", name, shape=(len(items),), digest=digest_of(_encode(keys)))
            self._children(((child_path(path, key), item) for key, item in items), depth)
        elif isinstance(value, list) and _is_row(value):
            inner = type(value[0]).__name__ if value else ""
            digest = digest_of(*map(_number_bytes, value))
            self._add(path, "row", name, dtype=inner, shape=(len(value),), digest=digest)
        elif isinstance(value, list | tuple):
            self._add(path, "sequence", name, shape=(len(value),), digest=b"")
            self._children(((child_path(path, at), item) for at, item in enumerate(value)), depth)
        elif isinstance(value, Set):
            digests = sorted(_digest_within(item) for item in value)
            self._add(path, "object", name, shape=(len(digests),), digest=digest_of(*digests))
        elif _is_image(value):
            pixels = digest_of(value.tobytes())
            shape = tuple(reversed(value.size))
            self._add(path, "image", name, dtype=str(value.mode), shape=shape, digest=pixels)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._add(path, "record", name, digest=b"")
            fields = dataclasses.fields(value)
            self._children(
                ((child_path(path, each.name), getattr(value, each.name, None)) for each in fields), depth
            )
        else:
            self._object(value, path, depth)

    def _object(self, value: Any, path: str, depth: int) -> None:
        name = type(value).__name__
        if callable(getattr(value, "__array__", None)):
            array = np.asarray(value)  # a table or an array of another library
            self._add(path, "object", name, str(array.dtype), array.shape, digest=self._content(array, depth))
            return
        if isinstance(value, type) or callable(value):
            named = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', name)}"
            self._add(path, "object", name, digest=digest_of(_encode(named)))
            return
        state: Any = getattr(value, "__dict__", None)
        if isinstance(value, BaseException):
            state = [value.args, state]
        elif not isinstance(state, dict):
            state = list(value.__reduce_ex__(4)[1:3])  # a value of C, such as a date; or it refuses
        self._add(path, "object", name, digest=_digest_within(state, depth + 1))

    def _children(self, children: Iterable[tuple[str, Any]], depth: int) -> None:
        rest: list[bytes] = []
        where = ""
        for path, child in children:
            if len(self.leaves) < _MOST_LEAVES:
                self.visit(child, path, depth + 1)
            else:
                where = where or path
                rest.append(_digest_within(child, depth + 1))
        if rest:
            self._add(f"{where} …", "object", "rest", shape=(len(rest),), digest=digest_of(*rest))

    def _text(self, value: Any, path: str) -> None:
        raw = _encode(value) if isinstance(value, str) else bytes(value)
        self._add(path, "text", type(value).__name__, digest=digest_of(raw))

    def _array(self, value: Any, path: str, depth: int) -> None:
        digest = self._content(value, depth)
        if isinstance(value, np.ma.MaskedArray):
            digest = digest_of(digest, np.ascontiguousarray(np.ma.getmaskarray(value)).tobytes())
        self._add(path, "array", type(value).__name__, str(value.dtype), value.shape, digest)

    def _content(self, array: Any, depth: int) -> bytes:
        plain = np.asarray(array)
        if plain.dtype.hasobject:
            return _digest_within(plain.ravel().tolist(), depth + 1)
        if self._largest is not None and plain.nbytes > self._largest:
            return digest_of(str(id(array)).encode())
        return digest_of(_bytes_of(plain))

    def _tensor(self, value: Any, path: str) -> None:
        dtype = str(value.dtype).removeprefix(_TENSOR_PREFIX)
        torch = sys.modules["torch"]
        flat = value.detach().as_subclass(torch.Tensor).cpu().reshape(-1).contiguous()
        digest = digest_of(_bytes_of(flat.view(torch.uint8).numpy()))
        self._add(path, "tensor", type(value).__name__, dtype, tuple(value.shape), digest)

    def _opaque(self, value: Any, path: str) -> None:
        self._add(path, "object", type(value).__name__, digest=b"")

    def _add(
        self,
        path: str,
        kind: Kind,
        name: str,
        dtype: str = "",
        shape: tuple[int, ...] | None = None,
        digest: bytes = b"",
    ) -> None:
        self.leaves.append(Leaf(path, kind, name, dtype, shape, digest))


def _digest_within(value: Any, depth: int = 1) -> bytes:
    """Return one digest for something that does not get leaves of its own."""
    walk = _Walk(None)
    walk.visit(value, "", depth)
    return digest_of(*(repr(leaf).encode("utf-8", "backslashreplace") for leaf in walk.leaves))


def _bytes_of(array: Any) -> memoryview:
    # As bytes, because some dtypes (datetimes) export no buffer. hashlib lets go of the GIL meanwhile.
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.nbytes else memoryview(b"")


def _number_bytes(value: Any) -> bytes:
    # Digits of a huge int take quadratic time, which Python refuses; hexadecimal ones do not.
    return hex(value).encode() if isinstance(value, int) else repr(value).encode()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_row(value: list[Any]) -> bool:
    return not value or (type(value[0]) in PYTHON_NUMBERS and len(set(map(type, value))) == 1)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # a sample can hold a tensor only when someone has imported torch
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _is_image(value: Any) -> bool:
    is_pillows = type(value).__module__.startswith("PIL.")
    return is_pillows and all(hasattr(value, name) for name in ("mode", "size", "tobytes"))
