"""Session of a client of Carrel's server, as handlers of the face of ``mcp`` see it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from carrel.compat.exchange import Exchange, current_exchange, notification
from carrel.compat.mcp import types
from carrel.compat.mcp.server.session import ServerSession
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types import base
from carrel.compat.wire import json_of, model_of
from carrel.protocol.channel import Channel
from carrel.protocol.server import Call
from carrel.wire.base import ClientCapabilities, Implementation

__all__ = ["CallSession"]


class CallSession(ServerSession):
    """Session of one client, as of the call that began it."""

    def __init__(self, call: Call) -> None:
        self._connection = call.connection
        self._client = call.client
        self._peer = call.peer
        self.last: Exchange | None = None
        self._client_params: types.InitializeRequestParams | None = None

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        """Capabilities and version that the client declared in its first request."""
        if self._client_params is None:
            peer = self._peer
            self._client_params = types.InitializeRequestParams(
                protocolVersion=peer.revision.name,
                capabilities=model_of(peer.capabilities or ClientCapabilities(), types.ClientCapabilities),
                clientInfo=model_of(peer.client or Implementation("unknown", "0"), base.Implementation),
            )
        return self._client_params

    async def _send(self, method: str, params: BaseModel | None, *, related: bool = False) -> None:
        channel = self._channel(related=related)
        if channel is not None:
            channel.send(notification(method, None if params is None else json_of(params)))
            await channel.drain()

    def _channel(self, *, related: bool) -> Channel | None:
        exchange = self._exchange()
        own = self._client.channel
        if exchange is not None and (related or own is None):
            return exchange.channel
        return own

    def _exchange(self) -> Exchange | None:
        """Return the request of this session that is being answered."""
        exchange = current_exchange.get(None)
        return exchange if exchange is not None and exchange.call.connection is self._connection else None

    async def _ask(self, method: str, params: BaseModel | None, result: Any) -> Any:
        exchange = self._exchange() or self.last
        if exchange is None:
            raise McpError(base.ErrorData(code=base.INVALID_REQUEST, message="There is no request to ask on"))
        return await exchange.ask(method, params, result)
