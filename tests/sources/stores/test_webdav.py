"""WebDAV: against a real server, and against one that is hostile."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.errors import ConfigError, MCPError, ProviderUnavailable, ResourceNotFound, ResourceTooLarge
from carrel.sources.stores import webdav
from carrel.testing import running
from carrel.testing.caller import Caller
from support.webdav_server import PASSWORD, USER, WebDAVServer

pytestmark = pytest.mark.slow


async def text(caller: Caller, uri: str) -> str:
    [contents] = await caller.read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


async def fails(source: Provider, why: str) -> str:
    with pytest.raises(ConfigError, match=why) as raised:
        async with running(source):
            pass
    return str(raised.value)


async def test_a_login_is_sent_and_a_refused_one_says_so(dav: WebDAVServer) -> None:
    (dav.folder / "login.txt").write_text("text")
    url = f"webdav://127.0.0.1:{dav.port}/locked/"
    await fails(sources.open(url), "user and password")
    assert "hunter2" not in await fails(sources.open(url, user=USER, password="hunter2"), "user and password")
    async with running(sources.open(url.replace("127", f"{USER}@127"), password=PASSWORD)) as source:
        assert await text(Caller(source), f"{url}login.txt") == "text"


async def test_a_folder_that_is_not_there_does_not_start(dav: WebDAVServer) -> None:
    await fails(sources.open(f"webdav://127.0.0.1:{dav.port}/open/none"), "cannot be listed")
    await fails(sources.open("webdav://127.0.0.1:1/open"), "127.0.0.1")


async def test_a_window_transfers_a_range(dav: WebDAVServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (dav.folder / "log.txt").write_bytes(b"".join(b"%07d\n" % number for number in range(500_000)))
    read: list[int] = []
    whole = webdav.read_body

    async def note(*arguments: object) -> bytes:
        data = await whole(*arguments)  # type: ignore[arg-type]
        read.append(len(data))
        return data

    monkeypatch.setattr(webdav, "read_body", note)
    base = f"webdav://127.0.0.1:{dav.port}/open/"
    async with running(sources.open(base)) as source:
        assert await text(Caller(source), f"{base}log.txt?tail=1") == "0499999\n"
        assert read == [65536, 65536]


@pytest.mark.parametrize(
    "target", ["webdav://ann:hunter2@host/", "webdavs://", "webdav:host", "webdav://host/?x", "webdav://host/../x"]
)
def test_a_url_that_names_no_server_is_refused(target: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sources.open(target)
    assert "hunter2" not in str(raised.value)


def test_a_password_is_not_sent_in_clear_over_a_network() -> None:
    with pytest.raises(ConfigError, match="webdavs"):
        sources.open("webdav://ann@files.example/", password="hunter2")


# A server that means harm


class Hostile:
    """WebDAV server whose answers are set by a test."""

    def __init__(self) -> None:
        self.port = 0
        self.listing = ""
        self.file = lambda: web.Response(text="file")
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if request.method == "PROPFIND":
            return web.Response(status=207, text=self.listing, content_type="application/xml")
        return self.file()

    def entries(self, *hrefs: str, length: int = 4) -> str:
        parts = "".join(
            f"<response><href>{href}</href><propstat><prop><getcontentlength>{length}</getcontentlength>"
            f"<resourcetype>{'<collection/>' * href.endswith('/')}</resourcetype></prop></propstat></response>"
            for href in hrefs
        )
        return f'<?xml version="1.0"?><multistatus xmlns="DAV:">{parts}</multistatus>'


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    server = Hostile()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()


async def test_entries_that_are_elsewhere_are_left_out(hostile: Hostile) -> None:
    hrefs = ("/mine/", "/mine/a.txt", "/mine/../up.txt", "/mine/%2e%2e/up.txt", "/other/b.txt", "/mine/d/deep.txt")
    hrefs += ("/mine/x%2Fy", "/mine//z", "http://elsewhere.example/mine/c.txt", "//elsewhere.example/mine/e.txt")
    hostile.listing = hostile.entries(*hrefs, "https://127.0.0.1/mine/f.txt", "http://[", "%zz")
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    async with running(sources.open(base)) as source:
        found = [item.uri.removeprefix(base) for item in await Caller(source).directory(base)]
        assert found == ["a.txt", "f.txt"]
        hostile.file = lambda: web.Response(status=302, headers={"Location": f"http://127.0.0.1:{hostile.port}/secret"})
        with pytest.raises(ProviderUnavailable):
            await Caller(source).read_resource(f"{base}a.txt")
        assert not any("secret" in asked for asked in hostile.asked)


async def test_entities_and_damaged_answers_do_no_harm(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    whole = hostile.entries("/mine/", "/mine/&x;.txt")
    for kind in (f'SYSTEM "file://{secret}"', '"&y;&y;&y;"'):
        lol = "".join(f'<!ENTITY {a} "{f"&{b};" * 20}">' for a, b in zip("yzabcdefg", "zabcdefgh", strict=True))
        hostile.listing = whole.replace("?>", f"?><!DOCTYPE m [<!ENTITY x {kind}>{lol}<!ENTITY h 'lol'>]>")
        try:
            async with running(sources.open(base)) as source:
                names = [item.name for item in await Caller(source).directory(base)]
                assert not any("secret" in name or "lol" in name for name in names)
        except ConfigError:
            pass
    monkeypatch.setattr(webdav, "MAX_ANSWER", 1000)
    hostile.listing = hostile.entries("/mine/", *(f"/mine/{number}" for number in range(50)))
    await fails(sources.open(base), "more than 1,000 bytes")
    monkeypatch.undo()
    hostile.listing = "<multistatus"
    await fails(sources.open(base), "damaged")


async def test_descriptions_have_a_limit_of_entries_and_elements(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    whole = hostile.entries("/mine/", *(f"/mine/{number:03}" for number in range(150)))
    monkeypatch.setattr(webdav, "MAX_ELEMENTS", 100)
    for more in ("<a/>" * 200, f"<response>{'<a/>' * 200}</response>", f"<response>{'<a>' * 300}{'</a>' * 300}"):
        hostile.listing = whole.replace("</multistatus>", f"{more}</multistatus>")
        await fails(sources.open(base), "more than 100 elements|damaged")
    hostile.listing = whole
    async with running(sources.open(base)) as source:
        assert len(await Caller(source).directory(base)) == 150
        monkeypatch.setattr(webdav, "MAX_LEVEL", 150)
        with pytest.raises(MCPError, match="more than 150 entries"):
            await Caller(source).directory(base)


async def test_a_file_is_not_unpacked(hostile: Hostile) -> None:
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    data = gzip.compress(bytes(50_000_000))
    hostile.listing = hostile.entries("/mine/", "/mine/a.gz", length=len(data))
    hostile.file = lambda: web.Response(body=data, headers={"Content-Encoding": "gzip"})
    async with running(sources.open(base)) as source:
        [contents] = await Caller(source).read_resource(f"{base}a.gz")
        assert contents.blob == data  # type: ignore[union-attr]


async def test_a_file_that_is_larger_than_it_claims_is_refused(hostile: Hostile) -> None:
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    hostile.listing = hostile.entries("/mine/", "/mine/a.txt", length=10)
    async with running(sources.open(base, max_size=1000)) as source:
        hostile.file = lambda: web.Response(body=b"x" * 1_000_000)
        with pytest.raises(ResourceTooLarge):
            await Caller(source).read_resource(f"{base}a.txt")
        hostile.file = lambda: web.Response(body=b"x" * 1000)
        assert await text(Caller(source), f"{base}a.txt") == "x" * 1000


@pytest.mark.parametrize("claims", ["bytes 1-100/20000", "bytes 0-8191/9000", "bytes 0-8191/20000", "pages 0-1/2", ""])
async def test_a_range_that_is_not_the_one_that_was_asked_for_is_refused(hostile: Hostile, claims: str) -> None:
    base = f"webdav://127.0.0.1:{hostile.port}/mine/"
    hostile.listing = hostile.entries("/mine/", "/mine/a.txt", length=20_000)
    async with running(sources.open(base)) as source:
        hostile.file = lambda: web.Response(status=206, body=b"x" * 100, headers={"Content-Range": claims})
        with pytest.raises(ProviderUnavailable):
            await text(Caller(source), f"{base}a.txt?bytes=0-99")


async def test_a_collection_is_not_read_as_a_file(dav: WebDAVServer) -> None:
    (dav.folder / "folder").mkdir()
    base = f"webdav://127.0.0.1:{dav.port}/open/"
    async with running(sources.open(base)) as source:
        with pytest.raises(ResourceNotFound):
            await Caller(source).read_resource(f"{base}folder")
        assert await text(Caller(source), f"{base}folder/") == "[\n]\n"
