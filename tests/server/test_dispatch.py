"""Middleware around calls: its order, what it sees, and what it can change, on every transport."""

import asyncio
import json
import urllib.request
from contextlib import contextmanager

import pytest

from carrel import Client, Server
from carrel.errors import InvalidParams, PeerError, ResourceNotFound, ToolError
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions
from carrel.transports.memory import connect
from carrel.wire.content import TextContent
from carrel.wire.resources import ListResourcesResult, Resource
from carrel.wire.tools import CallToolResult
from support.http_requests import ask, initialize, request
from support.http_server import over_http
from support.servers import recording
from support.stdio_process import note, running

OLDEST, BATCHES, SESSION, NEWEST = "2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28"
#: One request for each kind of handler, and one for what the gate of the recording server denies.
MEMBERS = [
    ("resources/read", {"uri": "note://open"}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
    ("prompts/get", {"name": "greet"}),
    ("resources/read", {"uri": "note://closed"}),
]


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


@pytest.mark.slow
async def test_middleware_sees_the_method_parameters_and_headers_of_a_call():
    app = make_app()

    @app.middleware("resources/read")
    async def look(call, next):
        app.seen.append((call.method, call.params.uri, call.principal, call.headers.get("X-Trace")))
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
        ("resources/read", "note://1", None, "abc"),
    ]


@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_a_tool_error_of_middleware_around_a_tool_call_is_a_result_for_the_model(revision):
    app = make_app()

    @app.middleware("tools/call", "resources/read")
    async def refuse(call, next):
        raise ToolError("closed until tomorrow")

    async with Client(app, revision=revision) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.is_error, result.text) == (True, "closed until tomorrow")
        with pytest.raises(PeerError, match="Internal error, reference"):
            await client.read_resource("note://1")


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
        async with asyncio.timeout(60):
            await ended.wait()


@pytest.mark.slow
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


@contextmanager
def batches_over_http():
    with over_http(recording.build()) as origin:
        session = {"mcp-session-id": initialize(f"{origin}/mcp", revision=BATCHES)}
        yield lambda body: request(f"{origin}/mcp", body, session).body


@contextmanager
def batches_over_stdio():
    with running(server="recording.py") as child:
        child.open(BATCHES)

        def send(body):
            child.send(body)
            return child.read()

        yield send


def members():
    """Return a batch of requests, with a notification among them."""
    body = [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id, (method, params) in enumerate(MEMBERS)
    ]
    return [*body[:1], note("notifications/cancelled", requestId=99), *body[1:]]


def of_kind(log, kind):
    return [entry[1:] for entry in log if entry[0] == kind]


@pytest.mark.slow
@pytest.mark.parametrize("opened", [batches_over_http, batches_over_stdio])
def test_middleware_and_gate_see_each_request_of_a_batch(opened):
    taking = {"jsonrpc": "2.0", "id": "log", "method": "tools/call", "params": {"name": "log", "arguments": {}}}
    with opened() as send:
        send(taking)
        answers = {answer["id"]: answer for answer in send(members())}
        log = json.loads(send(taking)["result"]["content"][0]["text"])["log"]
    assert answers.keys() == {0, 1, 2, 3}
    assert answers[0]["result"]["contents"][0]["text"] == "open"
    assert answers[1]["result"]["content"][0]["text"] == "3"
    assert answers[2]["result"]["messages"][0]["content"]["text"] == "Hello"
    assert answers[3]["error"]["code"] == -32002
    asked = [method for method, _ in MEMBERS]
    assert of_kind(log, "middleware") == [[method, None] for method in [*asked, "tools/call"]]
    assert len(of_kind(log, "gate")) == len(MEMBERS) + 1
    assert {("read", "note://open"), ("call", "add"), ("get", "greet"), ("read", "note://closed")} <= {
        tuple(entry) for entry in of_kind(log, "view")
    }
    assert of_kind(log, "handler") == [[None]] * 3


@contextmanager
def guarded(tmp_path):
    """Serve the recording server to those who have tokens, and give its URL and the tokens of two callers."""
    (ada, first), (bo, second) = make_token("ada", []), make_token("bo", [])
    (tmp_path / "tokens").write_text(f"{first}\n{second}\n")
    with over_http(recording.build(), authorization=StaticTokens(tmp_path / "tokens")) as origin:
        yield f"{origin}/mcp", {"ada": ada, "bo": bo}


def check_subjects(log, subject):
    """Check that everything recorded, up to the call that takes the log, was recorded for one caller."""
    assert {seen for _, seen in of_kind(log, "middleware")} == {subject}
    assert of_kind(log, "gate") == [[subject]] * len(of_kind(log, "middleware"))
    assert of_kind(log, "handler") == [[subject]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
def test_the_principal_of_a_token_reaches_middleware_gate_and_handlers(tmp_path, accept):
    with guarded(tmp_path) as (url, tokens):
        for subject, token in tokens.items():
            for method, params in MEMBERS:
                ask(url, method, token, {"accept": accept}, **params)
            log = ask(url, "tools/call", token, name="log", arguments={}).result["structuredContent"]["log"]
            assert len(of_kind(log, "middleware")) == len(MEMBERS) + 1
            check_subjects(log, subject)
        assert ask(url, "resources/read", uri="note://open").status == 401


@pytest.mark.slow
def test_the_principal_of_a_token_reaches_each_request_of_a_batch(tmp_path):
    taking = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "log", "arguments": {}}}
    with guarded(tmp_path) as (url, tokens):
        for subject, token in tokens.items():
            session = {"mcp-session-id": initialize(url, token, BATCHES)}
            request(url, taking, session, token)
            answers = request(url, members(), session, token).body
            assert [answer["id"] for answer in answers if "result" in answer] == [0, 1, 2]
            log = request(url, taking, session, token).body["result"]["content"][0]["text"]
            check_subjects(json.loads(log)["log"], subject)


@pytest.mark.slow
@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_a_client_with_a_token_is_the_same_principal_in_every_revision(tmp_path, revision):
    with guarded(tmp_path) as (url, tokens):
        async with Client(url, revision=revision, http=HTTPOptions(auth=tokens["ada"])) as client:
            await client.call_tool("log")
            await client.read_resource("note://open")
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.get_prompt("greet")
            log = json.loads((await client.call_tool("log")).content[0].text)["log"]
        check_subjects(log, "ada")


@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_callers_in_memory_have_no_principal(revision):
    async with connect(recording.build(), revision) as peer:
        await peer.request("tools/call", {"name": "log", "arguments": {}})
        for method, params in MEMBERS:
            await peer.request(method, params)
        reply = await peer.request("tools/call", {"name": "log", "arguments": {}})
    check_subjects(json.loads(reply["result"]["content"][0]["text"])["log"], None)
