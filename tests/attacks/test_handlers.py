"""Whatever the author's functions do, every request is answered, its slot is free again, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import re
import select
import signal
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from carrel.transports import memory
from support.measured_server import PATIENCE, Server, connect, message, under_attack
from support.servers import SERVERS
from support.servers.failing import OUTCOMES, check, make, requests, some_requests
from support.stdio_process import call, initialize, note, request, running, text_of

SCRIPT = SERVERS / "failing.py"
#: So few slots that one which is lost is noticed.
SLOTS = "3"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def failing() -> Iterator[Server]:
    """A server over HTTP that all tests share: it has to survive them."""
    with under_attack("http", SLOTS, script=SCRIPT) as server:
        yield server


class Session:
    """A client with a session over Streamable HTTP."""

    def __init__(self, port: int, revision: str = "2025-11-25") -> None:
        self.connection = connect(port)
        self.headers = dict(HEADERS)
        self.post(initialize(revision))
        self.headers["MCP-Protocol-Version"] = revision
        self.post(note("notifications/initialized"))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def post(self, message: Any) -> Any:
        """Send a message, and return the last message that is answered; None if there is none."""
        self.connection.request("POST", "/mcp", json.dumps(message), self.headers)
        answer = self.connection.getresponse()
        body = answer.read().decode()
        if answer.headers["Mcp-Session-Id"]:
            self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        if answer.headers.get_content_type() == "text/event-stream":
            body = re.findall(r"^data: ?(.+)$", body, re.MULTILINE)[-1]
        assert answer.status in (200, 202), (answer.status, body)
        return json.loads(body) if body else None


def test_on_stdio() -> None:
    with running("stdio", SLOTS, server=str(SCRIPT)) as child:
        child.open()
        for id, (method, params) in enumerate(some_requests(), 1):
            check(method, params, child.ask(request(id, method, params)))
        assert text_of(child.ask(call(9999, "has_a_child_that_exits"))).startswith("SystemExit: 3")
        assert text_of(child.ask(call(9999, "cancels_itself_and_returns"))) == "done"
        assert child.ask(request(9999, "ping"))["result"] == {}
        assert text_of(child.ask(call(9999, "quick_in_a_thread"))) == "quick"
        child.hang_up()
        assert child.wait() == 0


def test_over_stateless_http(failing: Server) -> None:
    for method, params in requests():
        if method != "failing":
            check(method, params, failing.ask(method, **{key: params[key] for key in params if key != "_meta"}))
    assert failing.ask("tools/call", name="has_a_child_that_exits")["result"]["isError"]
    assert text_of(failing.ask("tools/call", name="cancels_itself_and_returns")) == "done"
    assert text_of(failing.ask("tools/call", name="quick_in_a_thread")) == "quick"


def test_over_http_with_a_session_with_json_and_with_streams(failing: Server) -> None:
    with Session(failing.port) as session:
        for id, (method, params) in enumerate(some_requests(), 1):
            check(method, params, session.post(request(id, method, params)))
        assert text_of(session.post(call(9999, "cancels_itself_and_returns"))) == "done"
        assert session.post(request(9999, "ping"))["result"] == {}
        assert text_of(session.post(call(9999, "quick_in_a_thread"))) == "quick"


def test_in_batches(failing: Server) -> None:
    with Session(failing.port, "2025-03-26") as session:
        numbered = [request(id, method, params) for id, (method, params) in enumerate(some_requests(), 1)]
        for few in (numbered[start : start + 3] for start in range(0, len(numbered), 3)):
            replies = session.post(few)
            assert sorted(reply["id"] for reply in replies) == [one["id"] for one in few]
            for one, reply in zip(few, sorted(replies, key=lambda reply: reply["id"]), strict=True):
                check(one["method"], one["params"], reply)
        assert session.post(request(9999, "ping"))["result"] == {}


async def test_over_http_with_sse(failing: Server) -> None:
    base = failing.url.removesuffix("/mcp")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as web, web.get(f"{base}/sse") as stream:
        lines = (line.decode().removeprefix("data: ").strip() async for line in stream.content if b"data: " in line)
        endpoint = base + await anext(lines)

        async def ask(message: dict[str, Any]) -> Any:
            async with web.post(endpoint, json=message) as answer:
                assert answer.status == 202
            async for line in lines:
                if json.loads(line).get("id") == message["id"]:
                    return json.loads(line)
            raise AssertionError("the stream has ended")

        await ask(initialize())
        for id, (method, params) in enumerate(some_requests(), 1):
            check(method, params, await ask(request(id, method, params)))
        assert text_of(await ask(call(9999, "cancels_itself_and_returns"))) == "done"
        assert text_of(await ask(call(9999, "quick_in_a_thread"))) == "quick"


@pytest.mark.parametrize(
    "revision", [pytest.param("2024-11-05", marks=pytest.mark.exhaustive), "2025-11-25", "2026-07-28"]
)
async def test_in_memory(revision: str) -> None:
    async with memory.connect(make(max_requests_in_flight=int(SLOTS)), revision) as peer:
        for method, params in requests():
            check(method, params, await peer.request(method, dict(params)))
        assert text_of(await peer.request("tools/call", {"name": "cancels_itself_and_returns"})) == "done"
        assert text_of(await peer.request("tools/call", {"name": "quick_in_a_thread"})) == "quick"


@pytest.mark.parametrize("way", ["immediate", "waiting", "thread"])
async def test_behind_tasks(way: str) -> None:
    async with memory.connect(make(max_requests_in_flight=int(SLOTS)), "2025-11-25") as peer:
        for outcome in OUTCOMES:
            params: dict[str, Any] = {"name": f"{way}/{outcome}", "task": {}}
            created = await peer.request("tools/call", params)
            id = created["result"]["task"]["taskId"]
            reply = await peer.request("tasks/result", {"taskId": id})
            if outcome == "surrogate":  # a result that cannot be encoded
                assert "error" in reply
            else:
                check("tools/call", params, reply)
            status = (await peer.request("tasks/get", {"taskId": id}))["result"]["status"]
            assert status == "failed", outcome


def test_a_server_of_functions_that_raise_everything_still_ends_at_ctrl_c() -> None:
    with under_attack("http", script=SCRIPT) as server:
        assert server.ask("tools/call", name="waiting/interrupt")["result"]["isError"]
        assert server.ask("tools/call", name="immediate/interrupt")["result"]["isError"]
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0


# Threads


def test_two_hundred_blocking_calls_of_one_client_hold_up_no_other_one() -> None:
    with under_attack("http", "4096", "256", script=SCRIPT) as server, contextlib.ExitStack() as stack:
        body, headers = message("tools/call", name="block", arguments={"seconds": 600})
        for _ in range(200):
            connection = stack.enter_context(contextlib.closing(connect(server.port)))
            connection.request("POST", "/mcp", body, headers)
        with server.honest_calls("quick_in_a_thread") as calls:
            for _ in range(20):
                assert server.ask("resources/read", uri="memo://fine")["result"]["contents"][0]["text"] == "fine"
        calls.check()
        last = {}
        for _ in range(80):
            connection = stack.enter_context(contextlib.closing(connect(server.port)))
            connection.request("POST", "/mcp", body, headers)
            last[connection.sock] = connection
        answered, _, _ = select.select(list(last), [], [], PATIENCE)  # it is not said which are the ones too many
        refused = json.loads(last[answered[0]].getresponse().read())["error"]
        assert refused["code"] == -32603
        assert "At most 256 requests of one client wait for a thread" in refused["message"]


# Too many at a time


def test_at_the_limit_a_client_is_refused_by_id_and_others_and_pings_are_answered() -> None:
    with under_attack("http", "20", script=SCRIPT) as server, contextlib.ExitStack() as stack:
        body, headers = message("tools/call", id="mine", name="forever")
        session = stack.enter_context(Session(server.port))
        for id in range(20):
            connection = stack.enter_context(contextlib.closing(connect(server.port)))
            connection.request("POST", "/mcp", body, headers)
            inside = stack.enter_context(contextlib.closing(connect(server.port)))
            inside.request("POST", "/mcp", json.dumps(call(id, "forever")), session.headers)
        for refused in (
            until("error", lambda: server.ask("tools/call", name="quick", id="mine")),
            until("error", lambda: session.post(call("mine", "quick"))),
        ):
            assert refused["id"] == "mine"
            assert refused["error"]["code"] == -32603
            assert "at most 20 (max_requests_in_flight)" in refused["error"]["message"]
        assert session.post(request(99, "ping"))["result"] == {}
        assert text_of(server.ask("tools/call", source="127.0.0.2", name="quick")) == "quick"
        session.post(note("notifications/cancelled", requestId=0))
        assert text_of(until("result", lambda: session.post(call(0, "quick")))) == "quick"


def until(member: str, ask: Any) -> Any:
    """Ask until a reply has a member: what was sent before on other connections has arrived, or has ended."""
    for _ in range(500):
        if member in (reply := ask()):
            return reply
    raise AssertionError(f"no reply has {member}: {reply}")
