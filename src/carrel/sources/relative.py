"""Relative paths in URLs of sources, made absolute: from the folder of a configuration file, or the current one.

    git:.                            ->  git:/srv/project
    logs:log/*.log                   ->  logs:/srv/project/log/*.log
    sqlite:///shop.db                ->  sqlite:////srv/project/shop.db
    mysql://host/shop?ssl_ca=ca.pem  ->  mysql://host/shop?ssl_ca=/srv/project/ca.pem

A row of the registry names the function for its scheme. It is called with a URL and a folder; an empty one is the
current folder.
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111, PTH117, PTH118

from __future__ import annotations

import os
from urllib.parse import quote, unquote

__all__ = ["absolute", "database_file", "driver_files", "log_files", "missing_file", "plain_path"]

#: Schemes of URLs that end with the path of a file or folder on this machine.
LOCAL = frozenset({"duckdb", "git", "logs", "sqlite", "zip"})
#: Parameters in the URL of a database server whose values are paths.
FILES = ("passfile", "servicefile", "ssl_ca")


def absolute(folder: str, path: str) -> str:
    """Return a path as an absolute one; ``~`` is the user's home."""
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def plain_path(target: str, folder: str) -> str:
    """Return a URL that has a path after its colon, unless two slashes begin it."""
    scheme, colon, remaining = target.partition(":")
    return target if remaining.startswith("//") else scheme + colon + absolute(folder, remaining)


def log_files(target: str, folder: str) -> str:
    """Return the URL of logs with an absolute path. The URL of the journal has no path."""
    remaining = target.partition(":")[2].removeprefix("//")
    return target if remaining in ("", "journal") else f"logs:{absolute(folder, remaining)}"


def missing_file(target: str) -> str | None:
    """Return the path in an absolute URL of files on this machine if it does not exist, or None."""
    scheme, _, remaining = target.partition(":")
    path = remaining.partition("?")[0]
    if scheme not in LOCAL or not os.path.isabs(path) or (scheme == "logs" and any(mark in path for mark in "*?[")):
        return None
    return None if os.path.lexists(path) or os.path.lexists(unquote(path)) else os.path.abspath(path)


def database_file(target: str, folder: str) -> str:
    """Return the URL of a database file: three slashes for a relative path, four for an absolute one."""
    scheme, _, remaining = target.partition(":")
    path = remaining.removeprefix("///")
    if not path or path == ":memory:" or path.startswith("//"):
        return target  # no path: the source reports the error
    placed = absolute(folder, path)
    if not os.path.lexists(placed) and os.path.lexists(decoded := absolute(folder, unquote(path))):
        placed = decoded
    return f"{scheme}:///{placed}"


def driver_files(target: str, folder: str) -> str:
    """Return the URL of a database server, with the files that its driver reads."""
    address, mark, query = target.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&")]
    placed = [
        f"{name}{equals}{quote(absolute(folder, unquote(value)))}" if name in FILES and value else name + equals + value
        for name, equals, value in pairs
    ]
    return address + mark + "&".join(placed)
