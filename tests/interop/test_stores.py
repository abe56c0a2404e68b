"""Object stores, an SSH server and archives, three of a kind, used by the official Python client."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel import Server, sources
from support.carrel_process import command
from support.http_server import over_http
from support.s3_server import CREDENTIALS, S3Server, s3_server
from support.sdk_session import SDKSession, sdk_session
from support.sftp_server import SFTPServer, sftp_server

pytestmark = pytest.mark.slow

KINDS = ("one", "two", "three")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        for name in KINDS:
            server.put(f"{name}/log.txt", "".join(f"{name} {number}\n" for number in range(1, 1001)))
        yield server


@pytest.fixture(scope="module")
def ssh() -> Iterator[SFTPServer]:
    with sftp_server() as server:
        for name in KINDS:
            (server.files / name).mkdir()
            (server.files / name / "a.txt").write_text(name)
        yield server


@pytest.fixture(scope="module")
def archives() -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory() as folder:
        for name in KINDS:
            with zipfile.ZipFile(Path(folder, f"{name}.zip"), "w") as archive:
                archive.writestr("docs/a.md", f"# {name}\n")
        yield [Path(folder, f"{name}.zip") for name in KINDS]


def check(session: SDKSession, ssh: SFTPServer) -> None:
    listed = [resource["uri"] for resource in session.call("list_resources")["resources"]]
    templates = [one["uriTemplate"] for one in session.call("list_resource_templates")["resourceTemplates"]]
    for name in KINDS:
        folder = f"sftp://127.0.0.1:{ssh.port}{ssh.files}/{name}/"
        for uri, expected in (
            (f"s3://shelf/{name}/log.txt?tail=1", f"{name} 1000\n"),
            (f"s3://shelf/{name}/log.txt?lines=2-2", f"{name} 2\n"),
            (f"{folder}a.txt", name),
            (f"zip://{name}.zip/docs/a.md", f"# {name}\n"),
        ):
            [contents] = session.call("read_resource", uri)["contents"]
            assert contents["text"] == expected
            assert uri.partition("?")[0] in listed
        [directory] = session.call("read_resource", f"zip://{name}.zip/docs/")["contents"]
        assert [entry["name"] for entry in json.loads(directory["text"])] == ["a.md"]
        assert {f"s3://shelf/{name}/{{+path}}", f"{folder}{{+path}}", f"zip://{name}.zip/{{+path}}"} <= set(templates)


def test_three_of_each_kind_are_served_on_stdio(server: S3Server, ssh: SFTPServer, archives: list[Path]) -> None:
    targets = [*(f"s3://shelf/{name}" for name in KINDS), *(ssh.url(ssh.files / name) for name in KINDS)]
    targets += [f"zip:{path}" for path in archives]
    options = ("--endpoint", server.endpoint, "--identity", ssh.identity, "--known-hosts", ssh.known_hosts)
    with sdk_session(*command("serve", *targets, *options), env=CREDENTIALS) as session:
        check(session, ssh)


def test_three_of_each_kind_are_served_over_http(
    server: S3Server, ssh: SFTPServer, archives: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    app = Server("stores")
    for name, path in zip(KINDS, archives, strict=True):
        app.add_provider(sources.open(f"s3://shelf/{name}", endpoint=server.endpoint))
        app.add_provider(sources.open(ssh.url(ssh.files / name), **ssh.options))
        app.add_provider(sources.open(f"zip:{path}"))
    with over_http(app) as origin, sdk_session(f"{origin}/mcp") as session:
        check(session, ssh)
