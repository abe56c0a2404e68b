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
from carrel.sources.databases.database import CONNECT_TIMEOUT, GRACE, Database
from carrel.sources.databases.decoding import check_decoding, decode
from carrel.sources.databases.failure import Failed, Refused, Unreachable, not_opened, translate, unreachable

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

log = Log("carrel.sources")

#: Types that are read as the server writes them: those of Python have no infinity, no months, and fewer digits.
AS_TEXT = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "float4", "money", "json", "jsonb")
#: Volatile functions whose only effect is another result each time.
HARMLESS = frozenset(
    {"random", "gen_random_uuid", "clock_timestamp", "timeofday", "statement_timestamp", "uuid_generate_v4"}
)
VOLATILE = """
SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p WHERE lower(p.proname) = ANY(:names) AND p.provolatile = 'v'
"""
#: Functions that are not volatile, and yet look outside of the tables or at other sessions.
REFUSED = frozenset(
    {
        *("current_setting", "pg_show_all_settings", "pg_stat_get_activity", "database_to_xml", "schema_to_xml"),
        *("table_to_xml", "cursor_to_xml", "query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema"),
    }
)
MAY_WRITE = """
SELECT CASE WHEN r.rolsuper THEN 'superuser' ELSE (
    SELECT 'writes to ' || c.relname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') LIMIT 1) END
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
STAMPS = """
SELECT schemaname, relname, n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_catalog.pg_stat_user_tables
"""
SCHEMA_STAMP = """
SELECT md5(coalesce(string_agg(x, ',' ORDER BY x), '')) FROM (
    SELECT 'c' || c.oid || '.' || c.xmin AS x FROM pg_catalog.pg_class c WHERE c.oid >= 16384
        AND c.relkind IN ('r', 'v', 'm', 'p', 'f', 'i') AND c.relnamespace NOT IN (11, 99)
    UNION ALL SELECT 'a' || a.attrelid || '.' || a.attnum || '.' || a.xmin FROM pg_catalog.pg_attribute a
        WHERE a.attrelid >= 16384 AND a.attnum > 0
    UNION ALL SELECT 'o' || o.oid || '.' || o.xmin FROM pg_catalog.pg_constraint o
    UNION ALL SELECT 'd' || d.objoid || '.' || d.objsubid || '.' || d.xmin FROM pg_catalog.pg_description d
        WHERE d.objoid >= 16384
) s
"""


class PostgresDatabase(Database):
    """PostgreSQL database."""

    sqlglot = "postgres"
    product = "PostgreSQL"

    def __init__(self, address: Any, options: Any) -> None:
        super().__init__(address, options)
        self._engine: AsyncEngine | None = None
        self._turns = asyncio.Semaphore(options.connections)
        self.listens = options.notify is not None or options.logical_decoding

    async def start(self) -> None:
        """Open the pool, and connect once."""
        try:
            import asyncpg  # type: ignore[import-untyped]  # noqa: F401
            import greenlet  # type: ignore[import-untyped]  # noqa: F401
            from sqlalchemy import event
            from sqlalchemy.ext.asyncio import create_async_engine
        except ImportError as error:
            raise ConfigError(f"postgres: URLs need {error.name}: pip install 'carrel[postgres]'") from None
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
        try:
            await self.run("", self.check_account)
            if self.options.logical_decoding:
                await self._check_decoding()
        except Failed as error:
            await self.stop()
            raise not_opened(self.address.base, error) from None
        except BaseException:
            await self.stop()
            raise

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

    async def run(self, client: str, work: Callable[[Connection], T], *, guarded: bool = False) -> T:
        """Call a function in a greenlet. If the caller is cancelled, asyncpg has the server cancel the statement."""
        from asyncpg import PostgresError
        from sqlalchemy.exc import SQLAlchemyError

        engine = self._engine
        if engine is None:
            raise Unreachable("the database is closed")
        async with self._turns:
            try:
                connection = await engine.connect()
            except (SQLAlchemyError, PostgresError, OSError, TimeoutError) as error:
                log.debug("%s cannot be reached: %s", self.address.base, type(error).__name__)
                raise unreachable(error) from None
            try:
                await connection.execution_options(postgresql_readonly=True)
                return await connection.run_sync(work)
            except (MCPError, Failed, Refused):
                raise
            except (SQLAlchemyError, PostgresError, OSError) as error:
                raise translate(error, self.options.time_limit) from None
            finally:
                try:
                    await connection.close()
                except (SQLAlchemyError, PostgresError, OSError) as error:  # the server has gone meanwhile
                    log.debug("%s: a connection is lost: %s", self.address.base, type(error).__name__)
                    if not connection.closed:
                        await connection.invalidate()

    async def _check_decoding(self) -> None:
        connection = await self.connect()
        try:
            await check_decoding(connection)
        except ConfigError as error:
            raise ConfigError(f"{self.address.base}: {error}") from None
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT)

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
        """Return what the role may write, or None."""
        right = connection.exec_driver_sql(MAY_WRITE).scalar()
        return None if right is None else str(right)

    def stamps(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return the counters of writes to each table."""
        known = {(row[0], row[1]): tuple(row[2:]) for row in connection.exec_driver_sql(STAMPS)}
        return {id: known.get((schema or "public", name)) for id, (schema, name) in tables.items()}

    def schema_stamp(self, connection: Connection) -> Any:
        """Return a digest of the versions of the rows of the system catalog."""
        return connection.exec_driver_sql(SCHEMA_STAMP).scalar()

    def check_functions(self, connection: Connection, names: set[str]) -> None:
        """Refuse volatile functions, by the catalog: those are the ones that may have effects."""
        import sqlalchemy as sa

        query = sa.text(VOLATILE).bindparams(sa.bindparam("names", type_=sa.ARRAY(sa.Text)))
        rows = connection.execute(query, {"names": sorted(names)})
        for name in sorted({row[0].lower() for row in rows} - HARMLESS):
            raise Refused(
                f"the function {name} is not allowed: it is volatile, and may have effects besides its result"
            )
        for name in sorted(names & REFUSED):
            raise Refused(f"the function {name} is not allowed: it could reach more than the tables")


def prepare(raw: Any, record: Any) -> None:
    """Have some types as text."""

    async def set_codecs(connection: Any) -> None:
        for name in AS_TEXT:
            await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str, format="text")

    raw.run_async(set_codecs)
