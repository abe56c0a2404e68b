"""Results of a server, from the response cache if they are fresh (ttlMs, cacheScope), and pagination of lists.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from carrel.client.handlers import ClientCall
from carrel.client.session import ClientSession
from carrel.errors import METHOD_NOT_FOUND, InvalidMessage, PeerError, RequestTimeout, ResourceError
from carrel.log import Log
from carrel.protocol.client import ServerNotification
from carrel.protocol.encoding import KEY
from carrel.protocol.methods import LIST_RESOURCE_TEMPLATES, RequestType
from carrel.protocol.passed_results import PassedResult, attached
from carrel.wire.base import CacheableResult, Params, Result
from carrel.wire.resources import ReadResourceParams, ReadResourceResult

if TYPE_CHECKING:
    from carrel.client.cache import Cache

__all__ = ["PagedList", "Results"]

log = Log("carrel.client")

R = TypeVar("R", bound=Result)
T = TypeVar("T")
P = TypeVar("P", bound=Params)

#: Scheme of resources that may be fetched from the web.
WEB = "https://"
#: Maximum number of pages, entries and bytes of one list.
MAX_PAGES = 10_000
MAX_ENTRIES = 1_000_000
MAX_LIST_BYTES = 512 * 1024 * 1024


class PagedList(Generic[T]):
    """List of a server. Nothing is requested before it is awaited or iterated over.

    resources = await client.list_resources()               # all of them
    async for resource in client.list_resources(): ...      # pages are fetched on demand
    """

    __slots__ = ("_pages",)

    def __init__(self, pages: Callable[[], AsyncIterator[Sequence[T]]]) -> None:
        self._pages = pages

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._all().__await__()

    async def _all(self) -> list[T]:
        found: list[T] = []
        async for page in self._pages():
            found += page
        return found

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self._pages():
            for item in page:
                yield item


class Results:
    """Results of one session's server, with an optional response ``cache``. Observes the session."""

    def __init__(self, session: ClientSession, cache: Cache | None, *, fetch_web: bool = False) -> None:
        self.cache = cache
        self.direct = cache is None and not fetch_web
        """Whether all results come from the server."""
        self._fetch_web = fetch_web
        self._session = session
        session.observers.append(self)

    async def pages(self, request: RequestType[P, R], params: P) -> AsyncIterator[R]:
        """Iterate over the pages of a list; no pages if the server lacks the capability.

        Raises:
            InvalidMessage: a cursor is repeated, or there are too many pages, entries or bytes.
        """
        await self._session.connect()
        if not self._session.server.offers(request):
            return
        seen: set[str] = set()
        entries = size = 0
        while True:
            call = ClientCall(request, params)
            try:
                page = await self.fetch(call)
            except PeerError as error:
                if request is LIST_RESOURCE_TEMPLATES and error.code == METHOD_NOT_FOUND:
                    return  # servers of the official SDKs may declare resources without a handler for templates
                raise
            entries += entries_of(page)
            size += call.size
            if entries > MAX_ENTRIES:
                raise InvalidMessage(f"The server's list has more than {MAX_ENTRIES} entries (MAX_ENTRIES)")
            if size > MAX_LIST_BYTES:
                raise InvalidMessage(f"The server's list has more than {MAX_LIST_BYTES} bytes (MAX_LIST_BYTES)")
            yield page
            cursor = getattr(page, "next_cursor", None)
            if cursor is None:
                return
            if cursor in seen or len(seen) >= MAX_PAGES:
                why = f"a cursor comes again, or there are more than {MAX_PAGES} pages (MAX_PAGES)"
                raise InvalidMessage(f"The server's list has no end: {why}")
            seen.add(cursor)
            params = msgspec.structs.replace(params, cursor=cursor)

    def request(self, call: ClientCall[R]) -> Coroutine[Any, Any, R]:
        """Return the result of a call: from the web (``fetch_web``), from the cache, or from the server."""
        if self._fetch_web and isinstance(call.params, ReadResourceParams) and call.params.uri[:8].lower() == WEB:
            return self._read_web(call, call.params.uri)
        return self._session.request(call) if self.cache is None else self.fetch(call)

    async def _read_web(self, call: ClientCall[Any], uri: str) -> Any:
        from carrel.client.web_resources import fetch

        try:
            return ReadResourceResult(contents=await fetch(uri))
        except (ResourceError, RequestTimeout) as error:
            log.info("asked of the server: %s", error)
        return await self.fetch(call)

    async def fetch(self, call: ClientCall[R]) -> R:
        """Return the cached result of a call if it is fresh; send the request and cache its result otherwise.

        With ``call.whole``, the result has the members that its type does not know; see ``carrel.protocol.unknown``.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key
        """
        cache = self.cache
        if cache is None or not call.request.cacheable or call.progress is not None or call.meta is not None:
            return await self._session.request(call)
        from carrel.client.cache import key_of

        server, key = self._session.server_name, key_of(call.params) or ""
        kept = cache.get(server, self._principal, call.request.operation, key)
        if kept is not None:
            return kept if call.whole else without_unknown(kept)  # type: ignore[return-value]
        since = cache.moment
        result: Any = await self._session.request(call)
        if type(result) is PassedResult:
            result = attached(result)
        if not call.rounds and isinstance(result, CacheableResult):
            cache.put(server, self._principal, call.request.operation, key, result, since=since)
        return result  # type: ignore[no-any-return]

    @property
    def _principal(self) -> str:
        endpoint = self._session.endpoint
        return endpoint.secrets if endpoint.credentials is None else endpoint.credentials.principal

    # Observer of the session

    def notified(self, notification: ServerNotification) -> None:
        """Invalidate the cached results that a change notification concerns."""
        if self.cache is not None:
            uri = getattr(notification.params, "uri", None)
            self.cache.invalidate(self._session.server_name, notification.event, uri)

    def connected(self) -> None:
        """Drop the cached results, unless the server is stateless and so the same as before."""
        if self.cache is not None and not self._session.stateless:
            self.cache.forget(self._session.server_name)

    def missed(self) -> None:
        """Drop the cached results that notifications keep fresh."""
        self.connected()


def without_unknown(result: R) -> R:
    """Return a cached result without the members that its type does not know."""
    if not result.meta or KEY not in result.meta:
        return result
    meta = {key: value for key, value in result.meta.items() if key != KEY}
    return msgspec.structs.replace(result, meta=meta or None)


def entries_of(page: Result) -> int:
    """Return how many entries a page of a list has."""
    return sum(len(value) for value in map(page.__getattribute__, page.__struct_fields__) if isinstance(value, list))
