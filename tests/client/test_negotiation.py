"""Finding out what a server speaks, with servers that say so in every way there is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from carrel import Client
from carrel.errors import HTTPStatusError, MCPError, PeerError, ProtocolError, RequestTimeout
from carrel.transports.client.options import ProcessOptions
from support.http_server import over_http
from support.servers import SERVERS
from support.servers.demo import LATEST, MARCH, NOVEMBER, OLDEST, make_shelf, served

pytestmark = pytest.mark.slow


ODD = str(SERVERS / "deviating.py")


async def meet(way: str, log: Path, **options: Any) -> tuple[str, list[str]]:
    """Connect to an odd server: the revision that is spoken, and the methods that it was sent."""
    async with Client([sys.executable, ODD, way, str(log)], **{"patience": 60.0, **options}) as client:
        await client.ping()
        revision = client.revision
    return revision, log.read_text().split()


GREETING = ["initialize", "notifications/initialized", "ping"]


@pytest.mark.parametrize(
    ("way", "revision", "methods"),
    [
        ("unknown method", NOVEMBER, ["server/discover", *GREETING]),
        ("garbage", NOVEMBER, ["server/discover", *GREETING]),
        ("nonsense", NOVEMBER, ["server/discover", *GREETING]),
        ("names older", NOVEMBER, ["server/discover", *GREETING]),
        ("discovers older", NOVEMBER, ["server/discover", *GREETING]),
        ("older", MARCH, ["server/discover", *GREETING]),
        ("crash", NOVEMBER, ["server/discover", *GREETING]),
        ("slow", LATEST, ["server/discover", "server/discover"]),
    ],
)
async def test_the_revision_is_found_out(way: str, revision: str, methods: list[str], tmp_path: Path) -> None:
    assert await meet(way, tmp_path / "log") == (revision, methods)


async def test_a_server_that_says_nothing_is_greeted_after_a_while(tmp_path: Path) -> None:
    assert await meet("silent", tmp_path / "log", patience=0.2) == (NOVEMBER, ["server/discover", *GREETING])


async def test_a_server_that_was_only_slow_is_asked_once_more(tmp_path: Path) -> None:
    revision, methods = await meet("stateless only", tmp_path / "log", patience=0.2)
    assert revision == LATEST
    assert methods[:3] == ["server/discover", "initialize", "server/discover"]


@pytest.mark.parametrize(
    ("way", "options", "error", "told"),
    [
        ("names none of ours", {}, ProtocolError, "2099-01-01"),
        ("unheard of", {}, ProtocolError, "1999-01-01"),
        ("wants more", {}, PeerError, "sampling"),
        ("unknown method", {"revision": LATEST}, PeerError, "Method not found"),
        ("names older", {"revision": LATEST}, ProtocolError, NOVEMBER),
        ("older", {"revision": OLDEST}, ProtocolError, MARCH),
        ("silent", {"revision": LATEST, "timeout": 0.3}, RequestTimeout, "within 0.3 seconds"),
    ],
)
async def test_failed_negotiation_raises_an_error_with_the_reason(
    way: str, options: dict[str, Any], error: type[MCPError], told: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=told):
        await meet(way, tmp_path / "log", **options)


async def test_the_negotiated_revision_is_remembered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await meet("unknown method", log)
    log.unlink()
    assert await meet("unknown method", log) == (NOVEMBER, GREETING)


async def test_an_outdated_negotiated_revision_is_negotiated_again() -> None:
    app = make_shelf()
    revisions = app.endpoint.description.revisions
    with over_http(app) as origin:
        app.endpoint.description.revisions = {NOVEMBER: revisions[NOVEMBER]}
        async with Client(f"{origin}/mcp") as client:
            assert client.revision == NOVEMBER
        app.endpoint.description.revisions = {LATEST: revisions[LATEST]}
        async with Client(f"{origin}/mcp") as client:
            assert client.revision == LATEST
        app.endpoint.description.revisions = {NOVEMBER: revisions[NOVEMBER]}
        async with Client(f"{origin}/mcp") as client:
            assert client.revision == NOVEMBER


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_a_server_that_is_unavailable_for_a_moment_is_not_taken_for_an_older_one(status: int) -> None:
    app = make_shelf().asgi()
    requests = 0

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        nonlocal requests
        if scope["type"] == "http":
            requests += 1
            if requests == 1:
                await send({"type": "http.response.start", "status": status, "headers": [(b"retry-after", b"1")]})
                await send({"type": "http.response.body", "body": b"busy"})
                return
        await app(scope, receive, send)

    busy: Any = SimpleNamespace(asgi=lambda: proxy)
    with over_http(busy) as origin:
        with pytest.raises(HTTPStatusError, match=str(status)):
            await Client(f"{origin}/mcp").__aenter__()
        assert requests == 1
        async with Client(f"{origin}/mcp") as client:
            assert client.revision == LATEST


async def test_a_server_that_changes_its_mind_while_it_is_used_is_followed() -> None:
    app = make_shelf()
    revisions = app.endpoint.description.revisions
    async with served("http", app) as client:
        assert client.revision == LATEST
        app.endpoint.description.revisions = {NOVEMBER: revisions[NOVEMBER]}
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"
        assert client.revision == NOVEMBER


@pytest.mark.parametrize("revision", [None, OLDEST])
async def test_a_server_of_the_older_transport_is_found(revision: str | None) -> None:
    app = make_shelf()
    app.endpoint.description.revisions = {OLDEST: app.endpoint.description.revisions[OLDEST]}
    with over_http(app, sse_path="/sse") as origin:
        async with Client(f"{origin}/sse", revision=revision) as client:
            assert client.revision == OLDEST
            assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"
            async with client.watch("memo://1") as changes:
                await client.call_tool("touch", {"number": 1})
                assert (await asyncio.wait_for(anext(changes), 60)).uri == "memo://1"
        async with Client(f"{origin}/sse") as client:  # which knows already
            assert (await client.read_resource("memo://2")).contents[0].text == "memo 2"


async def test_a_page_that_is_no_server_is_said_with_its_status() -> None:
    with over_http(make_shelf()) as origin, pytest.raises(MCPError, match="The MCP endpoint is /mcp"):
        async with Client(f"{origin}/nothing-here"):
            pass


async def test_one_command_in_two_folders_is_two_servers(tmp_path: Path) -> None:
    for name, way in (("old", "unknown method"), ("new", "slow")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.py").write_text(
            Path(ODD).read_text().replace("way, path = sys.argv[1:]", f"way, path = {way!r}, 'log'")
        )
    revisions = []
    for name in ("old", "new", "old"):
        async with Client([sys.executable, "server.py"], process=ProcessOptions(cwd=tmp_path / name)) as client:
            revisions.append(client.revision)
            assert str(tmp_path / name) in client.session.server_name
    assert revisions == [NOVEMBER, LATEST, NOVEMBER]
