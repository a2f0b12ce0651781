"""Objects whose public attributes tell how they were made, and stay so."""

from __future__ import annotations

from typing import Any, NoReturn

from nogil_loader.errors import describe


class Fixed:
    """Public attributes that exist when ``_settle`` is called cannot be changed: what was made of them would not.

    Neither can it be pickled or copied: it owns threads and locks.
    """

    _settled = False

    def _settle(self) -> None:
        self._settled = True

    def __setattr__(self, name: str, value: Any) -> None:
        exists = name in self.__dict__ or isinstance(getattr(type(self), name, None), property)
        if self._settled and exists and not name.startswith("_"):
            raise AttributeError(
                f"{name}={describe(value, 100)}: the arguments of a {type(self).__name__} are fixed when it is "
                f"made; make a new one"
            )
        super().__setattr__(name, value)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} has threads and cannot be pickled or copied; make a new one from the same "
            f"arguments, and carry its position over with state_dict() and load_state_dict()"
        )
