"""Client session with a response cache (ttlMs, cacheScope) and pagination of lists.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from carrel.client.session import Session
from carrel.errors import InvalidMessage
from carrel.protocol.client import Notification
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.revisions import REQUESTS
from carrel.wire.base import PageParams, Params
from carrel.wire.client_features import InputRequiredResult

if TYPE_CHECKING:
    from carrel.client.cache import Cache

__all__ = ["CachedSession"]

#: Operations whose results are cacheable.
CACHEABLE = frozenset(row.operation for row in (*REQUESTS.values(), *SKILLS.requests.values()) if row.cacheable)
#: How many pages one list may have.
MAX_PAGES = 10_000


class CachedSession(Session):
    """Client session with an optional response ``cache``."""

    def __init__(self, *arguments: Any, cache: Cache | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cache = cache

    async def pages(self, operation: str, params: PageParams) -> AsyncIterator[Any]:
        """Iterate over the pages of a list; there are none if the server lacks the capability.

        Raises:
            InvalidMessage: a cursor is repeated, or there are too many pages.
        """
        await self.connect()
        if not self.offers(operation):
            return
        seen: set[str] = set()
        while True:
            page = await self._cached(operation, params)
            yield page
            cursor = page.next_cursor
            if cursor is UNSET:
                return
            if cursor in seen or len(seen) >= MAX_PAGES:
                raise InvalidMessage("The server's list has no end: a cursor comes again, or there are too many pages")
            seen.add(cursor)
            params = msgspec.structs.replace(params, cursor=cursor)

    async def _cached(self, operation: str, params: Params, **options: Any) -> Any:
        """Return the cached result of a request if it is fresh; send the request and cache its result otherwise.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key
        """
        cache = self._cache
        if cache is None or operation not in CACHEABLE:
            return await self.request(operation, params, **options)
        from carrel.client.cache import key_of

        key = key_of(params) or ""
        kept = await cache.get(self._way.name, self._principal, operation, key)
        if kept is not None:
            return kept
        since = cache.moment
        answered: list[InputRequiredResult] = []
        result = await self.request(operation, params, answered=answered, **options)
        if not answered:
            await cache.put(self._way.name, self._principal, operation, key, result, since=since)
        return result

    @property
    def name(self) -> str:
        """The server's name in the cache: its URL or its command, for example."""
        return self._way.name

    @property
    def _principal(self) -> str:
        credentials = self._way.credentials
        return self._way.secrets if credentials is None else credentials.principal

    def changed(self, notice: Notification) -> None:
        """Invalidate the cached results that a change notification concerns."""
        if self._cache is not None:
            self._cache.invalidate(self.name, notice.event, getattr(notice.params, "uri", None))

    def interrupted(self) -> None:
        """Record that notifications may have been missed, and drop what they would have invalidated."""
        self._renewed()
        super().interrupted()

    def _renewed(self) -> None:
        if self._cache is not None and not self.stateless:
            self._cache.forget(self.name)
