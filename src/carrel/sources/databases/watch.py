"""Watch a database for changes: the schema with fingerprints, the rows with notifications, counters, or a file version.

PostgreSQL sends notifications on a channel (``LISTEN``) for tables that have triggers. Everything else is polled: the
schema, and
the rows of all other tables. A poll compares one digest for all tables (in SQLite ``PRAGMA data_version``), and fetches
the fingerprints of the tables only if the digest differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from carrel.catalog.provider import Change, Interest
from carrel.errors import MCPError, ProviderUnavailable
from carrel.log import Log
from carrel.sources.databases.failure import DatabaseFailed
from carrel.sources.databases.location import DatabaseLocation, uri_of
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.polling import poll
from carrel.sources.watches import RunningWatches

if TYPE_CHECKING:
    from carrel.sources.databases.database import Database
    from carrel.sources.databases.model import Schema, Table

__all__ = ["TRIGGERS", "DatabaseWatch", "heard_tables", "trigger_sql"]

log = Log("carrel.sources")

#: Seconds before a reconnect; the delay doubles up to the second value.
PAUSES = (1.0, 60.0)
#: Payloads that may wait; if more come, every table has changed.
MAX_WAITING = 10_000

TRIGGERS = """\
CREATE FUNCTION carrel_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify({channel}, TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
    RETURN NULL;
END $$;
"""


def trigger_sql(channel: str, tables: Collection[tuple[str, str]]) -> str:
    """Return the SQL that makes PostgreSQL notify of changed rows of tables, given by schema and name."""
    text = TRIGGERS.format(channel="'" + channel.replace("'", "''") + "'")
    for schema, name in tables:
        text += (
            "CREATE TRIGGER carrel_notify AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE"
            f" ON {quoted(schema)}.{quoted(name)} FOR EACH STATEMENT EXECUTE FUNCTION carrel_notify();\n"
        )
    return text


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class DatabaseWatch:
    """Watch of one database."""

    def __init__(self, reader: DatabaseReader, interest: Interest) -> None:
        self._reader = reader
        self._interest = interest
        self._look_now = asyncio.Event()
        self._listen_now = asyncio.Event()
        self._outages = 0
        """How often notifications were lost: everything may have changed meanwhile."""
        self._is_deaf = False
        """Whether notifications are lost: changes are held back, so that all of them are reported together."""
        self._known: tuple[Schema | None, Hashable, int] = (None, None, 0)
        self._found: Mapping[str, Hashable] = {}
        self._heard: Collection[str] = ()

    async def batches(self, watches: RunningWatches) -> AsyncIterator[Collection[Change]]:
        """Yield changes in batches, as one of the watches of the source. The first batch is empty."""
        database, returned = self._reader.database, self._reader.database.returned
        wake = (self._look_now, self._listen_now)
        producers = [poll(self.look, database.options.interval, owner=self._reader.base, wake=self._look_now)]
        producers += [self._listen()] if database.listens else []
        returned.update(wake)
        try:
            async with aclosing(watches.join(*producers)) as batches:
                async for batch in batches:
                    yield self._with_dependents(batch) if batch else ()
        finally:
            returned.difference_update(wake)

    def _with_dependents(self, changes: Collection[Change]) -> list[Change]:
        """Return changes, and the changes of subscribed resources that depend on them, such as a row of a table."""
        uris = {change.uri for change in changes}
        found = list(changes)
        for uri in self._interest.uris:
            with suppress(MCPError):
                if uri not in uris and not uris.isdisjoint(self._origins(self._reader.location(uri))):
                    found.append(Change("changed", uri))
        return found

    def _origins(self, location: DatabaseLocation) -> list[str]:
        """Return the URIs of the resources with whose changes a location changes."""
        base = self._reader.base
        if location.part in ("database", "tables"):
            return [uri_of(base, "tables")]
        if location.part in ("table", "table schema"):
            return [uri_of(base, "tables", location.table, "schema")]
        if location.table:
            return [uri_of(base, "tables", location.table, part) for part in ("rows", "sample")]
        return [uri_of(base, "statistics" if location.part in ("query", "database statistics") else location.part)]

    # Polling

    async def look(self) -> Mapping[str, Hashable]:
        """Return fingerprints of the listed resources, in the same object if nothing has changed."""
        database = self._reader.database
        try:
            catalog = await self._reader.cache.get(fresh=True)
            if self._is_deaf:
                return self._found
            outages = self._outages
            if catalog is not self._known[0]:
                self._heard = await heard_tables(database, catalog)
            polled = [id for id, table in catalog.tables.items() if not table.is_view and id not in self._heard]
            digest: Hashable = 0
            rows: dict[str, Any] = {}
            if polled:
                digest = database.file_fingerprint() or await database.run("", database.digest)
            if digest is not None and self._known == (catalog, digest, outages):
                return self._found
            if polled:
                rows = await database.run("", lambda connection: fingerprints_of(database, connection, catalog))
        except DatabaseFailed:
            raise ProviderUnavailable(self._reader.base) from None
        self._known = catalog, digest, outages
        self._found = self._fingerprints(catalog, {id: rows[id] for id in polled}, outages)
        return self._found

    def _fingerprints(self, catalog: Schema, rows: Mapping[str, Any], outages: int) -> Mapping[str, Hashable]:
        """Return fingerprints of the listed resources, by the fingerprints of the rows of the polled tables."""
        base = self._reader.base
        every = str(sorted((id, str(fingerprint)) for id, fingerprint in rows.items()))
        found: dict[str, Hashable] = {
            uri_of(base, part): (catalog.fingerprint, outages) for part in ("schema", "dictionary", "diagram")
        }
        found[uri_of(base, "tables")] = tuple(catalog.tables)
        found[uri_of(base, "statistics")] = (catalog.fingerprint, every, outages)
        found |= {uri_of(base, "queries", name): (every, outages) for name in self._reader.queries}
        for id, table in catalog.tables.items():
            fingerprint = catalog.fingerprints[id]
            found[uri_of(base, "tables", id, "schema")] = (fingerprint, outages)
            shown = every if table.is_view else str(rows.get(id))
            found[uri_of(base, "tables", id, table.contents)] = (fingerprint, shown, outages)
        return found

    # Notifications

    async def _listen(self) -> AsyncGenerator[Collection[Change], None]:
        """Yield a change for each table that a notification names, or for every table if it names none."""
        database, base = self._reader.database, self._reader.base
        pause, listening = PAUSES[0], False
        while True:
            payloads: asyncio.Queue[str | None] = asyncio.Queue()
            disconnected = asyncio.Event()

            def heard(
                payload: str | None, payloads: Any = payloads, disconnected: asyncio.Event = disconnected
            ) -> None:
                if payload is None:
                    disconnected.set()
                if (waiting := payloads.qsize()) <= MAX_WAITING:
                    payloads.put_nowait(payload if waiting < MAX_WAITING else "")

            try:
                async with database.listen(heard):
                    if listening:
                        self._outages += 1
                        self._is_deaf = False
                        self._look_now.set()
                        log.warning("%s: notifications are back; subscribers are told of everything once", base)
                    else:
                        yield ()
                    listening, pause = True, PAUSES[0]
                    while not disconnected.is_set():
                        some = [await payloads.get()]
                        while not payloads.empty():
                            some.append(payloads.get_nowait())
                        if changes := await self._changed([text for text in some if text is not None]):
                            yield changes
            except Exception as error:
                log.debug("%s: notifications: %s", base, type(error).__name__)
            log.warning("%s: notifications have ended; trying again in %g s, or when the database is back", base, pause)
            self._is_deaf = listening
            self._listen_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._listen_now.wait()
            pause = min(2 * pause, PAUSES[1])

    async def _changed(self, payloads: Collection[str]) -> list[Change]:
        """Return the changes for notifications: a payload is ``schema.table``; any other payload means all tables.

        With logical decoding, unknown names belong to tables that are not shared, and are ignored.
        """
        base = self._reader.base
        tables = (await self._reader.cache.get()).tables
        names = {f"{table.schema}.{table.name}": id for id, table in tables.items()}
        decoded = self._reader.database.options.logical_decoding
        named = [names.get(payload) for payload in payloads if not (decoded and payload and payload not in names)]
        ids = set(tables) if None in named else {one for id in named if id is not None for one in line(tables, id)}
        if not ids:
            return []
        ids |= {id for id, table in tables.items() if table.is_view}
        uris = [uri_of(base, "tables", id, tables[id].contents) for id in sorted(ids)]
        uris += [uri_of(base, "statistics"), *(uri_of(base, "queries", name) for name in self._reader.queries)]
        return [Change("changed", uri) for uri in uris]


async def heard_tables(database: Database, catalog: Schema) -> set[str]:
    """Return the ids of the tables whose changed rows are reported by notifications.

    Raises:
        DatabaseFailed: the database reported an error.
    """
    if not database.listens:
        return set()
    names = await database.run("", database.heard)
    return {id for id, table in catalog.tables.items() if (table.schema, table.name) in names}


def fingerprints_of(database: Database, connection: Any, catalog: Schema) -> dict[str, Any]:
    """Return the fingerprints of the rows of tables. A partitioned table has the fingerprints of its partitions."""
    tables = catalog.tables
    own = database.fingerprints(connection, {table.id: (table.schema, table.name) for table in tables.values()})
    found: dict[str, Any] = {id: [own.get(id)] for id in tables}
    for id, table in tables.items():
        if table.partition_of is not None:
            for above in line(tables, table.partition_of):
                found[above].append(own.get(id))
    return found


def line(tables: Mapping[str, Table], id: str) -> Iterable[str]:
    """Yield a table, the table whose partition it is, and so on."""
    above: str | None = id
    while above is not None:
        yield above
        above = tables[above].partition_of
