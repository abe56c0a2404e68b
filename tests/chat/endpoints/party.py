"""Endpoint of a vendor on a local port: serves an application in a thread, and records what comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from chat.endpoints.script import Answer, Break, Failure, Hold, Script, Step
from chat.endpoints.strict import Refused
from support.http_server import PATIENCE, Uvicorn

__all__ = ["KEY", "Endpoint", "Received", "Vendor", "serving"]

#: The key that endpoints accept.
KEY = "sk-of-the-tests"


class Received(NamedTuple):
    """Request that an endpoint received. Names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: Any


class Broken(Exception):
    """Breaks the connection in the middle of a response."""


class Endpoint:
    """Running endpoint: its URL for the SDK, variables for a program that uses it, and what came.

    ``requests`` are all requests for an answer, refused ones too, and ``refusals`` why those were refused.
    ``holding`` is set while an answer holds, ``left`` when the client has closed the connection of one.
    """

    def __init__(self, url: str, environment: dict[str, str], script: Script) -> None:
        self.url = url
        self.environment = environment
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.holding = threading.Event()
        self.left = threading.Event()
        self._script = script
        self._next = 0

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests."""
        return [request.body for request in self.requests]

    def step(self, body: dict[str, Any]) -> Step:
        """Return the next step of the script."""
        if callable(self._script):
            return self._script(body)
        if self._next == len(self._script):
            raise Refused(f"the script has only {self._next} steps")
        self._next += 1
        return self._script[self._next - 1]


#: Checks a request, and raises ``Refused``.
Check: TypeAlias = Callable[[Received], None]
#: Writes an answer as the events of a stream; ``Hold`` and ``Break`` are left to the endpoint.
Stream: TypeAlias = Callable[[Answer, Received], Iterator[bytes | Hold | Break]]


@dataclass(frozen=True)
class Vendor:
    """Wire format of a vendor: the checks and the stream of each path, error responses, other routes."""

    paths: dict[str, tuple[Check, Stream]]
    error: Callable[[Failure], tuple[Any, dict[str, str]]]
    routes: dict[str, Callable[[Request], Awaitable[Response]]]


def application(vendor: Vendor, endpoint: Endpoint) -> Starlette:
    def failed(failure: Failure) -> Response:
        body, headers = vendor.error(failure)
        if failure.retry_after is not None:
            headers["retry-after"] = f"{failure.retry_after:g}"
        if failure.retry is not None:
            headers["x-should-retry"] = json.dumps(failure.retry)
        return JSONResponse(body, failure.status, headers)

    def answering(check: Check, stream: Stream) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            received = Received(request.url.path, dict(request.headers), await request.json())
            endpoint.requests.append(received)
            try:
                check(received)
                step = endpoint.step(received.body)
            except Refused as refused:
                endpoint.refusals.append(str(refused))
                return failed(Failure(refused.status, str(refused), refused.kind))
            if isinstance(step, Failure):
                return failed(step)
            return StreamingResponse(events(stream(step, received), request), media_type="text/event-stream")

        return answer

    async def events(stream: Iterator[bytes | Hold | Break], request: Request) -> AsyncIterator[bytes]:
        for event in stream:
            if isinstance(event, Break):
                raise Broken
            if isinstance(event, bytes):
                yield event
                continue
            try:
                endpoint.holding.set()
                await asyncio.Event().wait()  # Starlette cancels it when the client leaves
            finally:
                endpoint.left.set()

    routes = [Route(path, answering(*each), methods=["POST"]) for path, each in vendor.paths.items()]
    return Starlette(routes=[*routes, *(Route(path, each) for path, each in vendor.routes.items())])


@contextlib.contextmanager
def serving(vendor: Vendor, script: Script, path: str, variables: dict[str, str]) -> Iterator[Endpoint]:
    """Serve a vendor's format on a port of its own. In ``variables``, ``{url}`` is the URL with ``path``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        endpoint = Endpoint(url, {name: value.format(url=url) for name, value in variables.items()}, script)
        app = application(vendor, endpoint)
        server = Uvicorn(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="endpoint", daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.force_exit = True
            server.tell()
            thread.join(PATIENCE)
            if thread.is_alive():
                raise AssertionError(f"the endpoint did not end within {PATIENCE} s")
