"""Changes of a database: of its schema by stamps, of its rows by notifications, counters, or the version of a file.

PostgreSQL notifies on a channel (``LISTEN``) where triggers have been set up; the schema is looked at besides. Others
are looked at again and again: SQLite by ``PRAGMA data_version``, which costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Hashable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from carrel.catalog.provider import Change
from carrel.errors import ProviderUnavailable
from carrel.log import Log
from carrel.sources.databases.failure import Failed
from carrel.sources.databases.places import uri_of
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.polling import poll

__all__ = ["TRIGGERS", "DatabaseWatch", "trigger_sql"]

log = Log("carrel.sources")

#: Seconds after which a lost connection is tried again; the pause doubles up to the last.
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
    """Watch of one database, until ``stop``."""

    def __init__(self, reader: DatabaseReader) -> None:
        self._reader = reader
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()

    async def batches(self) -> AsyncGenerator[Collection[Change], None]:
        """Yield changes in batches. The first batch is empty."""
        queue: asyncio.Queue[Collection[Change] | None] = asyncio.Queue()
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [group.create_task(self._poll(queue))]
            if self._reader.database.listens:
                tasks.append(group.create_task(self._listen(queue)))
            tasks.append(group.create_task(self._end(queue)))
            try:
                waiting = len(tasks) - 1
                while (batch := await queue.get()) is not None:
                    if batch:
                        yield batch
                        continue
                    waiting -= 1  # an empty batch: one of the tasks listens now
                    if waiting == 0:
                        yield ()
            finally:
                for task in tasks:
                    task.cancel()

    async def _end(self, queue: asyncio.Queue[Collection[Change] | None]) -> None:
        await self._stopped.wait()
        queue.put_nowait(None)

    async def _poll(self, queue: asyncio.Queue[Collection[Change] | None]) -> None:
        reader = self._reader
        async for batch in poll(self.look, reader.database.options.interval, owner=reader.base):
            queue.put_nowait(batch)

    async def look(self) -> Mapping[str, Hashable]:
        """Return the stamps of everything that is listed."""
        reader = self._reader
        try:
            catalog = await reader.cache.get(fresh=True)
            places = {table.id: (table.schema, table.name) for table in catalog.tables.values()}
            heard = reader.database.listens
            rows: dict[str, Any] = {}
            stamp = reader.database.file_stamp()
            if stamp is not None:
                rows = dict.fromkeys(places, stamp)
            elif not heard:
                rows = await reader.database.run("", lambda connection: reader.database.stamps(connection, places))
        except Failed:
            raise ProviderUnavailable(reader.base) from None
        found: dict[str, Hashable] = {
            uri_of(reader.base, part): catalog.stamp for part in ("schema", "dictionary", "diagram")
        }
        for id, table in catalog.tables.items():
            found[uri_of(reader.base, "tables", id, "schema")] = catalog.stamps[id]
            if table.key:
                found[uri_of(reader.base, "tables", id, "rows")] = (catalog.stamps[id], str(rows.get(id)))
            if not heard:
                for part in ("sample", "statistics"):
                    found[uri_of(reader.base, "tables", id, part)] = (catalog.stamps[id], str(rows.get(id)))
        if not heard:
            every = str(sorted((id, str(stamp)) for id, stamp in rows.items()))
            found[uri_of(reader.base, "statistics")] = (catalog.stamp, every)
            found |= {uri_of(reader.base, "queries", name): every for name in reader.queries}
        return found

    async def _listen(self, queue: asyncio.Queue[Collection[Change] | None]) -> None:
        """Put a change for each table that a notification names; every table where it names none."""
        database = self._reader.database
        pause, listening = PAUSES[0], False
        while True:
            payloads: asyncio.Queue[str | None] = asyncio.Queue()
            lost = asyncio.Event()

            def heard(payload: str | None, payloads: Any = payloads, lost: asyncio.Event = lost) -> None:
                if payload is None:
                    lost.set()
                if (waiting := payloads.qsize()) <= MAX_WAITING:
                    payloads.put_nowait(payload if waiting < MAX_WAITING else "")

            try:
                async with database.listen(heard):
                    queue.put_nowait(() if not listening else await self._changed([""]))
                    listening, pause = True, PAUSES[0]
                    while not lost.is_set():
                        some = [await payloads.get()]
                        while not payloads.empty():
                            some.append(payloads.get_nowait())
                        if changes := await self._changed([text for text in some if text is not None]):
                            queue.put_nowait(changes)
            except Exception as error:
                log.debug("%s: notifications: %s", self._reader.base, type(error).__name__)
            log.warning("%s: notifications have ended; trying again in %g s", self._reader.base, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSES[1])

    async def _changed(self, payloads: Collection[str]) -> list[Change]:
        """Return the changes that notifications tell of: ``schema.table`` each, or anything else for all tables.

        With logical decoding, other names are those of tables that are not shared.
        """
        base = self._reader.base
        tables = (await self._reader.cache.get()).tables
        names = {f"{table.schema}.{table.name}": id for id, table in tables.items()}
        decoded = self._reader.database.options.logical_decoding
        named = [names.get(payload) for payload in payloads if not (decoded and payload and payload not in names)]
        ids = list(tables) if None in named else list(dict.fromkeys(id for id in named if id is not None))
        uris = [uri_of(base, "tables", id, part) for id in ids for part in ("rows", "sample", "statistics")]
        if ids:
            uris.append(uri_of(base, "statistics"))
            uris += [uri_of(base, "queries", name) for name in self._reader.queries]
        return [Change("changed", uri) for uri in uris]
