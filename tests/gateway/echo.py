"""A client of a gateway to a server of given bytes, both in memory."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel.client.client import Client
from carrel.gateway import Gateway
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.relayed import relaying
from carrel.protocol.client import OutgoingMessage
from carrel.transports.client.transport import Receiver
from carrel.transports.memory import MemoryPeer, connect

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


@asynccontextmanager
async def between(monkeypatch: pytest.MonkeyPatch, far: str, near: str) -> AsyncIterator[MemoryPeer]:
    """Give a client of a gateway to a server, each with its revision."""

    async def new_client(hosted: HostedServer, **given: Any) -> Client:
        return Client(lambda: Echo(far), revision=far, **relaying(given))

    monkeypatch.setattr(HostedServer, "new_client", new_client)
    async with Gateway([ServerConfig(name="far", command="none")]) as gateway, connect(gateway.app, near) as peer:
        yield peer


async def answer(peer: MemoryPeer, method: str, profile: Any = None) -> bytes:
    """Send a request, and return its response. Have ``profile`` told of the functions that are called."""
    params = dict(REQUESTS[method])
    if peer.revision == LATEST:
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {f"{prefix}/protocolVersion": LATEST, f"{prefix}/clientCapabilities": {}}
    data = json.dumps({"jsonrpc": "2.0", "id": 77, "method": method, "params": params}).encode()
    arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    channel = peer.dispatcher._channel
    send, channel.send = channel.send, lambda message, *_: arrived.set_result(message)  # type: ignore[method-assign]
    before = sys.getprofile()
    gc.disable()  # what it would finalize is not of this request
    sys.setprofile(profile or before)
    try:
        assert peer.dispatcher.receive(data) is None
        return await arrived
    finally:
        sys.setprofile(before)
        gc.enable()
        channel.send = send  # type: ignore[method-assign]
