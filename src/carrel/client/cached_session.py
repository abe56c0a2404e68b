"""Client session with a response cache (ttlMs, cacheScope) and pagination of lists.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import UNSET

from carrel.client.session import Session
from carrel.errors import InvalidMessage
from carrel.protocol.client import Notification
from carrel.protocol.methods import Request
from carrel.wire.base import CacheableResult, Params, Result
from carrel.wire.client_features import InputRequiredResult

if TYPE_CHECKING:
    from carrel.client.cache import Cache

__all__ = ["CachedSession"]

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

#: How many pages one list may have.
MAX_PAGES = 10_000


class CachedSession(Session):
    """Client session with an optional response ``cache``."""

    def __init__(self, *arguments: Any, cache: Cache | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cache = cache

    async def pages(self, request: Request[P, R], params: P) -> AsyncIterator[R]:
        """Iterate over the pages of a list; there are none if the server lacks the capability.

        Raises:
            InvalidMessage: a cursor is repeated, or there are too many pages.
        """
        await self.connect()
        if not self.offers(request):
            return
        seen: set[str] = set()
        while True:
            page = await self._cached(request, params)
            yield page
            cursor = getattr(page, "next_cursor", UNSET)
            if cursor is UNSET:
                return
            if cursor in seen or len(seen) >= MAX_PAGES:
                raise InvalidMessage("The server's list has no end: a cursor comes again, or there are too many pages")
            seen.add(cursor)
            params = msgspec.structs.replace(params, cursor=cursor)

    async def _cached(self, request: Request[P, R], params: P, **options: Any) -> R:
        """Return the cached result of a request if it is fresh; send the request and cache its result otherwise.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key
        """
        cache = self._cache
        if cache is None or not request.cacheable:
            return await self.request(request, params, **options)
        from carrel.client.cache import key_of

        key = key_of(params) or ""
        kept = await cache.get(self._way.name, self._principal, request.operation, key)
        if kept is not None:
            return cast("R", kept)
        since = cache.moment
        answered: list[InputRequiredResult] = []
        result = await self.request(request, params, answered=answered, **options)
        if not answered and isinstance(result, CacheableResult):
            await cache.put(self._way.name, self._principal, request.operation, key, result, since=since)
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
