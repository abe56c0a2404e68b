"""A client whose connections break: each request succeeds, or raises ``Lost`` if its response did not arrive."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from support.stdio_process import STATELESS, initialize, note, request

__all__ = ["TASKS", "Lost", "Session", "Stream", "Web"]

#: Extension that a client declares for tasks, in stateless requests.
TASKS = {
    **STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
BOTH = "application/json, text/event-stream"
NAMES = {"name", "uri", "taskId"}
#: Parts of the messages of errors that say that a replica was cut off from the store: the machine is slow.
CUT_OFF = ("not available now", "cut off from the others", "ended before the response")
numbers = itertools.count(1)


class Lost(Exception):
    """No response: the connection broke, or the proxy or the server says that the request failed (502, 503)."""


class Stream:
    """SSE stream. ``last`` is the id of the last event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last = ""

    async def events(self) -> AsyncIterator[Any]:
        """Yield messages, and None for events without one, until the stream ends or breaks."""
        id = data = ""
        try:
            async for line in self._response.content:
                field, _, value = line.decode().rstrip("\r\n").partition(": ")
                if field == "id":
                    id = value
                elif field.startswith("data"):
                    data = value
                elif not field:
                    self.last = id or self.last
                    if id or data:
                        yield json.loads(data) if data else None
                    id = data = ""
        except (aiohttp.ClientError, OSError):
            return

    def close(self) -> None:
        """Break the connection."""
        self._response.close()


def checked(reply: Any) -> Any:
    """Return a response, unless it says that the request has failed because its replica was cut off; or a batch.

    Raises:
        Lost: it does.
    """
    if isinstance(reply, list):
        return reply
    message = reply.get("error", {}).get("message", "")
    if any(part in message for part in CUT_OFF):
        raise Lost(message)
    return reply


class Web:
    """Requests to one URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
        self._http = aiohttp.ClientSession(
            timeout=timeout, connector=aiohttp.TCPConnector(limit=0), read_bufsize=1 << 24
        )

    async def close(self) -> None:
        await self._http.close()

    @asynccontextmanager
    async def request(self, method: str, headers: dict[str, str], message: Any = None) -> AsyncIterator[Any]:
        """Send a request, and yield the response.

        Raises:
            Lost: there is no response.
        """
        data = None if message is None else json.dumps(message)
        given = {"Content-Type": "application/json", "Accept": BOTH, **headers}
        try:
            response = await self._http.request(method, self._url, data=data, headers=given)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Lost(str(error)) from error
        try:
            if response.status in (502, 503, 504):
                raise Lost(f"status {response.status}: {await response.text()}")
            assert response.status in (200, 202, 204), (response.status, await response.text(), message)
            yield response
        finally:
            response.close() if response.content_type == "text/event-stream" else response.release()

    async def fetch(self, method: str, headers: dict[str, str], message: Any = None) -> tuple[Any, Any]:
        """Send a request; return the JSON-RPC response (None if there is none) and the headers.

        Raises:
            Lost: there is no response.
        """
        async with self.request(method, headers, message) as response:
            if response.content_type == "text/event-stream":
                async for event in Stream(response).events():
                    if event is not None and "method" not in event:
                        return checked(event), response.headers
                raise Lost("the stream ended without a response")
            try:
                text = await response.text()
            except (aiohttp.ClientError, OSError) as error:
                raise Lost(str(error)) from error
            return (checked(json.loads(text)) if text else None), response.headers

    @staticmethod
    def stateless(method: str, **params: Any) -> tuple[dict[str, str], Any]:
        """Return the headers and the message of a stateless request."""
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        for name in NAMES & params.keys():
            headers["Mcp-Name"] = params[name]
        return headers, request(next(numbers), method, {**params, "_meta": {**TASKS, **params.get("_meta", {})}})

    async def refused(self, message: Any, status: int = 503, headers: dict[str, str] | None = None) -> Any:
        """Post a message that is refused with a status, and return the headers."""
        given = {"Content-Type": "application/json", "Accept": BOTH, **(headers or {})}
        async with self._http.post(self._url, data=json.dumps(message), headers=given) as response:
            assert response.status == status, await response.text()
            return response.headers

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a stateless request, and return the response.

        Raises:
            Lost: there is no response.
        """
        return (await self.fetch("POST", *self.stateless(method, **params)))[0]

    async def open(self, revision: str = "2025-11-25") -> Session:
        """Begin a session. It is tried again until a response arrives."""
        message = initialize(revision)
        message["params"]["capabilities"] = {"elicitation": {"form": {}}}
        while True:
            try:
                _, headers = await self.fetch("POST", {}, message)
                session = Session(self, headers["mcp-session-id"], revision)
                await session.post(note("notifications/initialized"))
            except Lost:
                await asyncio.sleep(0.05)
                continue
            return session


class Session:
    """Session of a client. Each request may reach another replica."""

    def __init__(self, web: Web, id: str, revision: str) -> None:
        self._web = web
        self._id, self._revision = id, revision
        self._headers = {"Mcp-Session-Id": id, "MCP-Protocol-Version": revision}

    def on(self, web: Web) -> Session:
        """Return the same session, at another URL."""
        return Session(web, self._id, self._revision)

    async def post(self, message: Any) -> Any:
        """Post a message, and return the response, or None.

        Raises:
            Lost: there is no response.
        """
        return (await self._web.fetch("POST", self._headers, message))[0]

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request, and return the response.

        Raises:
            Lost: there is no response.
        """
        return await self.post(request(next(numbers), method, params))

    async def check_ended(self) -> None:
        """Check that the session has ended: its requests are refused."""
        await self._web.refused(request(next(numbers), "ping", {}), 404, self._headers)

    def stream(self, method: str, **params: Any) -> Any:
        """Send a request with a progress token, and yield the response (a context manager)."""
        id = next(numbers)
        params["_meta"] = {"progressToken": id}
        return self._web.request("POST", self._headers, request(id, method, params))

    def listen(self, last: str = "") -> Any:
        """Open or resume a stream, and yield the response (a context manager)."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        return self._web.request("GET", {**headers, "Last-Event-ID": last} if last else headers)
