"""Servers that ignore case: rules by path hold there, whatever the spelling."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unicodedata import normalize

import asyncssh
import pytest

from carrel import Client, Server, sources
from carrel.catalog.provider import Provider
from carrel.catalog.rules import READING
from carrel.errors import MCPError, ResourceForbidden, ResourceNotFound
from carrel.sources.stores import spelling
from carrel.sources.stores.spelling import Spelling
from carrel.sources.stores.store import ObjectNotFound, StoreEntry
from carrel.testing import running
from carrel.testing.caller import Caller
from carrel.types import Principal, Rule, Rules, View
from carrel.uri.parse import encode_path
from support.folding import folded
from support.sftp_server import SFTPServer
from support.webdav_server import WebDAVServer

slow = pytest.mark.slow

FILES = ("Docs/Deep/Api.md", ".env", "Secret/Key.txt", "2026/01.txt", "Größe.txt", "Ä/b.txt", "笔记/が.md")
OTHERS = (
    *("docs/deep/api.md", "Docs/deep/Api.md", "DOCS/DEEP/API.MD", ".ENV", ".Env", "secret/Key.txt", "Secret/key.TXT"),
    *("GRößE.txt", "ä/b.txt", *(normalize("NFD", name) for name in ("Größe.txt", "Ä/b.txt", "笔记/が.md"))),
)
DIRECTORIES = ("docs/", "SECRET/", "Docs/DEEP/", "ä/", normalize("NFD", "Ä/"))


class Folding(asyncssh.SFTPServer):
    """Files of a folder, whose names are taken in any case."""

    root = ""
    echoes = True
    """Whether the real path of a file is spelled as it was asked for, as on Windows."""

    def map_path(self, path: bytes) -> bytes:
        mapped = super().map_path(path)
        return os.fsencode(folded(os.fsdecode(mapped), self.root)) if mapped.startswith(self.root.encode()) else mapped

    def realpath(self, path: bytes) -> bytes:
        found = super().realpath(path)
        assert isinstance(found, bytes)
        return os.path.normpath(path) if self.echoes and path.startswith(b"/") else found


@asynccontextmanager
async def sftp(folder: Path, ssh: SFTPServer, *, echoes: bool) -> AsyncIterator[tuple[Provider, str]]:
    made = type("Made", (Folding,), {"root": str(folder), "echoes": echoes})
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(ssh.folder / "host")],
        authorized_client_keys=str(ssh.folder / "authorized"),
        sftp_factory=made,
    )
    async with listener:
        port = listener.get_port()
        known = folder.parent / f"known-{port}"
        kind, key, *_ = (ssh.folder / "host.pub").read_text().split()
        known.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
        url = f"sftp://{ssh.user}@127.0.0.1:{port}{folder}"
        source = sources.open(url, identity=ssh.identity, known_hosts=str(known))
        yield source, f"sftp://127.0.0.1:{port}{folder}/"


@pytest.fixture(params=["webdav", "sftp, real paths as asked for", "sftp, real paths as on disk"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Provider, str]]:
    """Give a source that is not started, and the base of its URIs."""
    if request.param == "webdav":
        dav: WebDAVServer = request.getfixturevalue("dav")
        folder = Path(tempfile.mkdtemp(dir=dav.folder))
        fill(folder)
        base = f"webdav://127.0.0.1:{dav.port}/folding/{folder.name}/"
        yield sources.open(base), base
        return
    folder = (tmp_path / "files").resolve()
    folder.mkdir()
    fill(folder)
    ssh: SFTPServer = request.getfixturevalue("ssh")
    async with sftp(folder, ssh, echoes="asked" in request.param) as found:
        yield found


def fill(folder: Path) -> None:
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def uri(base: str, path: str) -> str:
    return base + encode_path(path.split("/"))


async def text(caller: Caller, uri: str) -> str:
    [contents] = await caller.read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


@slow
@pytest.mark.parametrize("known", [False, True], ids=["at once", "after a list"])
async def test_names_are_read_only_as_the_server_lists_them(opened: tuple[Provider, str], known: bool) -> None:
    source, base = opened
    async with running(source):
        caller = Caller(source)
        if known:
            assert {item.uri for item in await caller.resources()} == {base, *(uri(base, name) for name in FILES)}
        for name in OTHERS:
            for query in ("", "?bytes=0-1"):
                with pytest.raises((ResourceNotFound, ResourceForbidden)):
                    await caller.read_resource(uri(base, name) + query)
        for name in DIRECTORIES:
            with pytest.raises((ResourceNotFound, ResourceForbidden)):
                await caller.directory(uri(base, name))
            with pytest.raises((ResourceNotFound, ResourceForbidden)):
                await caller.read_resource(uri(base, name))
        for name in FILES:
            assert await text(caller, uri(base, name)) == name
        assert (await caller.complete(f"{base}{{+path}}", "path", "secret/")).values == []
        assert (await caller.complete(f"{base}{{+path}}", "path", "Secret/")).values == ["Secret/Key.txt"]


class Gate:
    """All may read all but ``Secret/`` and ``.env``."""

    def __init__(self, base: str) -> None:
        denied = (f"{base}Secret/**", f"{base}.env")
        self.rules = Rules([Rule(f"{base}**", READING), *(Rule(one, READING, allow=False) for one in denied)])

    def view(self, principal: Principal | None) -> View:
        return self.rules.view({})


@slow
async def test_what_is_denied_is_not_read_in_another_spelling(opened: tuple[Provider, str]) -> None:
    source, base = opened
    app = Server("shelf", gate=Gate(base))
    app.add_provider(source)
    async with Client(app) as client:
        listed = {item.uri for item in await client.list_resources()}
        assert listed == {base, *(uri(base, name) for name in FILES if name not in ("Secret/Key.txt", ".env"))}
        assert (await client.read_resource(uri(base, "Docs/Deep/Api.md"))).contents
        for name in ("Secret/Key.txt", "secret/Key.txt", "SECRET/KEY.TXT", "Secret/", "secret/", ".env", ".ENV"):
            with pytest.raises(MCPError):
                await client.read_resource(uri(base, name))
            with pytest.raises(MCPError):
                await client.read_resource(uri(base, name) + "?bytes=0-1")


class Directory:
    """Functions of a server with these names, which counts what it is asked."""

    def __init__(self, *names: str, fold: Callable[[str], str] = str) -> None:
        self.names = names
        self.fold = fold
        self.asked: list[str] = []
        self.listed: list[str] = []

    async def exists(self, key: str) -> bool:
        self.asked.append(key)
        return self.fold(key) in map(self.fold, self.names)

    async def entries(self, level: str) -> list[StoreEntry]:
        self.listed.append(level)
        return [StoreEntry(name) for name in self.names]

    async def check(self, spelling: Spelling, key: str) -> None:
        await spelling.check(key, self.exists, self.entries)


async def test_a_server_that_tells_names_by_their_case_is_asked_once_for_each_and_lists_nothing() -> None:
    server = Directory("srv/docs/", "srv/docs/a.md", "srv/docs/2026-01", "srv/docs/笔记")
    checked = Spelling(len("srv/"))
    for _ in range(3):
        for key in server.names:
            await server.check(checked, key)
    assert (server.asked, server.listed) == (["srv/DOCS/", "srv/docs/A.MD"], [])


async def test_names_that_were_listed_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Directory("a.md", "b.md", fold=str.casefold)
    checked = Spelling(0)
    checked.learn(["a.md", "b.md"])
    await server.check(checked, "a.md")
    assert server.asked == []
    with pytest.raises(ObjectNotFound):
        await server.check(checked, "A.md")
    monkeypatch.setattr(spelling, "FRESH", -1.0)
    checked.learn(["a.md"])
    await server.check(checked, "a.md")
    assert len(server.asked) == 2


@pytest.mark.parametrize("name", ["a.md.", "a.md ", "A~1.MD", "12.", "123456~1", "12::$DATA", "Я", "é", "e\u0301"])
async def test_names_that_windows_takes_for_others_are_looked_up_in_the_list(name: str) -> None:
    class Windows(Directory):
        async def exists(self, key: str) -> bool:
            return True

    with pytest.raises(ObjectNotFound):
        await Windows("a.md", "12").check(Spelling(0), name)
    await Windows("a.md", "12", name).check(Spelling(0), name)


async def test_no_more_names_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelling, "MAX_KNOWN", 10)
    checked = Spelling(0)
    checked.learn(f"{number}.md" for number in range(25))
    assert len(checked._known) <= 10
