"""Middleware around calls: its order, what it sees, and what it can change, on every transport."""

import asyncio
import json
import urllib.request

import pytest

from carrel import Client, Server
from carrel.errors import InvalidParams, PeerError, ResourceNotFound
from carrel.wire.content import TextContent
from carrel.wire.resources import ListResourcesResult, Resource
from carrel.wire.tools import CallToolResult
from support.http_server import over_http

OLDEST, SESSION, NEWEST = "2024-11-05", "2025-11-25", "2026-07-28"


def make_app() -> Server:
    app = Server("s")
    app.seen = []
    app.resources.add("note://1", "one")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return app


@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_the_first_middleware_is_the_outermost(revision):
    app = make_app()

    def record(name):
        async def middleware(call, next):
            app.seen.append(f"{name} in")
            try:
                return await next(call)
            finally:
                app.seen.append(f"{name} out")

        return middleware

    app.middleware(record("one"))
    app.middleware("tools/call")(record("tools"))
    app.middleware(record("two"))
    async with Client(app, revision=revision) as client:
        app.seen.clear()
        await client.call_tool("add", {"a": 1, "b": 2})
        calls = app.seen[-6:]
        assert calls == ["one in", "tools in", "two in", "two out", "tools out", "one out"]
        app.seen.clear()
        await client.read_resource("note://1")
        assert app.seen == ["one in", "two in", "two out", "one out"]


async def test_middleware_sees_the_method_parameters_and_headers_of_a_call():
    app = make_app()

    @app.middleware("resources/read")
    async def look(call, next):
        app.seen.append((call.method, call.params.uri, call.principal, (call.headers or {}).get(b"x-trace")))
        return await next(call)

    async with Client(app, revision=NEWEST) as client:
        await client.read_resource("note://1")
    with over_http(app) as origin:
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"uri": "note://1", "_meta": meta}
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": NEWEST,
            "mcp-method": "resources/read",
            "mcp-name": "note://1",
            "x-trace": "abc",
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params}).encode()
        request = urllib.request.Request(f"{origin}/mcp", body, headers)
        with await asyncio.to_thread(urllib.request.urlopen, request) as response:
            assert response.status == 200
    assert app.seen == [
        ("resources/read", "note://1", None, None),
        ("resources/read", "note://1", None, b"abc"),
    ]


@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_middleware_can_change_results_that_are_encoded_already(revision):
    app = make_app()

    @app.middleware("resources/list")
    async def more(call, next):
        result = await next(call)
        assert isinstance(result, ListResourcesResult)
        return ListResourcesResult(resources=[*result.resources, Resource("note://2", "added")])

    @app.middleware("tools/call")
    async def instead(call, next):
        return CallToolResult(content=[TextContent("from the middleware")])

    async with Client(app, revision=revision) as client:
        for _ in range(2):
            assert [resource.uri for resource in await client.list_resources()] == ["note://1", "note://2"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "from the middleware"


@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_an_error_of_middleware_is_the_response(revision):
    app = make_app()

    @app.middleware("resources/read", "tools/call")
    async def refuse(call, next):
        if call.method == "tools/call":
            raise InvalidParams("Invalid params: not today", {"why": "closed"})
        raise ResourceNotFound(call.params.uri)

    async with Client(app, revision=revision) as client:
        with pytest.raises(PeerError) as raised:
            await client.call_tool("add", {"a": 1, "b": 2})
        assert (raised.value.code, raised.value.message) == (-32602, "Invalid params: not today")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://1")


async def test_middleware_can_handle_an_error_of_the_handler():
    app = make_app()

    @app.middleware("resources/read")
    async def retry(call, next):
        try:
            return await next(call)
        except ResourceNotFound:
            call.params.uri = "note://1"
            return await next(call)

    async with Client(app, revision=NEWEST) as client:
        assert (await client.read_resource("note://9")).contents[0].text == "one"


async def test_middleware_is_around_the_whole_life_of_a_listen_request():
    app, ended = make_app(), asyncio.Event()

    @app.middleware("subscriptions/listen")
    async def around(call, next):
        app.seen.append("begun")
        try:
            return await next(call)
        finally:
            ended.set()

    async with Client(app, revision=NEWEST) as client:
        async with client.watch("note://1") as changes:
            app.resources.changed("note://1")
            assert (await anext(changes)).uri == "note://1"
            assert app.seen == ["begun"]
            assert not ended.is_set()
        async with asyncio.timeout(10):
            await ended.wait()


@pytest.mark.parametrize("revision", [SESSION, NEWEST])
async def test_middleware_runs_over_http_as_in_memory(revision):
    app = make_app()

    @app.middleware
    async def record(call, next):
        app.seen.append(call.method)
        return await next(call)

    with over_http(app) as origin:
        async with Client(f"{origin}/mcp", revision=revision) as client:
            await client.read_resource("note://1")
            await client.call_tool("add", {"a": 1, "b": 2})
    assert [method for method in app.seen if method in ("resources/read", "tools/call")] == [
        "resources/read",
        "tools/call",
    ]
