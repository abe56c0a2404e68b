"""The server as part of another application: Starlette, FastAPI, and ASGI servers that know no lifespan."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from carrel import Server
from carrel.errors import ConfigError
from support.raw_http import modern, modern_headers, serving
from support.stdio_process import request, text_of


async def home(_):
    return PlainTextResponse("home")


@asynccontextmanager
async def started(application):
    """Send an application its lifespan events, as an ASGI server does, in a task of their own."""
    inbox, outbox = asyncio.Queue(), asyncio.Queue()
    task = asyncio.create_task(application({"type": "lifespan", "state": {}}, inbox.get, outbox.put))
    inbox.put_nowait({"type": "lifespan.startup"})
    message = await outbox.get()
    if message["type"] == "lifespan.startup.failed":
        await task
        raise RuntimeError(message["message"])
    yield
    inbox.put_nowait({"type": "lifespan.shutdown"})
    assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
    await task


def logged(log):
    @asynccontextmanager
    async def lifespan(app):
        task = asyncio.current_task()
        async with asyncio.TaskGroup(), asyncio.timeout(60):  # what has to be left in the task that entered it
            log.append("started")
            yield "the state"
            assert asyncio.current_task() is task
        log.append("stopped")

    return lifespan


@pytest.fixture
def log():
    return []


@pytest.fixture
def app(log):
    app = Server("mounted", version="1", lifespan=logged(log))

    @app.tool()
    async def echo(text: str) -> str:
        return text

    @app.tool()
    async def state() -> str:
        return str(app.state)

    return app


async def test_it_stands_alone_and_starts_and_stops_with_its_server(app, log):
    endpoint = app.asgi()
    async with started(endpoint), serving(endpoint) as site:
        assert log == ["started"]
        assert text_of(await (await site.call("state")).json()) == "the state"
    assert log == ["started", "stopped"]


@pytest.mark.parametrize("make", ["starlette", "fastapi"])
@pytest.mark.parametrize(
    ("path", "mount", "url"), [("/mcp", "/", "/mcp"), ("/mcp", "/api", "/api/mcp"), ("/", "/mcp", "/mcp/")]
)
async def test_it_mounts_and_shares_the_lifespan(app, log, make, path, mount, url):
    endpoint = app.asgi(path=path)
    if make == "starlette":
        outer = Starlette(routes=[Route("/home", home), Mount(mount, endpoint)], lifespan=endpoint.lifespan)
    else:
        outer = FastAPI(lifespan=endpoint.lifespan)
        outer.get("/home")(lambda: "home")
        outer.mount(mount, endpoint)
    async with started(outer), serving(outer) as site:
        assert log == ["started"]
        assert (await site.request("GET", path="/home")).status == 200
        reply = await site.post(modern("tools/list"), modern_headers("tools/list"), path=url)
        assert reply.status == 200
    assert log == ["started", "stopped"]


async def test_without_a_lifespan_it_starts_with_the_first_requests(app, log):
    outer = Starlette(routes=[Mount("/", app.asgi())])
    async with serving(outer) as site:
        assert log == []
        replies = await asyncio.gather(*(site.call("echo", id=id, text="x") for id in range(10)))
        assert [reply.status for reply in replies] == [200] * 10
        assert log == ["started"]
        session = await site.open()
        assert (await session.call("echo", text="x")).status == 200
    await outer.routes[0].app.stop()
    assert log == ["started", "stopped"]


async def test_a_start_that_fails_is_said_and_tried_again_with_the_next_request(caplog):
    attempts = []

    @asynccontextmanager
    async def lifespan(_):
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise ConfigError("the database is not there")
        yield

    app = Server("shaky", lifespan=lifespan)
    app.resources.add("memo://text", "text", name="text")
    with pytest.raises(RuntimeError, match="ConfigError: the database is not there"):
        async with started(app.asgi()):
            pass
    attempts.clear()
    endpoint = app.asgi()
    with pytest.raises(ConfigError, match="the database is not there"):
        await endpoint({"type": "http"}, None, None)
    async with serving(endpoint) as site:
        assert (await site.ask("resources/list")).status == 200
    assert attempts == [0, 1]


async def test_it_can_be_started_again_after_it_was_stopped(app, log):
    endpoint = app.asgi()
    for _ in range(2):
        async with endpoint.lifespan(), serving(endpoint) as site:
            assert (await site.call("echo", text="x")).status == 200
    assert log == ["started", "stopped"] * 2
    await endpoint.stop()  # once more does no harm


async def test_a_server_of_two_applications_starts_with_the_first_and_stops_with_the_last(app, log):
    first, second = app.asgi(), app.asgi()
    async with first.lifespan():
        async with second.lifespan():
            assert log == ["started"]
        assert log == ["started"]
    assert log == ["started", "stopped"]


@pytest.mark.parametrize("prefix", ["taken away", "left"])
async def test_a_proxy_may_have_taken_the_prefix_away_or_left_it(app, prefix):
    endpoint = app.asgi()

    async def behind(scope, receive, send):
        path = scope["path"] if prefix == "taken away" else "/prefix" + scope["path"]
        await endpoint({**scope, "root_path": "/prefix", "path": path}, receive, send)

    async with endpoint.lifespan(), serving(behind) as site:
        assert (await site.ask("tools/list")).status == 200
        reply = await site.request("GET", path="/other")
        assert (await reply.json())["error"]["message"] == "The MCP endpoint is /prefix/mcp"


@pytest.mark.parametrize("middleware", ["base", "gzip"])
async def test_answers_and_streams_pass_through_middleware(shop, middleware):
    class Passing(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            response = await call_next(request)
            response.headers["x-passed"] = "yes"
            return response

    wanted = Middleware(Passing) if middleware == "base" else Middleware(GZipMiddleware)
    endpoint = shop.app.asgi()
    outer = Starlette(routes=[Mount("/", endpoint)], lifespan=endpoint.lifespan, middleware=[wanted])
    async with started(outer), serving(outer) as site:
        assert text_of(await (await site.call("echo", text="x")).json()) == "x"
        session = await site.open()
        reply = await session.call("steps", n=2)
        assert [(await reply.message())["params"]["progress"] for _ in range(2)] == [1, 2]
        shop.go.set()
        assert text_of((await reply.messages())[-1]) == "done"
        stream = await site.listen("memo://text")
        shop.app.resources.changed("memo://text")
        assert (await stream.message())["params"]["uri"] == "memo://text"
        stream.client.close()
        while len(shop.app.endpoint.runtime.hub) > 1:
            assert (await session.post(request(1, "ping"))).status == 200


async def test_websocket_connections_are_closed(app):
    sent = []

    async def send(message):
        sent.append(message)

    async with app.asgi().lifespan():
        pass
    await app.asgi()({"type": "websocket", "path": "/mcp", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1000}]
