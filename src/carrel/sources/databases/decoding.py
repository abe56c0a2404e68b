"""Logical decoding of PostgreSQL: the names of tables with changed rows, from the write-ahead log.

A temporary slot, which the server drops with the connection, is read with SQL functions, because asyncpg does not
support the replication protocol. The server decodes with the plugin ``test_decoding``, and the query returns only the
names of tables:

    table public.orders: UPDATE: id[integer]:10 note[text]:'new'  ->  public.orders

https://www.postgresql.org/docs/current/logicaldecoding.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from carrel.errors import ConfigError

__all__ = ["check_decoding", "decode", "tables_in"]

MAY_DECODE = """
SELECT current_setting('wal_level'), rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
OPEN = "SELECT pg_catalog.pg_create_logical_replication_slot($1, 'test_decoding', true)"
CHANGED = r"""
SELECT DISTINCT substring(data FROM '^table ((?:"(?:[^"]|"")*"|[^":])+): (?:INSERT|UPDATE|DELETE|TRUNCATE):') AS tables
FROM pg_catalog.pg_logical_slot_get_changes($1, NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')
WHERE data LIKE 'table %'
"""
#: Parent tables of these partitions: rows are written to partitions only.
ANCESTORS = """
SELECT DISTINCT an.nspname || '.' || a.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL pg_catalog.pg_partition_ancestors(c.oid) AS above (relid)
JOIN pg_catalog.pg_class a ON a.oid = above.relid JOIN pg_catalog.pg_namespace an ON an.oid = a.relnamespace
WHERE c.relispartition AND n.nspname || '.' || c.relname = ANY($1::text[])
"""
NAME = re.compile(r'(?P<schema>"(?:[^"]|"")*"|[^",.]+)\.(?P<table>"(?:[^"]|"")*"|[^",.]+)(?:, )?')


async def check_decoding(connection: Any) -> None:
    """Check that the server and the account allow logical decoding.

    Raises:
        ConfigError: they do not. The message says which requirement is not met.
    """
    level, may = await connection.fetchrow(MAY_DECODE)
    if level != "logical":
        raise ConfigError(f"logical_decoding needs a server with wal_level = logical, and here it is {level}")
    if not may:
        raise ConfigError("logical_decoding needs an account with the right REPLICATION (ALTER ROLE … REPLICATION)")


async def decode(connection: Any, interval: float, ready: Callable[[], object], heard: Callable[[str], object]) -> None:
    """Call ``heard`` with each table that has changed, as ``schema.table``, until the task is cancelled.

    ``ready`` is called as soon as all later changes are reported. The log is read every ``interval`` seconds.

    Raises:
        asyncpg.PostgresError: the slot cannot be opened or read.
    """
    slot = f"carrel_{uuid4().hex}"
    await connection.execute("SET statement_timeout = 0")  # opening a slot waits for running transactions
    await connection.fetch(OPEN, slot)
    await connection.execute("RESET statement_timeout")
    ready()
    while True:
        names = [name for [text] in await connection.fetch(CHANGED, slot) for name in tables_in(text)]
        if names:
            names += [name for [name] in await connection.fetch(ANCESTORS, names)]
        for name in dict.fromkeys(names):
            heard(name)
        await asyncio.sleep(interval)


def tables_in(text: str | None) -> list[str]:
    """Return the tables of a decoded change as ``schema.table``, without quotes."""
    return [f"{plain(found['schema'])}.{plain(found['table'])}" for found in NAME.finditer(text or "")]


def plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
