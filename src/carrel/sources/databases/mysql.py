"""MySQL and MariaDB with PyMySQL: read-only sessions, server-side limits, KILL QUERY when a request is cancelled."""

# ruff: noqa: PTH111, PTH113

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

from carrel.sources.databases.database import CONNECT_TIMEOUT, RunningQuery, ThreadedDatabase
from carrel.sources.databases.functions import is_allowed, not_harmless
from carrel.sources.packages import needed

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from carrel.sources.databases.model import Schema
    from carrel.sources.databases.statements import Statement

__all__ = ["MySQLDatabase"]

WRITING = re.compile(
    r"\b(ALL PRIVILEGES|INSERT|UPDATE|DELETE(?! HISTORY)|CREATE|DROP|ALTER|FILE|SUPER|TRIGGER|EXECUTE)\b"
)
SCHEMA_FINGERPRINT = """
SELECT (SELECT concat(count(*), '.', coalesce(sum(crc32(concat_ws('|', table_name, column_name, ordinal_position,
    column_type, is_nullable, column_default, column_comment, extra))), 0))
    FROM information_schema.columns WHERE table_schema = database()),
(SELECT concat(count(*), '.', coalesce(sum(crc32(concat_ws('|', table_name, table_comment, table_type,
    create_time))), 0))
    FROM information_schema.tables WHERE table_schema = database()),
(SELECT concat(count(*), '.', coalesce(sum(crc32(concat_ws('|', table_name, index_name, column_name,
    seq_in_index))), 0))
    FROM information_schema.statistics WHERE table_schema = database()),
(SELECT concat(count(*), '.', coalesce(sum(crc32(concat_ws('|', table_name, constraint_name, column_name,
    referenced_table_name, referenced_column_name))), 0))
    FROM information_schema.key_column_usage WHERE table_schema = database())
"""
#: A fixed SQL mode in which the server parses statements as sqlglot does.
SQL_MODE = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"


class MySQLDatabase(ThreadedDatabase):
    """MySQL or MariaDB database."""

    sqlglot = "mysql"
    product = "MySQL"

    def create_engine(self) -> Engine:
        """Return the engine. Dates and times are returned in the server's text format."""
        from sqlalchemy import create_engine, event, pool

        with needed("mysql: URLs", "mysql"):
            import pymysql  # type: ignore[import-untyped]  # noqa: F401
        engine = create_engine(
            "mysql+pymysql://",
            creator=self.connect,
            poolclass=pool.QueuePool,
            pool_size=self.options.connections,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
        )
        event.listen(engine, "connect", self.prepare)
        return engine

    def connect(self) -> Any:
        """Return a new connection."""
        import pymysql
        from pymysql.constants import FIELD_TYPE  # type: ignore[import-untyped]
        from pymysql.converters import conversions  # type: ignore[import-untyped]

        address = self.address
        dates = (FIELD_TYPE.DATE, FIELD_TYPE.TIME, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.NEWDATE)
        given: dict[str, Any] = {
            "database": address.database,
            "charset": "utf8mb4",
            "connect_timeout": int(CONNECT_TIMEOUT),
            "conv": {key: value for key, value in conversions.items() if key not in dates},
            "local_infile": False,
        }
        password = self.password() or os.environ.get("MYSQL_PWD")
        socket = address.options.get("unix_socket") or address.options.get("socket")
        found = {"user": address.user, "password": password, "host": address.host, "port": address.port}
        given |= {name: value for name, value in {**found, "unix_socket": socket}.items() if value is not None}
        ca = address.options.get("ssl_ca")
        if ca is not None:
            given |= {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
        elif socket is not None:
            given["ssl_disabled"] = True  # reading the certificates of the system takes 30 ms, for each connection
        defaults = os.path.expanduser("~/.my.cnf")
        if (password is None or address.user is None) and os.path.isfile(defaults):
            given["read_default_file"] = defaults
        return pymysql.connect(**given)

    def prepare(self, raw: Any, record: Any) -> None:
        """Make a session read-only with a time limit, in an SQL mode in which the server parses statements as the check
        does.
        """
        with raw.cursor() as cursor:
            cursor.execute("SELECT version()")
            mariadb = "mariadb" in str(cursor.fetchone()[0]).lower()
            self.product = "MariaDB" if mariadb else "MySQL"
            cursor.execute(f"SET SESSION sql_mode = '{SQL_MODE}'")
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
            limit = self.options.time_limit
            if mariadb:
                cursor.execute(f"SET SESSION max_statement_time = {limit:f}")
            else:
                cursor.execute(f"SET SESSION max_execution_time = {int(limit * 1000)}")
                cursor.execute("SET SESSION information_schema_stats_expiry = 0")
            if self.options.role is not None:
                cursor.execute("SET ROLE `%s`" % self.options.role.replace("`", "``"))  # noqa: UP031
        raw.commit()

    def begin(self, connection: Connection, running: RunningQuery) -> None:
        """Start a read-only transaction."""
        connection.exec_driver_sql("START TRANSACTION READ ONLY")
        raw: Any = connection.connection.dbapi_connection
        number = raw.thread_id()
        running.interrupt = lambda: threading.Thread(target=self.kill, args=(number,), daemon=True).start()

    def kill(self, number: int) -> None:
        """Cancel the statement of a session, over another connection."""
        import pymysql

        try:
            other = self.connect()
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(number)}")
            finally:
                other.close()
        except (pymysql.Error, OSError):
            pass  # the session has ended, or the server is down

    def account_may_write(self, connection: Connection) -> str | None:
        """Return the right to write in the account's grants, or None."""
        for [grant] in connection.exec_driver_sql("SHOW GRANTS").fetchall():
            rights = str(grant).partition(" ON ")[0].removeprefix("GRANT ")
            found = WRITING.search(rights)
            if found is not None:
                return found[0]
        return None

    def fingerprints(self, connection: Connection, tables: dict[str, tuple[str | None, str]]) -> dict[str, Any]:
        """Return the time of the last change and the statistics of each table."""
        rows = connection.exec_driver_sql(
            "SELECT table_name, update_time, table_rows, auto_increment, data_length, create_time"
            " FROM information_schema.tables WHERE table_schema = database()"
        )
        known = {row[0]: tuple(map(str, row[1:])) for row in rows}
        return {id: known.get(name) for id, (_, name) in tables.items()}

    def schema_fingerprint(self, connection: Connection) -> Any:
        """Return check sums of the tables, columns, indexes and references."""
        return tuple(map(str, connection.exec_driver_sql(SCHEMA_FINGERPRINT).one()))

    def guard(self, connection: Connection, statement: Statement, catalog: Schema | None) -> None:
        """Reject stored functions."""
        names = {name.rpartition(".")[2]: name for name in statement.functions}
        rows = connection.exec_driver_sql("SELECT lower(routine_name) FROM information_schema.routines")
        for name in sorted(names.keys() & {row[0] for row in rows}):
            if not is_allowed(names[name], self.options.allow_functions):
                raise not_harmless(names[name])

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """Return the class of all errors of the driver."""
        import pymysql

        return (pymysql.Error,)
