"""Budgets of a gateway that can be counted: the Python calls of one request, and that results are not decoded again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import pytest

import carrel
from carrel import Server
from carrel.client.client import Client
from carrel.gateway import Gateway
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.relayed import relaying
from carrel.host.remote import RemoteProvider
from carrel.protocol.client import OutgoingMessage
from carrel.transports.client.transport import Receiver
from carrel.transports.memory import MemoryPeer, connect

SOURCE = carrel.__file__.removesuffix("__init__.py")
LATEST, SESSION = "2026-07-28", "2025-11-25"
TOOL = {"name": "add", "inputSchema": {"type": "object"}}
CAPABILITIES = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
#: Results of the server, with members that no revision has, and spaces that no encoder of ours writes.
RESULTS = {
    "tools/call": b'{ "content":[{"type":"text", "text":"3", "score":1}], "usage":{"tokens":2}%b}',
    "resources/read": b'{"contents":[ {"uri":"memo://1","text":"x","lines":1}]%b}',
    "prompts/get": b'{"messages":[ {"role":"user","content":{"type":"text","text":"x"},"at":1}]%b}',
}
REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {"name": "add", "arguments": {"a": 1, "b": 2}},
    "resources/read": {"uri": "memo://1"},
    "prompts/get": {"name": "greet"},
}


class Echo:
    """Transport to a server that answers in the next iteration of the event loop."""

    cancels = mirrors = streams = held = False

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.receiver: Any = None

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, message: OutgoingMessage) -> None:
        if message.id is not None:
            data = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message.id, self.result_of(message.method))
            asyncio.get_running_loop().call_soon(self.receiver.receive, data)

    def result_of(self, method: str) -> bytes:
        latest = self.revision == LATEST
        if method in RESULTS:
            typed = b', "resultType":"complete"' if latest else b""
            typed += b',"ttlMs":0,"cacheScope":"private"' if latest and method == "resources/read" else b""
            return RESULTS[method] % typed
        info = {"name": "echo", "version": "1"}
        result: dict[str, Any] = {
            "server/discover": {"supportedVersions": [LATEST], "capabilities": CAPABILITIES, "serverInfo": info},
            "initialize": {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "serverInfo": info},
            "tools/list": {"tools": [TOOL]},
            "prompts/list": {"prompts": [{"name": "greet"}]},
            "resources/list": {"resources": [{"uri": "memo://1", "name": "1"}]},
            "resources/templates/list": {"resourceTemplates": []},
        }.get(method, {})
        if latest:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return json.dumps(result).encode()

    def abandon(self, id: Any) -> None:
        pass

    def settle(self, revision: Any) -> None:
        pass

    async def close(self) -> None:
        pass


class Calls:
    """Python functions of the library that are called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE):
            self.names.append(f"{name.removeprefix(SOURCE)}:{frame.f_code.co_name}")


@asynccontextmanager
async def between(monkeypatch: pytest.MonkeyPatch, far: str, near: str) -> AsyncIterator[MemoryPeer]:
    """Give a client of a gateway to a server, each with its revision."""

    async def new_client(hosted: HostedServer, **given: Any) -> Client:
        return Client(lambda: Echo(far), revision=far, **relaying(given))

    monkeypatch.setattr(HostedServer, "new_client", new_client)
    async with Gateway([ServerConfig(name="far", command="none")]) as gateway, connect(gateway.app, near) as peer:
        yield peer


async def answer(peer: MemoryPeer, method: str, calls: Calls | None = None) -> bytes:
    """Send a request, and return its response. Count the calls of the library in between."""
    params = dict(REQUESTS[method])
    if peer.revision == LATEST:
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {f"{prefix}/protocolVersion": LATEST, f"{prefix}/clientCapabilities": {}}
    data = json.dumps({"jsonrpc": "2.0", "id": 77, "method": method, "params": params}).encode()
    arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    channel = peer.dispatcher._channel
    send, channel.send = channel.send, lambda message, *_: arrived.set_result(message)  # type: ignore[method-assign]
    before = sys.getprofile()
    sys.setprofile(calls or before)
    try:
        assert peer.dispatcher.receive(data) is None
        return await arrived
    finally:
        sys.setprofile(before)
        channel.send = send  # type: ignore[method-assign]


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_a_tool_call_takes_few_calls(monkeypatch: pytest.MonkeyPatch, far: str, near: str) -> None:
    async with between(monkeypatch, far, near) as peer:
        for _ in range(3):
            await answer(peer, "tools/call")
        calls = Calls()
        assert b"score" in await answer(peer, "tools/call", calls)
    assert len(calls.names) <= (94 if far == near else 110), calls.names


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_a_tool_call_of_a_remote_provider_takes_few_calls(far: str, near: str) -> None:
    app = Server("gateway")
    app.add_provider(RemoteProvider(Client(lambda: Echo(far), revision=far, **relaying({})), name="far"))
    async with connect(app, near) as peer:
        for _ in range(3):
            await answer(peer, "tools/call")
        calls = Calls()
        assert b"score" in await answer(peer, "tools/call", calls)
    assert len(calls.names) <= (67 if far == near else 83), calls.names


@pytest.mark.parametrize("method", REQUESTS)
async def test_the_result_of_a_server_of_the_same_revision_is_passed_on_as_it_came(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with between(monkeypatch, SESSION, SESSION) as peer:
        assert await answer(peer, method) == b'{"jsonrpc":"2.0","id":77,"result":%b}' % (RESULTS[method] % b"")


@pytest.mark.parametrize("method", REQUESTS)
async def test_in_the_stateless_revision_only_the_name_of_the_server_is_another(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with between(monkeypatch, LATEST, LATEST) as peer:
        given = json.loads(Echo(LATEST).result_of(method))
        passed = json.loads(await answer(peer, method))["result"]
    assert passed.pop("_meta")["io.modelcontextprotocol/serverInfo"]["name"] == "carrel-gateway"
    assert passed == given
