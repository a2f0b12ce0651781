"""Names of parametrised tests."""

from __future__ import annotations


def told(value: object) -> str:
    """Name a parameter by its repr, or by its type where the repr has an address.

    Workers that share a test run have to collect the same names.
    """
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text
