"""HTTP+SSE: real sockets, and clients that behave well and badly.

https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from carrel import Context, Limits, Server
from carrel.errors import ConfigError
from carrel.transports.server import http_sse
from support.http_server import over_http
from support.raw_http_sse import PATIENCE, Listening, Response, exchange, listening
from support.servers import SERVERS

MEGABYTE = 1_000_000
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
SERVER = SERVERS / "sse.py"
JSON = ("Content-Type", "application/json")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Site:
    """A server over HTTP, and what its tools have seen."""

    def __init__(self) -> None:
        self.origin = ""
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.held = threading.Event()
        self.said = 0
        self.app = Server("site", version="1")
        self.app.resources.add("memo://big", "x" * MEGABYTE, name="big", mime_type="text/plain")
        self.app.resources.add("memo://text", "text", name="text", mime_type="text/plain")
        for tool in (self.echo, self.wait, self.shout, self.flood, self.ask, self.touch):
            self.app.tools.add(tool)

    async def echo(self, text: str) -> str:
        await asyncio.sleep(0)
        return text

    async def wait(self) -> str:
        self.begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def shout(self, times: int, ctx: Context) -> str:
        """Say much, and listen to whether there is somebody who reads it."""
        for number in range(times):
            sent = asyncio.ensure_future(self.await_(ctx.info([number, "x" * 100_000])))
            self.said = number + 1
            if not (await asyncio.wait([sent], timeout=0.5))[0]:
                self.held.set()
            await sent
        return "shouted"

    @staticmethod
    async def await_(sent: Any) -> None:
        await sent

    async def flood(self, ctx: Context) -> str:
        """Say much, and listen to nobody."""
        self.begun.set()
        try:
            for number in itertools.count():
                ctx.info("x" * 100_000)
                self.said = number + 1
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "never"

    async def ask(self, ctx: Context) -> str:
        return " ".join(str(root.uri) for root in await ctx.list_roots())

    async def touch(self) -> str:
        self.app.resources.changed("memo://text")
        return "touched"


@contextlib.contextmanager
def site(limits: Limits | None = None, **options: Any) -> Iterator[Site]:
    here = Site()
    here.app.limits = limits or Limits()
    with over_http(here.app, **{"sse_path": "/sse", **options}) as here.origin:
        yield here


@pytest.fixture(name="here")
def fixture_here() -> Iterator[Site]:
    with site() as here:
        yield here


def call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def read(id: Any, uri: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": uri}}


def text_of(reply: Any) -> str:
    return str(reply["result"]["content"][0]["text"])


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def is_gone(origin: str, endpoint: str) -> Response:
    """Post until there is nobody any more: the server learns a moment later that a client hung up."""
    async with asyncio.timeout(PATIENCE):
        while (response := await exchange(origin, "POST", endpoint, JSON, body=b'{"jsonrpc":"2.0"}')).status == 400:
            pass
    return response


# The stream and the endpoint


async def test_the_first_event_of_a_stream_is_the_relative_endpoint_uri_with_an_unguessable_id(here: Site) -> None:
    ids = set()
    for _ in range(3):
        async with listening(here.origin) as client:
            assert client.response.headers["content-type"] == "text/event-stream"
            assert "no-cache" in client.response.headers["cache-control"]
            assert client.response.headers["x-accel-buffering"] == "no"
            scheme, host, path, query, fragment = urlsplit(client.endpoint)
            assert (scheme, host, path, fragment) == ("", "", "/sse/messages", "")
            [id] = parse_qs(query)["sessionId"]
            assert len(id) >= 22  # characters of 6 bits: 128 bits and more
            ids.add(id)
    assert len(ids) == 3


async def test_a_posted_message_is_accepted_and_answered_on_the_stream(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open()
        assert await client.ask(PING) == PONG
        assert text_of(await client.ask(call("a", "echo", text="糖尿病\n\r\u2028 é"))) == "糖尿病\n\r\u2028 é"
        assert text_of(await client.ask(call(2, "echo", text="x" * MEGABYTE))) == "x" * MEGABYTE
        assert client.heard == []


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_every_revision_with_a_handshake_is_spoken(here: Site, revision: str) -> None:
    async with listening(here.origin) as client:
        assert (await client.open(revision))["protocolVersion"] == revision
        version = ("MCP-Protocol-Version", revision)
        await client.send(PING, version)
        assert await client.read() == PONG


async def test_a_client_without_an_accept_header_is_served(here: Site) -> None:
    async with listening(here.origin, ("User-Agent", "plain")) as client:
        await client.open()


async def test_notifications_that_belong_to_no_request_come_on_the_stream(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open()
        await client.ask({**read(1, "memo://text"), "method": "resources/subscribe"})
        await client.ask(call(2, "touch"))
        updated = client.heard or [await client.read()]
        assert updated[0]["method"] == "notifications/resources/updated"


async def test_the_server_asks_and_the_client_answers(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open(roots={})
        await client.send(call(1, "ask"))
        question = await client.read()
        assert question["method"] == "roots/list"
        roots = {"roots": [{"uri": "file:///home", "name": "home"}]}
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        assert text_of(await client.read()) == "file:///home"


async def test_a_batch_is_answered_as_one_message(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open("2025-03-26")
        await client.send([PING, call(2, "echo", text="two")])
        one, two = await client.read()
        assert one == PONG
        assert text_of(two) == "two"


async def test_a_request_is_cancelled_by_a_notification(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open()
        await client.send(call(1, "wait"))
        await happened(here.begun)
        await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await happened(here.cancelled)
        assert await client.ask({**PING, "id": 2}) == {**PONG, "id": 2}
        assert client.heard == []


async def test_clients_with_the_same_ids_get_their_own_answers(here: Site) -> None:
    async def talk(name: str) -> None:
        async with listening(here.origin) as client:
            await client.open()
            for id in range(5):
                assert text_of(await client.ask(call(id, "echo", text=f"{name} {id}"))) == f"{name} {id}"

    await asyncio.gather(*(talk(f"client {number}") for number in range(50)))


async def test_a_silent_stream_gets_comments() -> None:
    with site(keep_alive=0.05) as here:
        async with listening(here.origin) as client:
            assert [await client.read_event() for _ in range(3)] == [("comment", "")] * 3
            await client.open()


async def test_streamable_http_is_served_beside_it(here: Site) -> None:
    headers = [JSON, ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "resources/list")]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": STATELESS}}).encode()
    response = await exchange(here.origin, "POST", "/mcp", *headers, body=body)
    assert len(json.loads(response.body)["result"]["resources"]) == 2


# Where it is


async def test_http_sse_is_disabled_by_default() -> None:
    with site(sse_path=None) as here:
        assert (await exchange(here.origin, "GET", "/sse", ("Accept", "text/event-stream"))).status == 404
        assert (await exchange(here.origin, "POST", "/sse/messages", JSON, body=b"{}")).status == 404


@pytest.mark.parametrize("path", ["/", "/old/sse", "old/sse/"])
async def test_the_endpoint_of_http_sse_may_have_any_path(path: str) -> None:
    with site(sse_path=path) as here:
        async with listening(here.origin, path="/" + path.strip("/")) as client:
            await client.open()


@pytest.mark.parametrize(("path", "sse_path"), [("/mcp", "/mcp"), ("/mcp", "mcp/"), ("/", "/"), ("/a/messages", "/a")])
def test_two_endpoints_in_one_place_are_refused(path: str, sse_path: str) -> None:
    with pytest.raises(ConfigError, match="overlaps with"):
        Server("site").asgi(path, sse_path=sse_path)


async def test_where_it_is_mounted_the_endpoint_says_so() -> None:
    here = Site()
    mcp = here.app.asgi(sse_path="/sse")
    outer = Starlette(routes=[Mount("/a b", mcp)], lifespan=mcp.lifespan)

    class Mounted:
        """What ``over_http`` expects of a server."""

        def asgi(self) -> Any:
            return outer

    with over_http(Mounted()) as origin:  # type: ignore[arg-type]
        async with listening(origin, path="/a%20b/sse") as client:
            assert client.endpoint.startswith("/a%20b/sse/messages?sessionId=")
            await client.open()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/sse", "GET"),
        ("DELETE", "/sse", "GET"),
        ("HEAD", "/sse", "GET"),
        ("GET", "/sse/messages?sessionId=x", "POST"),
        ("DELETE", "/sse/messages?sessionId=x", "POST"),
    ],
)
async def test_other_methods_are_refused(here: Site, method: str, path: str, allowed: str) -> None:
    body = json.dumps(PING).encode() if method == "POST" else None
    response = await exchange(here.origin, method, path, JSON, body=body)
    assert response.status == 405
    assert response.headers["allow"] == allowed


async def test_a_client_that_tries_streamable_http_first_is_told_by_the_status_that_this_is_older(here: Site) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    accept = ("Accept", "application/json, text/event-stream")
    assert (await exchange(here.origin, "POST", "/sse", JSON, accept, body=body)).status == 405
    async with listening(here.origin) as client:
        await client.open("2025-11-25")


# What is refused


async def test_a_stateless_request_is_told_which_revisions_are_spoken_here(here: Site) -> None:
    async with listening(here.origin) as client:
        for opened in (False, True):
            reply = await client.ask({**read(7, "memo://text"), "params": {"uri": "memo://text", "_meta": STATELESS}})
            assert reply["error"]["code"] == -32022
            assert reply["error"]["data"]["requested"] == "2026-07-28"
            assert sorted(reply["error"]["data"]["supported"]) == HANDSHAKES
            if not opened:
                await client.open()
        assert await client.ask(PING) == PONG


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "\xff"])
async def test_a_header_that_names_another_revision_is_refused_with_where_to_go(here: Site, version: str) -> None:
    header = ("MCP-Protocol-Version", version)
    async with listening(here.origin) as client:
        await client.open()
        response = await client.post(PING, header)
        assert response.status == 400
        assert response.error.endswith("is not supported over HTTP+SSE: use /mcp")
        assert (await exchange(here.origin, "GET", "/sse", header)).status == 400
        assert await client.ask(PING) == PONG


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?", 400),
        ("?session=x", 400),
        ("?sessionId=", 404),
        ("?sessionId=x", 404),
        ("?sessionId=%FF%00", 404),
    ],
)
async def test_an_unknown_session_is_refused(here: Site, query: str, status: int) -> None:
    async with listening(here.origin):
        response = await exchange(here.origin, "POST", f"/sse/messages{query}", JSON, body=json.dumps(PING).encode())
        assert response.status == status
        assert response.error


async def test_two_session_ids_in_one_query_are_refused(here: Site) -> None:
    async with listening(here.origin) as one, listening(here.origin) as other:
        one.endpoint += "&" + other.endpoint.partition("?")[2]
        assert (await one.post(PING)).status == 400


async def test_sessions_of_one_transport_mean_nothing_to_the_other(here: Site) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    opened = await exchange(here.origin, "POST", "/mcp", JSON, body=body)
    foreign = opened.headers["mcp-session-id"]
    ping = json.dumps(PING).encode()
    assert (await exchange(here.origin, "POST", f"/sse/messages?sessionId={foreign}", JSON, body=ping)).status == 404
    async with listening(here.origin) as client:
        session = ("Mcp-Session-Id", client.endpoint.partition("=")[2])
        assert (await exchange(here.origin, "POST", "/mcp", JSON, session, body=ping)).status == 404


@pytest.mark.parametrize(
    ("header", "status"),
    [(("Host", "evil.example"), 403), (("Origin", "https://evil.example"), 403), (("Origin", "null"), 403)],
    ids=str,
)
async def test_every_route_checks_host_and_origin(here: Site, header: tuple[str, str], status: int) -> None:
    async with listening(here.origin) as client:
        await client.open()
        assert (await client.post(call(1, "wait"), header)).status == status
        async with listening(here.origin, header) as other:
            assert other.response.status == status
            assert other.endpoint == ""
        assert not here.begun.is_set()


async def test_pages_of_an_allowed_origin_may_read_the_stream_and_post() -> None:
    with site(allowed_origins=["https://app.example"]) as here:
        origin = ("Origin", "https://app.example")
        asked = [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
        async with listening(here.origin, origin) as client:
            assert client.response.headers["access-control-allow-origin"] == "https://app.example"
            preflight = await exchange(here.origin, "OPTIONS", client.endpoint, *asked)
            assert preflight.status == 204
            assert preflight.headers["access-control-allow-headers"] == "content-type"
            assert (await client.post(PING, origin)).headers["access-control-allow-origin"] == "https://app.example"


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "127.0.0.1"),
        ("Origin", "http://localhost"),
        ("Content-Type", "text/plain"),
        ("MCP-Protocol-Version", "2024-11-05"),
    ],
    ids=str,
)
async def test_every_route_refuses_headers_that_are_there_twice(here: Site, header: tuple[str, str]) -> None:
    async with listening(here.origin) as client:
        first = header if header[0] != "Host" else ("Host", here.origin.removeprefix("http://"))
        assert (await client.post(PING, first, header)).status == 400
        async with listening(here.origin, first, header) as other:
            assert other.response.status == 400


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
async def test_a_body_that_is_not_declared_as_json_is_refused(here: Site, kind: str) -> None:
    async with listening(here.origin) as client:
        body = json.dumps(PING).encode()
        response = await exchange(here.origin, "POST", client.endpoint, ("Content-Type", kind), body=body)
        assert response.status == 415


async def test_a_listener_that_does_not_accept_events_is_refused(here: Site) -> None:
    async with listening(here.origin, ("Accept", "application/json")) as client:
        assert client.response.status == 406


async def test_a_body_that_is_too_long_is_refused_before_it_is_read() -> None:
    with site(limits=Limits(max_message_bytes=1000)) as here:
        async with listening(here.origin) as client:
            await client.open()
            assert (await client.post(json.dumps(PING).encode().ljust(1000))).status == 202
            assert (await client.post(json.dumps(PING).encode().ljust(1001))).status == 413
            assert await client.read() == PONG
            assert await client.ask(PING) == PONG


async def test_a_body_that_never_comes_is_not_waited_for() -> None:
    with site(limits=Limits(body_timeout=0.1)) as here:
        async with listening(here.origin) as client:
            length = ("Content-Length", "100")
            assert (await exchange(here.origin, "POST", client.endpoint, JSON, length)).status == 408


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}', b"[" * 9999]
)
async def test_an_invalid_message_is_refused_in_the_response_and_the_session_goes_on(here: Site, body: bytes) -> None:
    async with listening(here.origin) as client:
        await client.open()
        response = await client.post(body)
        assert response.status == 400
        assert json.loads(response.body)["error"]["code"] in (-32700, -32600)
        assert await client.ask(PING) == PONG
        assert client.heard == []


async def test_a_refused_request_is_answered_on_the_stream(here: Site) -> None:
    async with listening(here.origin) as client:
        assert (await client.ask(read(1, "memo://text")))["error"]["code"] == -32602  # before the handshake
        await client.open()
        assert (await client.ask({**PING, "id": 2, "method": "nonesuch"}))["error"]["code"] == -32601
        await client.send(call(3, "wait"))
        assert (await client.ask({**PING, "id": 3}))["error"]["code"] == -32600  # in use


# The end


async def test_a_client_that_hangs_up_ends_its_session_and_cancels_what_is_in_work(here: Site) -> None:
    async with listening(here.origin) as client:
        await client.open()
        await client.ask({**read(1, "memo://text"), "method": "resources/subscribe"})
        await client.send(call(2, "wait"))
        await happened(here.begun)
        assert len(here.app.endpoint.runtime.hub) == 1
    await happened(here.cancelled)
    assert (await is_gone(here.origin, client.endpoint)).status == 404
    async with listening(here.origin) as other:
        await other.open()
        await other.ask(call(1, "touch"))
        assert len(here.app.endpoint.runtime.hub) == 1


async def test_no_more_clients_may_listen_than_there_may_be_sessions() -> None:
    with site(limits=Limits(max_sessions=2)) as here:
        async with listening(here.origin) as one:
            async with listening(here.origin) as two:
                async with listening(here.origin) as three:
                    assert three.response.status == 503
                    assert three.response.headers["retry-after"] == "10"
                await one.open()
                await two.open()
            assert (await is_gone(here.origin, two.endpoint)).status == 404
            async with listening(here.origin) as four:
                await four.open()


async def stopping(grace: float, seconds: float) -> list[Any]:
    """Stop a server while a call takes ``seconds``; return what came after that."""
    command = [sys.executable, str(SERVER), str(grace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = await asyncio.to_thread(process.stdout.readline)
            async with listening(url.strip().removesuffix("/mcp")) as client, listening(client.origin) as idle:
                await client.open()
                request = call(1, "wait", seconds=seconds)
                request["params"]["_meta"] = {"progressToken": 1}
                await client.send(request)
                assert (await client.read())["method"] == "notifications/progress"
                process.send_signal(signal.SIGTERM)
                assert await idle.read() is None
                heard = [await client.read()]
                while heard[-1] is not None:
                    heard.append(await client.read())
            await asyncio.to_thread(process.wait, PATIENCE)
            return heard
        finally:
            process.kill()


async def test_a_server_that_stops_answers_what_is_in_work_and_ends_the_streams() -> None:
    answer, end = await stopping(grace=60, seconds=0.5)
    assert text_of(answer) == "waited"
    assert end is None


async def test_a_server_that_stops_does_not_wait_for_long() -> None:
    assert await stopping(grace=0.2, seconds=1000) == [None]


# Clients that do not read


async def test_a_function_that_waits_for_a_reader_that_stalls_is_held_and_nothing_is_lost(here: Site) -> None:
    async with listening(here.origin) as client, listening(here.origin) as other:
        await client.open()
        await client.send(call(1, "shout", times=300))
        await happened(here.held)
        assert here.said * 100_000 < 20 * MEGABYTE  # of 30, most of them in the buffers of the sockets
        await other.open()
        assert text_of(await other.ask(call(1, "echo", text="served"))) == "served"
        assert text_of(await client.answer_to(1)) == "shouted"
        assert [message["params"]["data"][0] for message in client.heard] == list(range(300))


async def test_a_client_that_asks_and_does_not_read_is_refused_until_it_does(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_sse, "MAX_WAITING", MEGABYTE)
    monkeypatch.setattr(http_sse, "PATIENCE", 0.2)
    async with listening(here.origin) as client, listening(here.origin) as other:
        await client.open()
        for id in itertools.count():
            response = await client.post(read(id, "memo://big"))
            if response.status != 202:
                break
            assert id < 30
        assert response.status == 429
        assert response.headers["retry-after"]
        assert "Read the stream first" in response.error
        await other.open()
        assert await other.ask(PING) == PONG
        assert [(await client.read())["id"] for _ in range(id)] == list(range(id))
        assert await client.ask(PING) == PONG


async def test_a_client_that_asks_faster_than_it_reads_has_to_wait_and_gets_everything(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_sse, "MAX_WAITING", MEGABYTE)

    async def ask(client: Listening) -> None:
        for id in range(60):
            await client.send(read(id, "memo://big"))

    async with listening(here.origin) as client:
        await client.open()
        asking = asyncio.create_task(ask(client))
        for id in range(60):
            answer = await client.read()
            assert answer["id"] == id
            assert len(answer["result"]["contents"][0]["text"]) == MEGABYTE
        await asking


async def test_a_client_for_which_too_much_waits_is_given_up(here: Site) -> None:
    here.app.endpoint.budget.share = MEGABYTE
    async with listening(here.origin) as client:
        await client.open()
        await client.ask({**read(1, "memo://text"), "method": "resources/subscribe"})
        await client.send(call(2, "flood"))
        await happened(here.cancelled)
        assert (await client.post(PING)).status == 404
        assert len(here.app.endpoint.runtime.hub) == 0
        came, client.given_up = 0, True
        while (message := await client.read()) is not None:  # what was on its way, and then the end
            assert message["method"] == "notifications/message"
            came += 1
        assert came < here.said


async def test_a_reader_that_reads_is_not_given_up_however_much_is_said(here: Site) -> None:
    here.app.endpoint.budget.share = here.app.endpoint.budget.total = 1000 * MEGABYTE
    async with listening(here.origin) as client:
        await client.open()
        await client.send(call(1, "flood"))
        for _ in range(1000):
            assert (await client.read())["method"] == "notifications/message"
        assert not here.cancelled.is_set()


def test_changes_of_the_same_thing_wait_once_for_a_reader_that_stalls() -> None:
    async def change() -> int:
        listener = http_sse.SSEClient(Server("site").endpoint, "id", "client", "/")
        listener.attach()
        for _ in range(1000):
            listener.send(b"{}", key="the same")
        return listener.take().count(b"event: message")

    assert asyncio.run(change()) == 1


def test_http_sse_is_not_imported_unless_it_is_enabled() -> None:
    code = "import sys, carrel.transports.server.http; sys.exit('carrel.transports.server.http_sse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE, check=False).returncode == 0
