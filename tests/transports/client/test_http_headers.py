"""The headers that the client's end of Streamable HTTP sends, and sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.errors import (
    ConfigError,
    SessionExpired,
    TransportError,
)
from carrel.protocol.revisions import REVISIONS
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from support.http_scripts import HANDSHAKE, HELLO, SESSION, client_of, never, session
from support.scripted_http_server import Asked, scripted

FIRST = next(name for name in reversed(REVISIONS) if REVISIONS[name].resumable)


async def test_headers_of_a_stateless_request() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result(mcp_session_id="ignored")

    async with scripted(answer) as server, client_of(server, headers={"X-Mine": "ö", "User-Agent": "me"}) as client:
        id = client.start_tool("größe", {"Mcp-Param-Region": "us"})
        await client.recorder.result(id)
        await client.ask("list_resources", PageParams())
        first, second = (asked.headers for asked in server.asked)
        assert first["accept"] == "application/json, text/event-stream"
        assert first["content-type"] == "application/json"
        assert first["mcp-protocol-version"] == client.revision.name
        assert first["mcp-method"] == "tools/call"
        assert first["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
        assert first["mcp-param-region"] == "us"
        assert first["x-mine"] == "ö"
        assert first["user-agent"] == "me"
        assert second["mcp-method"] == "resources/list"
        assert not {"mcp-name", "mcp-param-region", "mcp-session-id"} & set(second)
    assert [asked.method for asked in server.asked] == ["POST", "POST"]  # nothing is said at the end


@pytest.mark.parametrize("revision", [FIRST, HANDSHAKE])
async def test_headers_of_a_session(revision: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    script = session(answer, revision=revision)
    async with scripted(script) as server, client_of(server, revision) as client:
        await client.shake_hands()
        await client.ask("list_resources", PageParams())
        while not server.by("GET"):
            await asyncio.sleep(0)
    first, *others = [asked.headers for asked in server.asked]
    assert not {"mcp-session-id", "mcp-protocol-version"} & set(first)
    assert [asked.method for asked in server.asked].count("DELETE") == 1
    for headers in others:
        assert headers["mcp-session-id"] == SESSION
        assert headers.get("mcp-protocol-version") == (revision if REVISIONS[revision].version_header else None)
        assert not {"mcp-method", "mcp-name"} & set(headers)
    assert server.by("GET")[0].headers["accept"] == "text/event-stream"


async def test_a_users_headers_do_not_replace_those_of_the_protocol() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    mine = {
        "accept": "x",
        "Content-Type": "x",
        "MCP-Protocol-Version": "x",
        "mcp-session-id": "x",
        "Host": "x",
        "Mcp-Param-Region": "x",
        "content-length": "1",
        "Transfer-Encoding": "chunked",
        "Cookie": "a=b",
    }
    async with scripted(answer) as server, client_of(server, headers=mine) as client:
        await client.ask("list_resources", PageParams())
    (asked,) = server.asked
    assert asked.headers["cookie"] == "a=b"
    assert "x" not in asked.headers.values()


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "\x00"}, {"": "x"}, {"a": 1}, {"ö": "x"}])
def test_a_header_that_cannot_be_sent_is_refused_at_once(headers: Any) -> None:
    with pytest.raises(ConfigError):
        HTTPTransport("http://127.0.0.1/mcp", HTTPOptions(headers=headers))


@pytest.mark.parametrize(
    "url", ["", "mcp", "ftp://x/", "http://", "file:///etc/passwd", "http://u:p@x/", "http://[", "http://x:99999/"]
)
def test_a_url_that_makes_no_sense_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        HTTPTransport(url)


@pytest.mark.parametrize("id", ["with space", "ö", ""])
async def test_a_session_id_that_is_not_visible_ascii_is_refused(id: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result(HELLO, mcp_session_id=id)

    async with scripted(answer) as server, client_of(server, HANDSHAKE) as client:
        with pytest.raises(TransportError, match="visible ASCII"):
            await client.shake_hands()
        assert server.asked


async def test_a_404_in_a_session_means_that_it_is_over() -> None:
    async def gone(asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "gone"}}, status=404)

    async with scripted(session(gone)) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        with pytest.raises(SessionExpired):
            await client.ask("list_resources", PageParams())
        await client.shake_hands()
        again = [asked for asked in server.by("POST") if asked.message.get("method") == "initialize"][1]
        assert "mcp-session-id" not in again.headers


async def test_the_server_hears_that_the_handshake_is_complete_before_anything_else() -> None:
    told = asyncio.Event()
    served: list[str] = []

    async def serve(asked: Asked) -> None:
        method = "" if asked.method != "POST" else asked.message["method"]
        if method == "notifications/initialized":
            served.append("begun")
            await told.wait()
            await asked.respond(202)
            served.append("complete")
        elif method == "resources/list":
            served.append(method)
            await asked.result()
        else:
            await session(never)(asked)

    async with scripted(serve) as server, client_of(server, HANDSHAKE) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        while not served:
            await asyncio.sleep(0)
        assert len(server.asked) == 2
        told.set()
        await client.recorder.result(id)
        assert served == ["begun", "complete", "resources/list"]
