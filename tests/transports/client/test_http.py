"""The client's end of Streamable HTTP, with our own server."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from carrel.errors import ConfigError, MCPError, PeerError, SessionExpired
from carrel.protocol.methods import LIST_RESOURCES
from carrel.protocol.revisions import REVISIONS
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.http_base import load_endpoint, probe
from carrel.transports.client.http_sse import HTTPSSETransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from carrel.wire.resources import ReadResourceParams
from support.raw_http import Site
from support.scripted_http_server import Asked, scripted
from support.transport_recorder import Asker

STATELESS = [name for name, revision in REVISIONS.items() if revision.stateless]
HANDSHAKE = [name for name, revision in REVISIONS.items() if not revision.stateless]
NEWEST_HANDSHAKE = HANDSHAKE[0]


def url_of(site: Site) -> str:
    return f"http://{site.host}/mcp"


def asker(site: Site, revision: str = STATELESS[0], **options: Any) -> Asker:
    return Asker(HTTPTransport(url_of(site), HTTPOptions(**options)), revision)


@pytest.mark.parametrize("revision", STATELESS)
async def test_a_request_of_a_stateless_revision_is_answered(site: Site, revision: str) -> None:
    async with asker(site, revision) as client:
        result = await client.ask("read_resource", ReadResourceParams(uri="memo://text"))
        assert result["contents"][0]["text"] == "text"


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_session_begins_and_ends(site: Site, shop: Any, revision: str) -> None:
    async with asker(site, revision) as client:
        assert (await client.shake_hands())["protocolVersion"] == revision
        result = await client.ask("read_resource", ReadResourceParams(uri="memo://text"))
        assert result["contents"][0]["text"] == "text"
        session = client.transport._session
        assert session
    reply = await site.request("GET", {"Mcp-Session-Id": session, "Accept": "text/event-stream"})
    assert reply.status == 404


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_answer_that_comes_as_a_stream_is_handed_on_message_by_message(
    site: Site, shop: Any, revision: str
) -> None:
    async with asker(site, revision) as client:
        if not client.revision.stateless:
            await client.shake_hands()
        id = client.start_tool("steps", n=3)
        await client.recorder.until(lambda: len(client.recorder.notices("notifications/progress")) == 3)
        assert client.recorder.answer(id) is None
        shop.go.set()
        assert (await client.recorder.result(id))["content"][0]["text"] == "done"
        assert len(client.recorder.notices("notifications/progress")) == 4


async def test_a_name_that_is_no_plain_ascii_is_encoded_in_its_header(site: Site, shop: Any) -> None:
    shop.app.resources.add("memo://größe", "groß", name="Größe")
    async with asker(site) as client:
        result = await client.ask("read_resource", ReadResourceParams(uri="memo://größe"))
        assert result["contents"][0]["text"] == "groß"


async def test_an_error_with_a_status_says_which(site: Site) -> None:
    async with asker(site) as client:
        message = client.connection.request(LIST_RESOURCES, PageParams())
        message.data = message.data.replace(b"resources/list", b"resources/lost")
        message.method = "resources/lost"
        client.transport.send(message)
        error = await client.recorder.failure(message.id)
        assert isinstance(error, PeerError)
        assert (error.code, error.status) == (-32601, 404)


async def test_a_session_that_is_gone_is_told_and_a_new_one_can_be_begun(site: Site) -> None:
    async with asker(site, NEWEST_HANDSHAKE) as client:
        await client.shake_hands()
        await site.request(
            "DELETE", {"Mcp-Session-Id": client.transport._session, "MCP-Protocol-Version": NEWEST_HANDSHAKE}
        )
        with pytest.raises(SessionExpired):
            await client.ask("list_resources", PageParams())
        await client.shake_hands()
        assert await client.ask("list_resources", PageParams())


async def test_a_thousand_requests_are_answered_at_a_time(site: Site) -> None:
    async with asker(site) as client:
        ids = [client.start("read_resource", ReadResourceParams(uri="memo://text")) for _ in range(1000)]
        for id in ids:
            await client.recorder.result(id)


async def test_letting_go_of_a_stateless_request_cancels_it(site: Site, shop: Any) -> None:
    async with asker(site) as client:
        id = client.start_tool("wait")
        await shop.begun.wait()
        assert client.transport.cancels
        client.transport.abandon(id)
        await shop.cancelled.wait()
        assert client.recorder.failures == {}


async def test_a_closed_transport_fails_what_it_is_given(site: Site) -> None:
    client = asker(site)
    async with client:
        pass
    with pytest.raises(MCPError):
        await client.ask("list_resources", PageParams())
    await client.transport.close()


async def test_the_other_side_of_a_long_stream_is_asked_by_tcp_whether_it_is_there() -> None:
    async def stream(asked: Asked) -> None:
        await asked.stream(b": hello\n\n")

    async with scripted(stream) as server:
        place = load_endpoint()(server.url, HTTPOptions(connections=1, max_message=1000, connect_timeout=5))
        place.start()
        async with await place.ask("GET", {}) as response:
            connection = response.connection.transport.get_extra_info("socket")
            assert not connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            probe(response)
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await place.close()


def test_without_aiohttp_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "carrel.transports.client.http_session", raising=False)
    for kind in (HTTPTransport, HTTPSSETransport):
        with pytest.raises(ConfigError, match=r"pip install 'carrel\[client\]'"):
            kind("http://127.0.0.1/mcp")


def test_aiohttp_is_loaded_when_it_is_needed() -> None:
    program = "import sys, carrel.transports.client.http_sse; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
