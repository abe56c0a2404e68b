"""A conversation in which lists and contents may come from a cache, as far as the server lets us keep them.

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

#: What a server may allow to be kept.
CACHEABLE = frozenset(row.operation for row in (*REQUESTS.values(), *SKILLS.requests.values()) if row.cacheable)
#: How many pages one list may have.
MAX_PAGES = 10_000


class CachedSession(Session):
    """A conversation with a ``cache``, or without one."""

    def __init__(self, *arguments: Any, cache: Cache | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cache = cache

    async def pages(self, operation: str, params: PageParams) -> AsyncIterator[Any]:
        """Iterate over the pages of a list. A server that does not offer such things has none of them.

        Raises:
            InvalidMessage: the list has no end.
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
        """Send a request, unless its result is kept and still fresh.

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
        """What the server is called here: its URL, or its command."""
        return self._way.name

    @property
    def _principal(self) -> str:
        credentials = self._way.credentials
        return self._way.secrets if credentials is None else credentials.principal

    def changed(self, notice: Notification) -> None:
        """Forget what a notification says has changed."""
        if self._cache is not None:
            self._cache.invalidate(self.name, notice.event, getattr(notice.params, "uri", None))

    def interrupted(self) -> None:
        """Take note that notifications may have been missed: nothing that was known can be relied on."""
        self._renewed()
        super().interrupted()

    def _renewed(self) -> None:
        if self._cache is not None and not self.stateless:
            self._cache.forget(self.name)
