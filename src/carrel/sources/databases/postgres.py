"""PostgreSQL by asyncpg: read-only sessions, statement_timeout, cancellation by the server, LISTEN.

https://www.postgresql.org/docs/current/runtime-config-client.html
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import ConfigError, MCPError
from carrel.log import Log
from carrel.sources.databases.database import CONNECT_TIMEOUT, DATABASE, GRACE, Database
from carrel.sources.databases.decoding import check_decoding, decode
from carrel.sources.databases.failure import (
    DatabaseFailed,
    StatementRejected,
    Unreachable,
    translate,
    unreachable,
)
from carrel.sources.databases.functions import HARMLESS, is_allowed, not_harmless
from carrel.sources.packages import needed

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

    from carrel.sources.databases.model import Schema
    from carrel.sources.databases.statements import Statement

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

log = Log("carrel.sources")

#: Types that are read in the server's text format: the Python types have no infinity, no months, and fewer digits.
AS_TEXT = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "float4", "money", "json", "jsonb")
#: Extensions whose operators and functions only compute.
EXTENSIONS = (
    *("btree_gin", "btree_gist", "citext", "cube", "earthdistance", "hstore", "intarray", "isn", "ltree", "pg_trgm"),
    *("postgis", "seg", "vector"),
)
#: Functions that a statement could call without being seen: they have the name of a harmless function, or look like a
#: column (``row.name``), or belong to an operator or a cast. Casts need not be written: ``x || 'a'`` makes a text of x.
#: A row type can be cast by a statement that uses its table, or any table if a column has the type.
UNSEEN = """
WITH made AS (
    SELECT p.oid, p.proname, n.nspname, p.pronargs - p.pronargdefaults <= 1 AND p.pronargs > 0 AS single,
        EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = p.proargtypes[0] AND t.typtype IN ('c', 'p')) AS of_row,
        EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
            WHERE d.objid = p.oid AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.deptype = 'e'
            AND e.extname = ANY(:extensions)) AS known
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
)
SELECT nspname, proname, NULL FROM made WHERE nspname IN ('pg_catalog', 'public') AND NOT known AND (
    nspname = 'public' AND proname = ANY(:functions) OR single AND proname = ANY(:fields)
    OR single AND of_row AND proname = ANY(:columns))
UNION SELECT nspname, proname, NULL FROM made JOIN pg_catalog.pg_cast c ON c.castfunc = made.oid
    JOIN pg_catalog.pg_type t ON t.oid = c.castsource WHERE c.oid >= 16384 AND NOT known AND (t.typtype <> 'c'
    OR EXISTS (SELECT FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace s ON s.oid = r.relnamespace
        WHERE r.oid = t.typrelid AND s.nspname || '.' || r.relname = ANY(:tables))
    OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type of ON of.oid = a.atttypid
        WHERE a.attnum > 0 AND t.oid IN (of.oid, of.typelem, of.typbasetype)))
UNION SELECT nspname, proname, o.oprname FROM made JOIN pg_catalog.pg_operator o ON o.oprcode = made.oid
    WHERE NOT known AND o.oprnamespace <> 'pg_catalog'::pg_catalog.regnamespace
"""
#: Operators that are called by words: IN, BETWEEN, USING, DISTINCT, CASE, LIKE, ILIKE, SIMILAR TO.
IMPLIED = ("=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "~", "!~")
MAY_WRITE = """
SELECT CASE WHEN r.rolsuper THEN 'superuser' ELSE (
    SELECT 'writes to ' || c.relname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') LIMIT 1) END
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
TABLE_FINGERPRINTS = """
SELECT n.nspname, c.relname, pg_stat_get_tuples_inserted(c.oid), pg_stat_get_tuples_updated(c.oid),
       pg_stat_get_tuples_deleted(c.oid), pg_stat_get_live_tuples(c.oid), c.relfilenode::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid >= 16384 AND c.relkind IN ('r', 'm')
"""
#: The sums of the same counters. The first three only grow, so a sum changes whenever a counter changes.
DIGEST = """
SELECT sum(pg_stat_get_tuples_inserted(c.oid)), sum(pg_stat_get_tuples_updated(c.oid)),
       sum(pg_stat_get_tuples_deleted(c.oid)), sum(pg_stat_get_live_tuples(c.oid)), sum(c.relfilenode::bigint)
FROM pg_catalog.pg_class c WHERE c.oid >= 16384 AND c.relkind IN ('r', 'm')
"""
#: A row of the system catalog that is new or changed has a later transaction than all rows before it. So the number of
#: rows and the sum of their transactions differ after each change.
SCHEMA_FINGERPRINT = """
SELECT (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_class
        WHERE oid >= 16384 AND relkind IN ('r', 'v', 'm', 'p', 'f', 'i') AND relnamespace NOT IN (11, 99)),
       (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_attribute
        WHERE attrelid >= 16384 AND attnum > 0),
       (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_constraint
        WHERE oid >= 16384),
       (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_description
        WHERE objoid >= 16384),
       (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_inherits),
       (SELECT count(*) || '.' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.pg_trigger
        WHERE NOT tgisinternal)
"""
#: Tables with triggers for all kinds of changed rows (4, 8 and 16) whose function notifies on the channel.
TRIGGERED = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND p.prosrc ILIKE '%notify%'
AND strpos(p.prosrc || encode(t.tgargs, 'escape'), :channel) > 0
GROUP BY n.nspname, c.relname HAVING bit_or(t.tgtype) & 28 = 28
"""
#: Unlogged tables are not in the write-ahead log.
LOGGED = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
"""


class PostgresDatabase(Database):
    """PostgreSQL database."""

    sqlglot = "postgres"
    product = "PostgreSQL"

    def __init__(self, address: Any, options: Any) -> None:
        super().__init__(address, options)
        self._engine: AsyncEngine | None = None
        self._limiter = asyncio.Semaphore(options.connections)
        self.listens = options.notify is not None or options.logical_decoding

    async def open(self) -> None:
        """Open the pool."""
        with needed("postgres: URLs", "postgres"):
            import asyncpg  # type: ignore[import-untyped]  # noqa: F401
            import greenlet  # type: ignore[import-untyped]  # noqa: F401
            from sqlalchemy import event
            from sqlalchemy.ext.asyncio import create_async_engine
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self.connect,
            pool_size=self.options.connections,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
            isolation_level="REPEATABLE READ",
        )
        event.listen(self._engine.sync_engine, "connect", prepare)

    async def check(self) -> None:
        """Check the privileges of the account, and logical decoding if it is enabled."""
        await super().check()
        if self.options.logical_decoding:
            connection = await self.connect()
            try:
                await check_decoding(connection)
            except ConfigError as error:
                raise ConfigError(f"{self.address.base}: {error}") from None
            finally:
                await connection.close(timeout=CONNECT_TIMEOUT)

    async def stop(self) -> None:
        """Close all connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()

    async def connect(self) -> Any:
        """Return a new connection of asyncpg, whose session is read-only and limited in time."""
        import asyncpg

        address = self.address
        options = dict(address.options)
        given: dict[str, Any] = {
            "user": address.user,
            "password": self.password(),
            "host": options.pop("host", None) or address.host,
            "port": int(options.pop("port", 0)) or address.port,
            "database": address.database,
            "ssl": options.pop("sslmode", None),
            "timeout": CONNECT_TIMEOUT,
            "server_settings": {
                "default_transaction_read_only": "on",
                "statement_timeout": str(int(self.options.time_limit * 1000)),
                "lock_timeout": "2000",
                "idle_in_transaction_session_timeout": str(int((self.options.time_limit + 10 * GRACE) * 1000)),
                "standard_conforming_strings": "on",
                "application_name": "carrel",
                "DateStyle": "ISO",
                "search_path": "public",
                **({"role": self.options.role} if self.options.role else {}),
            },
        }
        for name in ("service", "servicefile", "passfile"):
            if name in options:
                given[name] = os.path.expanduser(options.pop(name))  # noqa: ASYNC240, PTH111
        if options:
            raise ConfigError(f"{address.base}: the URL has an unknown option: {', '.join(options)}")
        return await asyncpg.connect(**{name: value for name, value in given.items() if value not in (None, "")})

    async def run(self, client: str, work: Callable[[Connection], T]) -> T:
        """Call a function in a greenlet. If the caller is cancelled, asyncpg has the server cancel the statement."""
        from asyncpg import PostgresError
        from sqlalchemy.exc import SQLAlchemyError

        engine = self._engine
        if engine is None:
            raise Unreachable("the database is closed")
        async with self._limiter:
            try:
                connection = await engine.connect()
            except (SQLAlchemyError, PostgresError, OSError, TimeoutError) as error:
                log.debug("%s cannot be reached: %s", self.address.base, type(error).__name__)
                self.reached(False)
                raise unreachable(error) from None
            self.reached(True)
            try:
                await connection.execution_options(postgresql_readonly=True)
                (await connection.run_sync(lambda plain: plain.info))[DATABASE] = self
                return await connection.run_sync(work)
            except (MCPError, DatabaseFailed, StatementRejected):
                raise
            except (SQLAlchemyError, PostgresError, OSError) as error:
                failure = translate(error, self.options.time_limit)
                self.reached(not isinstance(failure, Unreachable))
                raise failure from None
            finally:
                try:
                    await connection.close()
                except (SQLAlchemyError, PostgresError, OSError) as error:  # the server has gone meanwhile
                    log.debug("%s: a connection is lost: %s", self.address.base, type(error).__name__)
                    if not connection.closed:
                        await connection.invalidate()

    @asynccontextmanager
    async def listen(self, heard: Callable[[str | None], object]) -> AsyncIterator[None]:
        """Listen on the channel ``notify``, or decode the log: ``heard`` has each payload, and None when it is lost."""
        connection = await self.connect()
        decoding: asyncio.Task[None] | None = None
        try:
            connection.add_termination_listener(lambda _: heard(None))
            if self.options.logical_decoding:
                ready = asyncio.Event()
                decoding = asyncio.ensure_future(decode(connection, self.options.interval, ready.set, heard))
                decoding.add_done_callback(lambda _: ready.set())
                decoding.add_done_callback(lambda _: heard(None))
                await ready.wait()
                if decoding.done():
                    decoding.result()
            else:
                await connection.add_listener(self.options.notify, lambda *given: heard(given[-1]))
            yield
        finally:
            if decoding is not None:
                decoding.cancel()
                await asyncio.wait([decoding])
                if not decoding.cancelled():
                    decoding.exception()
            await connection.close(timeout=CONNECT_TIMEOUT)

    def account_may_write(self, connection: Connection) -> str | None:
        """Return the objects and privileges with which the role may write, or None."""
        right = connection.exec_driver_sql(MAY_WRITE).scalar()
        return None if right is None else str(right)

    def heard(self, connection: Connection) -> set[tuple[str | None, str]]:
        """Return the tables that have a trigger for the channel, or are in the write-ahead log."""
        import sqlalchemy as sa

        if self.options.logical_decoding:
            return {(schema, name) for schema, name in connection.execute(sa.text(LOGGED))}
        rows = connection.execute(sa.text(TRIGGERED), {"channel": self.options.notify})
        return {(schema, name) for schema, name in rows}

    def digest(self, connection: Connection) -> Any:
        """Return the sums of the counters of writes to all tables."""
        return tuple(connection.exec_driver_sql(DIGEST).one())

    def fingerprints(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return the counters of writes to each table."""
        known = {(row[0], row[1]): tuple(row[2:]) for row in connection.exec_driver_sql(TABLE_FINGERPRINTS)}
        return {id: known.get((schema or "public", name)) for id, (schema, name) in tables.items()}

    def schema_fingerprint(self, connection: Connection) -> Any:
        """Return the numbers and sums of versions of the rows of the system catalog."""
        return tuple(connection.exec_driver_sql(SCHEMA_FINGERPRINT).one())

    def guard(self, connection: Connection, statement: Statement, catalog: Schema | None) -> None:
        """Reject functions, operators and casts that users have made and a statement would call without being seen."""
        import sqlalchemy as sa

        from carrel.sources.databases.statements import without_literals  # deferred import: it loads the parser

        given = {
            "functions": [name for name in statement.functions if "." not in name],
            "fields": sorted(statement.fields),
            "columns": sorted(statement.columns),
            "tables": sorted(f"{schema}.{name}" for _, schema, name in statement.tables),
            "extensions": EXTENSIONS,
        }
        types = [sa.bindparam(name, type_=sa.ARRAY(sa.Text)) for name in given]
        found = connection.execute(sa.text(UNSEEN).bindparams(*types), given).all()
        operators = without_literals(statement.sql, self.sqlglot) if found else ""
        for schema, name, operator in found:
            if operator is not None and operator not in IMPLIED and operator not in operators:
                continue
            plain = name if schema == "pg_catalog" else f"{schema}.{name}"
            if plain not in HARMLESS[self.sqlglot] and not is_allowed(plain, self.options.allow_functions):
                raise not_harmless(plain)


def prepare(raw: Any, record: Any) -> None:
    """Select some types as text."""

    async def set_codecs(connection: Any) -> None:
        for name in AS_TEXT:
            await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str, format="text")

    raw.run_async(set_codecs)
