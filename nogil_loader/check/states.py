"""Whether two calls that overlapped left a dataset as they do one after the other: finds what got lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nogil_loader.check.twin import state_of


@dataclass(frozen=True)
class _Expected:
    """Counts in a dataset before any call, and after two calls in either order."""

    start: dict[str, float]
    orders: tuple[dict[str, float], dict[str, float]]


class States:
    """Knows what the states of a dataset are after calls that do not overlap.

    Args:
        after: Returns the state of a fresh dataset after calls for some items, one after the other (see
            `nogil_loader.check.twin.state_of`); None if that fails.
    """

    def __init__(self, after: Callable[..., dict[str, float] | None]) -> None:
        self._after = after
        self._known: dict[tuple[tuple[int, ...], int, int], _Expected | None] = {}

    def losses(
        self, before: tuple[int, ...], one: int, other: int, dataset: Any
    ) -> Iterator[tuple[str, float, float]]:
        """Yield the counts that have got less far than in either order: the way there, what it is and would be.

        Args:
            before: Items that were asked for first.
            one: An item that was asked for then.
            other: Another one, asked for at the same time.
            dataset: What was asked.
        """
        key = before, one, other
        if key not in self._known:
            self._known[key] = self._expect(before, one, other)
        expected = self._known[key]
        if expected is None:
            return
        for path, reached in state_of(dataset).items():
            if not all(path in order for order in expected.orders):
                continue
            begin = expected.start.get(path, 0.0)
            way = min((order[path] - begin for order in expected.orders), key=abs)
            if abs(reached - begin) < abs(way) and way * (reached - begin) >= 0:
                yield path, reached, begin + way

    def _expect(self, before: tuple[int, ...], one: int, other: int) -> _Expected | None:
        orders = ((), (one, other), (other, one), (one, other))
        states = [self._after(*before, *order) for order in orders]
        start, forth, back, again = (state or {} for state in states)
        if None in states:
            return None
        steady = {path for path in forth if forth[path] == again.get(path)}
        forth, back = ({path: each[path] for path in steady & each.keys()} for each in (forth, back))
        return _Expected(start, (forth, back))
