"""ListAhead: prefetches the lists of several servers in parallel, so that their timeouts do not add up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from typing import Any

from carrel.awaitables import resolved
from carrel.catalog.provider import Page, Provider, Request
from carrel.errors import InvalidCursor, MCPError, ProviderUnavailable
from carrel.log import Log
from carrel.printable import printable

__all__ = ["ListAhead"]

log = Log("carrel.gateway")

#: Seconds that a server has for its part of a page. Sending and decoding a long list takes time.
PART_PATIENCE = 20.0
#: Number of servers to prefetch from, after the current server.
AHEAD = 16


class ListAhead:
    """Prefetched lists of the providers for one merged page.

    ``method`` returns the list method of a provider. ``away`` has the names of unavailable providers. If a provider
    has more entries than fit on the page, its list is requested again with a lower limit, to get a cursor that points
    to the last entry on the page.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        request: Request,
        method: Callable[[Provider], Callable[[Request], Any]],
        away: Container[str] = (),
    ) -> None:
        self._providers = list(providers)
        self._request = request
        self._method = method
        self._away = away
        self._asked: dict[str, asyncio.Task[Page[Any]]] = {}

    def list_of(self, provider: Provider) -> Callable[[Request], Any]:
        """Return the list method for a provider, which is the next provider on the page."""

        async def listed(part: Request) -> Page[Any]:
            self._ask_ahead(provider)
            asked = self._asked.pop(provider.name, None)
            if asked is not None and part.cursor is None:
                page = await asked
                if len(page.items) <= part.limit:
                    return page
            return await self._ask(provider, part)

        return listed

    def _ask_ahead(self, provider: Provider) -> None:
        at = self._providers.index(provider)
        for each in self._providers[at + 1 : at + 1 + AHEAD]:
            if each.name not in self._asked:
                part = self._request.page(None, self._request.limit)
                self._asked[each.name] = asyncio.ensure_future(self._ask(each, part))

    async def _ask(self, provider: Provider, part: Request) -> Page[Any]:
        """Return a provider's part of the page. Any error is logged, and only this part is left out.

        Raises:
            ProviderUnavailable: the part is not available.
            InvalidCursor: the client's cursor is not from this server.
        """
        try:
            async with asyncio.timeout(PART_PATIENCE):
                page: Page[Any] = await resolved(self._method(provider)(part))
            return page
        except ProviderUnavailable:
            raise
        except InvalidCursor as error:
            if part.cursor is not None:
                raise
            raise ProviderUnavailable(provider.name) from error
        except (MCPError, TimeoutError) as error:
            log.warning(
                "%s: its part of a list is left out: %s", provider.name, printable(error) or "no answer in time"
            )
            raise ProviderUnavailable(provider.name) from error
        except Exception as error:
            log.exception("%s: its part of a list is left out", provider.name)
            raise ProviderUnavailable(provider.name) from error

    async def close(self) -> None:
        """Cancel the requests whose results do not fit on the page."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
