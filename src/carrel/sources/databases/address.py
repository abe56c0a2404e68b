"""Address of a database: its URL for the driver, and the base of the URIs that clients see.

    postgresql://ann:secret@db.example.com:5433/customers  ->  postgres://db.example.com:5433/customers
    sqlite:////srv/data/shop.db                            ->  sqlite:///shop.db

A base contains no user, no password and no driver options. For a file it contains only the file name.
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH111, PTH119

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

from carrel.errors import ConfigError
from carrel.sources.alias import base_of
from carrel.uri.parse import UriError, parse, percent_decode, percent_encode, split_port

__all__ = ["DatabaseAddress", "read_address"]

KINDS = {
    "postgres": "postgres",
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
}
PORTS = {"postgres": 5432, "mysql": 3306}
FILES = ("sqlite", "duckdb")
FORMS = {
    "postgres": "postgresql://user@host/database",
    "mysql": "mysql://user@host/database",
    "sqlite": "sqlite:///shop.db, or sqlite:////srv/shop.db for an absolute path",
    "duckdb": "duckdb:///shop.duckdb, or duckdb:////srv/shop.duckdb for an absolute path",
}


class DatabaseAddress(NamedTuple):
    """Location of a database. ``path`` is the path of a database file; ``base`` is the prefix of the URIs that clients
    see.
    """

    kind: str
    base: str
    path: str = ""
    user: str | None = None
    password: str | None = None
    host: str | None = None
    port: int | None = None
    database: str = ""
    options: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Address({self.base!r})"  # no password

    @property
    def name(self) -> str:
        """Short name of the database: the file name without its extension, or the database name."""
        return self.base.rstrip("/").rpartition("/")[2].partition(".")[0] or self.kind


def read_address(target: str, alias: str | None = None) -> DatabaseAddress:
    """Parse the URL of a database.

    Raises:
        ConfigError: the URL is not valid. The message shows the expected form, and contains no password.
    """
    scheme = target.partition(":")[0].partition("+")[0].lower()
    kind = KINDS.get(scheme)
    if kind is None:
        raise ConfigError(f"{scheme}: is not a supported database")
    if kind in FILES:
        path = path_of(target, kind)
        if alias:
            return DatabaseAddress(kind, base_of(kind, alias, "///"), path)
        return DatabaseAddress(kind, f"{kind}:///{percent_encode(os.path.basename(path), undecodable=True)}", path)
    try:
        uri = parse(target)
        user_info, _, host_port = (uri.authority or "").rpartition("@")
        user, _, password = user_info.partition(":")
        parts = (uri.path.lstrip("/"), user, password, host_port.strip("[]"))
        database, user, password, _ = map(percent_decode, parts)
        host, port = split_port(host_port)
    except UriError:
        raise wrong(kind) from None
    options = dict(parse_qsl(uri.query or ""))
    service = options.get("service")
    if (not database and not service) or "/" in database:
        raise wrong(kind)
    seen = host or ("localhost" if not service else percent_encode(service))
    shown = seen if port in (None, PORTS[kind]) else f"{seen}:{port}"
    base = base_of(kind, alias) if alias else f"{kind}://{shown.lower()}/{percent_encode(database or 'database')}"
    return DatabaseAddress(
        kind,
        base,
        user=user or None,
        password=password or None,
        host=percent_decode(host.strip("[]")) or None,
        port=port,
        database=database,
        options=options,
    )


def path_of(target: str, kind: str) -> str:
    """Return the absolute path of the file in a URL, with symbolic links resolved.

    Raises:
        ConfigError: the URL has no file name.
    """
    remaining = target.partition(":")[2]
    if remaining.startswith("//"):
        remaining = remaining[2:]
        if not remaining.startswith("/"):
            raise wrong(kind)
        remaining = remaining[1:]  # as SQLAlchemy has it: three slashes for a relative path, four for an absolute one
    if "?" in remaining and not os.path.lexists(remaining):
        raise ConfigError(f"{kind}: options of a database file are options of the source, not of its URL")
    try:
        path = remaining if os.path.lexists(remaining) else percent_decode(remaining)
    except UriError:
        path = remaining
    if not path or path == ":memory:" or "\0" in path:
        raise wrong(kind)
    return os.path.realpath(os.path.expanduser(path))


def wrong(kind: str) -> ConfigError:
    return ConfigError(f"this URL names no {kind} database; it should look like {FORMS[kind]}")
