"""Listing: a list of a server, whose pages are fetched on demand, and which is a sequence too."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from carrel.sync.loop import iterate

__all__ = ["PagedList"]

T = TypeVar("T")


class PagedList(Sequence[T], Generic[T]):
    """List of a server. Iterating over it fetches pages on demand; its length, an index or ``==`` fetch all of them.

    Fetched pages are kept, so that every iteration returns the same items.
    """

    def __init__(self, items: Callable[[], AsyncIterator[T]]) -> None:
        self._items = items
        self._lock = threading.Lock()  # several threads may iterate
        self._found: list[T] = []
        self._rest: Iterator[T] | None = iterate(items)

    def __iter__(self) -> Iterator[T]:
        number = 0
        while self._has(number):
            yield self._found[number]
            number += 1

    def _has(self, number: int) -> bool:
        """Fetch items up to this one; return whether it is there. After an error, the next attempt begins again."""
        with self._lock:
            while number >= len(self._found):
                if self._rest is None:
                    return False
                try:
                    self._found.append(next(self._rest))
                except StopIteration:
                    self._rest = None
                except BaseException:
                    self._found, self._rest = [], iterate(self._items)
                    raise
            return True

    def _all(self) -> list[T]:
        while self._has(len(self._found)):
            pass
        return self._found

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PagedList):
            return self._all() == other._all()
        return self._all() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())
