"""Sources of object stores, remote files and databases, used by the official Python client and the Inspector.

One ``carrel serve`` shares all of them, on stdio and over HTTP.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest

from interop.test_all_sources import all_of
from interop.test_inspector import inspect, read_each
from support import azure_server, s3_server
from support.carrel_process import command, serving
from support.database_servers import mariadb, postgres
from support.debian import program
from support.sdk_session import SDKSession, sdk_session
from support.sftp_server import sftp_server
from support.shop_database import TABLES, statements
from support.webdav_server import webdav_server

pytestmark = pytest.mark.slow

ENVIRONMENT = {**s3_server.CREDENTIALS, **azure_server.CREDENTIALS}
PATIENCE = 280.0  # less than pytest's
NAMES = ("s3", "gs", "az", "sftp", "webdav", "postgresql", "mariadb", "duckdb")
FILE = "a.txt"
ROW = ("李雷", "/schema", "/tables/customers/rows/3")
MAKE = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.stdin.read())"


class Shared(NamedTuple):
    """Source as ``carrel.toml`` has it, a URI that it lists, and one that has a text."""

    options: dict[str, Any]
    listed: str
    uri: str
    text: str


class Services:
    """Servers of all kinds, and a folder with a ``carrel.toml`` for each source, and one for all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: dict[str, Shared] = {}
        # The Inspector takes options of the command for its own, and passes no environment on.
        self.script = folder / "serve"
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in ENVIRONMENT.items())
        self.script.write_text(f'#!/bin/sh\ncd "{folder}/$1" && exec env {given} {shlex.join(command("serve"))}\n')
        self.script.chmod(0o755)

    def add(self, name: str, base: str, text: str, listed: str = FILE, path: str = FILE, **options: Any) -> None:
        """Share a source."""
        self.sources[name] = Shared(options, base + listed, base + path, text)

    def write(self) -> None:
        """Write the files."""
        tables = {name: table(source.options) for name, source in self.sources.items()}
        for name, text in {**tables, "all": "\n".join(tables.values())}.items():
            (self.folder / name).mkdir()
            (self.folder / name / "carrel.toml").write_text(text)

    def command(self, name: str) -> list[str]:
        """Return a command that shares a source, or all, on stdio."""
        return [str(self.script), name]


def table(options: dict[str, Any]) -> str:
    """Return a source in TOML."""
    lines = [f"{name} = {str(value).lower() if value is True else repr(value)}" for name, value in options.items()]
    return "\n".join(["[[sources]]", *lines, ""])


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("services")
    services = Services(folder)
    with ExitStack() as stack:
        s3 = stack.enter_context(s3_server.s3_server())
        s3.put("notes/a.txt", "notes in S3")
        services.add("s3", "s3://shelf/notes/", "notes in S3", url="s3://shelf/notes", endpoint=s3.endpoint)
        s3.put("open/a.txt", "notes at Google", access="public-read")
        google = {"url": "gs://shelf/open", "endpoint": s3.endpoint, "anonymous": True}
        services.add("gs", "gs://shelf/open/", "notes at Google", **google)

        azure = stack.enter_context(azure_server.azure_server())
        azure.put("notes/a.txt", "notes in Azure")
        given = {"url": "az://shelf/notes", "endpoint": azure.endpoint}
        services.add("az", "az://shelf/notes/", "notes in Azure", **given)

        ssh = stack.enter_context(sftp_server())
        (ssh.files / "a.txt").write_text("notes over SSH")
        base = f"sftp://127.0.0.1:{ssh.port}{ssh.files}/"
        services.add("sftp", base, "notes over SSH", url=ssh.url(ssh.files), **ssh.options)

        dav = stack.enter_context(webdav_server())
        (dav.folder / "a.txt").write_text("notes over WebDAV")
        base = f"webdav://127.0.0.1:{dav.port}/open/"
        services.add("webdav", base, "notes over WebDAV", url=base)

        server = stack.enter_context(postgres())
        client = [program("psql"), "-h", str(server), "-U", "postgres", "-q", "-d", "postgres"]
        commands = [part for statement in statements() for part in ("-c", statement)]
        subprocess.run([*client, *commands], check=True, capture_output=True, timeout=60)
        url = f"postgresql://postgres@/postgres?host={server}"
        services.add("postgresql", "postgres://localhost/postgres", *ROW, url=url)

        server = stack.enter_context(mariadb())
        connection = pymysql.connect(
            unix_socket=str(server / "socket"), user="root", autocommit=True, ssl_disabled=True
        )
        with connection, connection.cursor() as cursor:
            for statement in ("CREATE DATABASE shop CHARACTER SET utf8mb4", "USE shop", *statements()):
                cursor.execute(statement)
        url = f"mariadb://root@localhost/shop?unix_socket={server}/socket"
        services.add("mariadb", "mysql://localhost/shop", *ROW, url=url)

        subprocess.run(
            [sys.executable, "-c", MAKE, folder / "shop.duckdb"], input=TABLES, text=True, check=True, timeout=60
        )
        services.add("duckdb", "duckdb:///shop.duckdb", *ROW, url=f"duckdb:///{folder}/shop.duckdb")

        assert tuple(services.sources) == NAMES
        services.write()
        yield services


def check(session: SDKSession, services: Services) -> None:
    listed = all_of(session)
    for name, source in services.sources.items():
        assert source.listed in listed, name
        [contents] = session.call("read_resource", source.uri)["contents"]
        assert source.text in contents["text"], name


def test_the_official_client_reads_all_of_them_over_stdio(services: Services) -> None:
    with sdk_session(*services.command("all")) as session:
        check(session, services)


def test_the_official_client_and_the_inspector_read_all_of_them_over_http(services: Services) -> None:
    with serving("serve", cwd=str(services.folder / "all"), patience=PATIENCE, **ENVIRONMENT) as (url, _):
        with sdk_session(url) as session:
            check(session, services)
        check_with_inspector(services, {name: [url] for name in ("all", "s3", "postgresql")})


@pytest.mark.exhaustive
def test_the_inspector_lists_all_of_them_and_reads_a_file_and_a_row_over_stdio(services: Services) -> None:
    """Each read starts a server, which shares one source."""
    check_with_inspector(services, {name: services.command(name) for name in ("all", "s3", "duckdb")})


def check_with_inspector(services: Services, servers: Mapping[str, list[str]]) -> None:
    """List what is shared, and read the source of each server."""
    listed = {
        resource["uri"] for resource in inspect(servers["all"], "auto", "--method", "resources/list")["resources"]
    }
    for name, source in services.sources.items():
        assert source.listed in listed, name
    names = [name for name in servers if name != "all"]
    texts = read_each([(servers[name], services.sources[name].uri) for name in names])
    for name, contents in zip(names, texts, strict=True):
        assert services.sources[name].text in contents["text"], name
