"""Batches of 2025-03-26."""

from __future__ import annotations

import msgspec
import pytest

from carrel import Server
from carrel.transports.memory import MemoryPeer
from support.capabilities import everything
from support.http_requests import request
from support.http_server import over_http
from support.memory_client import MARCH

pytestmark = pytest.mark.requirement


PARAMS = {"protocolVersion": MARCH, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


class Silent(MemoryPeer):
    """A client that keeps what it is told."""

    def __init__(self, app: Server) -> None:
        super().__init__(app, MARCH)
        self.heard: list[object] = []

    def _take(self, message: object) -> None:
        self.heard.append(message)


# requirement: 2025-03-26:basic/lifecycle#initialization-3
@pytest.mark.parametrize(
    "batch", [[INITIALIZE], [INITIALIZE, PING], [PING, INITIALIZE]], ids=["alone", "first", "last"]
)
async def test_an_initialize_within_a_batch_is_refused(batch: list[object]) -> None:
    app = everything()
    await app.endpoint.start()
    peer = Silent(app)
    peer.feed(msgspec.json.encode(batch))
    assert '"protocolVersion"' not in msgspec.json.encode(peer.heard).decode()
    assert peer.dispatcher.connection.peer is None
    await peer.dispatcher.close()
    await app.endpoint.stop()
    with over_http(app) as origin:
        reply = request(f"{origin}/mcp", batch, {})
        assert reply.status == 400
        assert "mcp-session-id" not in reply.headers
