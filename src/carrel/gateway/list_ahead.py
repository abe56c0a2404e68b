"""ListAhead: asks the servers of a page of a list in parallel, so that several that hang cost it the time of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from carrel.catalog.paging import resolved
from carrel.catalog.provider import Page, Provider, Request

__all__ = ["ListAhead"]

#: How many servers are asked besides the one whose turn it is.
AHEAD = 16


class ListAhead:
    """Lists of providers for one page that is merged of them, each asked before its turn comes.

    ``method`` returns the list of a provider. A provider whose turn comes with less room on the page than it has
    entries is asked again, for what there is room for: its cursor says where that ends.
    """

    def __init__(
        self, providers: Sequence[Provider], request: Request, method: Callable[[Provider], Callable[[Request], Any]]
    ) -> None:
        self._providers = list(providers)
        self._request = request
        self._method = method
        self._asked: dict[str, asyncio.Task[Page[Any]]] = {}

    def list_of(self, provider: Provider) -> Callable[[Request], Any]:
        """Return the list of a provider whose turn it is."""

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
        page: Page[Any] = await resolved(self._method(provider)(part))
        return page

    async def close(self) -> None:
        """Give up what was asked for and has no room on the page."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
