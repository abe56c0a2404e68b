"""Exchange: one request that is being answered, as the faces of other packages need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.wire import struct_of
from carrel.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MissingCapability,
    PeerError,
    ProtocolError,
    TransportError,
)
from carrel.protocol.channel import Channel
from carrel.protocol.server import Call
from carrel.server.context import Context
from carrel.server.elicitation.client_requests import ClientRequest
from carrel.server.elicitation.input_required import ask, use_state
from carrel.server.runtime import Runtime
from carrel.wire.client_features import CreateMessageParams, ElicitParams, ListRootsParams

__all__ = ["REQUEST_CANCELLED", "Exchange", "current_exchange", "http_scope", "notification"]


#: Error code of a request that the client did not answer in time.
TIMED_OUT = -32001
#: Error code of a request that was cancelled over Streamable HTTP.
REQUEST_CANCELLED = -32800


def _mcp_error(code: int, message: str, data: Any) -> Exception:
    return McpError(code=code, message=message, data=data)


@dataclass
class Exchange:
    """One request: its call, and the channel for messages that belong to it."""

    runtime: Runtime
    call: Call
    channel: Channel
    session: Any = field(default=None)
    fail: Callable[[int, str, Any], Exception] = _mcp_error
    """Makes the exception of the mirror for an error of the client."""
    checks: bool = True
    """Whether a request is rejected here if the client did not declare its capability; otherwise the client answers."""

    @cached_property
    def context(self) -> Context[Any]:
        """Context of the request in Carrel's terms."""
        return Context(self.runtime, self.call, self.channel, repeatable=False)

    async def begin(self) -> None:
        """Take the answers that a stateless client sends with its request."""
        if getattr(self.call.params, "request_state", None) is not None:
            await use_state(self.context)

    def end(self) -> None:
        """Check that no request was swallowed by the handler."""
        if "context" in self.__dict__:
            self.context._over = True
            self.context._insist()

    async def ask(self, method: str, params: BaseModel | None, result: Any, timeout: float | None = None) -> Any:
        """Send a request to the client, and return its result as a model of the type ``result``.

        Raises:
            McpError: the client does not support the request, answered with an error, or not in time (``fail``).
        """
        request = _client_request(method, params, result, self.call.peer.revision.server_requests)
        if not self.checks:
            request = msgspec.structs.replace(request, capabilities={})
        try:
            async with asyncio.timeout(timeout):
                return (await ask(self.context, {None: request}))[0]
        except MissingCapability as error:
            raise self.fail(INVALID_REQUEST, str(error), error.data) from None
        except PeerError as error:
            raise self.fail(error.code, error.message, error.data) from None
        except (ProtocolError, TransportError) as error:
            raise self.fail(INTERNAL_ERROR, str(error), None) from None
        except TimeoutError:
            raise self.fail(TIMED_OUT, f"Request {method!r} timed out", None) from None


def _client_request(method: str, params: BaseModel | None, result: Any, known: Mapping[str, Any]) -> ClientRequest:
    """Return a request to the client."""

    def read(answer: Any) -> Any:
        try:
            return result.model_validate(answer)
        except ValidationError as error:
            raise ValueError(str(error)) from None

    wire: ElicitParams | CreateMessageParams | ListRootsParams
    if method == "roots/list" or params is None:
        return ClientRequest("list_roots", ListRootsParams(), {"roots": {}}, read, again=False)
    if method == "elicitation/create":
        wire = struct_of(params, ElicitParams)
        mode = "url" if wire.mode == "url" else "form"
        names = ("elicit_page",) if mode == "url" else ("elicit_several", "elicit")
        return ClientRequest(_first(names, known), wire, {"elicitation": {mode: {}}}, read, again=False)
    wire = struct_of(params, CreateMessageParams)
    tools = wire.tools is not None or wire.tool_choice is not None
    names = ("sample_with_tools",) if tools else ("sample_with_audio", "sample")
    return ClientRequest(_first(names, known), wire, {"sampling": {"tools": {}} if tools else {}}, read, again=False)


def _first(names: tuple[str, ...], known: Mapping[str, Any]) -> str:
    return next((name for name in names if name in known), names[-1])


def notification(method: str, params: bytes | None) -> bytes:
    """Return the JSON-RPC notification of a method."""
    name = msgspec.json.encode(method)
    return b'{"jsonrpc":"2.0","method":%b%b}' % (name, b"" if params is None else b',"params":' + params)


current_exchange: ContextVar[Exchange] = ContextVar("current_exchange")
"""The request that the running handler answers."""

http_scope: ContextVar[Any] = ContextVar("http_scope", default=None)
"""ASGI scope of the HTTP request that the running handler answers; None on other transports."""
