"""Streamable HTTP without session ids, for clients of revisions that have sessions: any process answers any request.

Each request runs in a separate session, which is opened before it and closed after it. The server knows nothing of
the client's capabilities then, and sends nothing outside of responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from carrel.compat.mcp.types.base import LATEST_PROTOCOL_VERSION
from carrel.protocol import VERSION

__all__ = ["Sessionless"]

SESSION = b"mcp-session-id"
REVISION = b"mcp-protocol-version"
HEADERS = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))


class Sessionless:
    """ASGI application that answers each request of an endpoint in a separate session. ``most``: bytes of a body."""

    def __init__(self, endpoint: Callable[[Any, Any, Any], Any], most: int) -> None:
        self._endpoint = endpoint
        self._most = most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await _refuse(send, 405)
            return
        body = await _body_of(receive, self._most)
        if body is None:
            await _refuse(send, 413)
            return
        headers = [(name, value) for name, value in scope["headers"] if name != SESSION]
        scope = {**scope, "headers": headers}
        revision = dict(headers).get(REVISION, LATEST_PROTOCOL_VERSION.encode()).decode("latin-1")
        method = _method_of(body)
        session: bytes | None = None
        if method not in (None, "initialize") and revision <= LATEST_PROTOCOL_VERSION:
            session = await self._open(scope, revision)
            headers.append((SESSION, session))
        opened = await self._forward(scope, body, send, receive)
        session = session or opened
        if session is not None:
            closing = [*headers, (SESSION, session)] if opened else headers
            await self._ask({**scope, "method": "DELETE", "headers": closing}, b"")

    async def _open(self, scope: Any, revision: str) -> bytes:
        """Open a session, and return its id."""
        own = [each for each in scope["headers"] if each[0] not in (b"content-length", b"content-type", b"accept")]
        client = {"name": "sessionless", "version": VERSION}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        found = await self._ask({**scope, "headers": [*own, *HEADERS]}, msgspec.json.encode(message))
        session = found.get(SESSION, b"")
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = [*own, *HEADERS, (SESSION, session)]
        await self._ask({**scope, "headers": headers}, msgspec.json.encode(done))
        return session

    async def _ask(self, scope: Any, body: bytes) -> dict[bytes, bytes]:
        """Send a request to the endpoint, and return the headers of the response."""
        found: dict[bytes, bytes] = {}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                found.update(message["headers"])

        await self._endpoint(scope, _receive_of(body), send)
        return found

    async def _forward(self, scope: Any, body: bytes, send: Any, receive: Any) -> bytes | None:
        """Send the request to the endpoint, and the response to the client without a session id, which is returned."""
        session: bytes | None = None

        async def without_id(message: Any) -> None:
            nonlocal session
            if message["type"] == "http.response.start":
                session = dict(message["headers"]).get(SESSION)
                message = {**message, "headers": [each for each in message["headers"] if each[0] != SESSION]}
            await send(message)

        await self._endpoint(scope, _receive_of(body, receive), without_id)
        return session


def _receive_of(body: bytes, further: Any = None) -> Callable[[], Any]:
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent and further is not None:
            return await further()
        last, sent = sent, True
        return {"type": "http.disconnect"} if last else {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _body_of(receive: Any, most: int) -> bytes | None:
    """Return the body of a request; None if it is too long."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            return None
    return body


def _method_of(body: bytes) -> str | None:
    """Return the method of a message; None if it has none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    method = found.get("method") if isinstance(found, dict) else None
    return method if isinstance(method, str) else None


async def _refuse(send: Any, status: int) -> None:
    headers = [(b"allow", b"POST"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
