"""Cache of the schema of a database. It is invalidated when the schema fingerprint of the database changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from carrel.sources.databases.database import Database
from carrel.sources.databases.model import Schema

__all__ = ["CatalogCache"]

#: Seconds between two checks of a server for a changed schema. Files are checked on every call.
FRESH = 1.0


class CatalogCache:
    """Schema cache of one database. Concurrent requests share one read."""

    def __init__(self, database: Database, selected: Callable[[str], bool]) -> None:
        self._database = database
        self._selected = selected
        self._catalog: Schema | None = None
        self._fingerprint: Any = None
        self._checked = 0.0
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Clear the cache."""
        self._catalog = None

    async def get(self, client: str = "", *, fresh: bool = False) -> Schema:
        """Return the schema. With ``fresh``, it was read or checked during this call.

        Raises:
            DatabaseFailed: the database reported an error.
        """
        async with self._lock:
            kept = self._catalog
            age = monotonic() - self._checked
            if kept is not None and not fresh and age < self.patience:
                return kept
            known = self._fingerprint if kept is not None else None
            if kept is not None and known is not None and self._database.file_fingerprint() == known:
                return kept

            def look(connection: Any) -> tuple[Any, Schema | None]:
                from carrel.sources.databases.reflect import read_catalog

                fingerprint = self._database.schema_fingerprint(connection)
                if fingerprint is not None and fingerprint == known:
                    return fingerprint, None
                database = self._database
                return fingerprint, read_catalog(connection, database.product, database.options, self._selected)

            began = monotonic()
            self._fingerprint, found = await self._database.run(client, look)
            self._checked = began
            if found is None:
                assert kept is not None
                return kept
            self._catalog = found
            return found

    @property
    def patience(self) -> float:
        """Seconds for which the cached schema is used without a check."""
        return 0.0 if self._database.address.path else min(FRESH, self._database.options.interval)
