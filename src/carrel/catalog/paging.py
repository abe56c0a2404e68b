"""Results of providers: awaitable results, and lists with many pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias, TypeVar

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.provider import Page, Request
from carrel.errors import InvalidCursor, ResourceTooLarge

__all__ = ["ListMethod", "all_of"]

T = TypeVar("T")
ListMethod: TypeAlias = Callable[[Request], MaybeAwaitable[Page[T]]]

#: Page size for reading a provider's whole list.
LEARNED = 1000


async def all_of(
    method: ListMethod[T], request: Request | None = None, *, limit: int | None = None
) -> AsyncIterator[T]:
    """Yield all entries of a list of a provider, page by page. ``limit`` is how many entries and pages it may have.

    Raises:
        InvalidCursor: a cursor leads back to where the list has been.
        ResourceTooLarge: there are more than ``limit``.
    """
    count = 0
    request = request or Request()
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await resolved(method(request.page(cursor, LEARNED)))
        count += len(page.items)
        if limit is not None and (count > limit or len(seen) > limit):
            raise ResourceTooLarge("", f"The list has more than {limit} entries or pages")
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen:
            raise InvalidCursor("The cursor of a list leads back to where it has been")
        seen.add(cursor)
