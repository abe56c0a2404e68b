"""Limit the concurrent requests to a source, for one client and for all clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["ClientLimiter"]


class ClientLimiter:
    """Limits of concurrent requests, per client and in total; who comes later waits."""

    def __init__(self, per_client: int, total: int) -> None:
        self._per_client = per_client
        self._total = asyncio.Semaphore(total)
        self._clients: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def slot(self, client: str) -> AsyncIterator[None]:
        """Context manager that waits for the turn of a client, and holds it."""
        own, users = self._clients.setdefault(client, (asyncio.Semaphore(self._per_client), []))
        users.append(None)
        try:
            async with own, self._total:
                yield
        finally:
            users.pop()
            if not users:
                self._clients.pop(client, None)
