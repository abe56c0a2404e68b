"""Streamable HTTP as an ASGI application: one endpoint for clients of every revision.

A request of 2026-07-28 is stateless. A client of an older revision gets a session (Mcp-Session-Id) at ``initialize``,
may open a long-lived stream with GET, resume with Last-Event-ID, and end the session with DELETE. A response is JSON if
it is ready soon and no message has to be sent before it, and otherwise an SSE stream.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from carrel.errors import (
    INVALID_REQUEST,
    ConfigError,
    ServerUnavailable,
)
from carrel.limits import Quota
from carrel.log import Log
from carrel.protocol.encoding import encode_error
from carrel.protocol.principal import HTTPErrorResponse
from carrel.transports.server.application import HasEndpoint
from carrel.transports.server.authorizer import Authorizer, client_of, let_in
from carrel.transports.server.dispatcher import CLEANUP, Work, cancel
from carrel.transports.server.http_endpoint import Endpoint
from carrel.transports.server.http_request import Bodies, HTTPExchange, Rejection, read_headers, rejected_request
from carrel.transports.server.http_response import (
    PendingResponse,
    Receive,
    Send,
    respond,
    respond_unavailable,
)
from carrel.transports.server.http_stream import StandingResponse
from carrel.transports.server.origin import Origins
from carrel.transports.server.sessions import SessionTable
from carrel.transports.server.streams import Stream

if TYPE_CHECKING:
    from carrel.transports.server.http_sse import HTTPWithSSE
    from carrel.transports.server.routes import Routes

__all__ = ["StreamableHTTP"]

Scope = dict[str, Any]

log = Log("carrel.http")

#: Path of the health check for monitoring. It needs no authorization, and returns only that the server runs.
HEALTH = "/healthz"

#: Milliseconds after which clients reconnect their GET streams to other replicas when this one stops.
RECONNECT = 200
#: Streams that get a keep-alive comment in one turn of the event loop.
STREAMS_PER_TURN = 200

#: Path of the protected resource metadata of any authorizer (RFC 9728).
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"


class StreamableHTTP:
    """The MCP endpoint as an ASGI application.

    Mounted in another application, it gets no lifespan events: give ``lifespan`` to the outer application (without it,
    the server starts with the first request).

    Args:
        app: the server.
        path: path of the endpoint, relative to where this application is mounted.
        allowed_hosts: allowed Host headers, in addition to localhost ("*": any).
        allowed_origins: allowed origins (CORS), such as "https://example.org", in addition to localhost ("*": any).
        keep_alive: seconds after which a comment is sent on a silent stream, so that no proxy closes it.
        patience: seconds that a response may take before a stream is begun for a client with a session.
        sse_path: path of the stream of the deprecated HTTP+SSE transport; None to disable it.
        authorization: authorizer of requests, such as ``carrel.security.Authorization``; None for no authorization.

    Raises:
        ConfigError: two endpoints or routes would have the same path.
    """

    def __init__(
        self,
        app: HasEndpoint,
        *,
        path: str = "/mcp",
        allowed_hosts: str | Iterable[str] = (),
        allowed_origins: str | Iterable[str] = (),
        keep_alive: float = 15.0,
        patience: float = 0.5,
        sse_path: str | None = None,
        authorization: Authorizer | None = None,
    ) -> None:
        served = self._app = app.endpoint
        self._authorization = authorization
        self._path = "/" + path.strip("/")
        self._origins = Origins(allowed_hosts, allowed_origins)
        self._limits = served.limits
        self._bodies = Bodies(served.limits)
        self._keep_alive = keep_alive
        self._patience = patience
        self._quota = Quota(served.limits.max_sessions, served.limits.max_sessions_per_client)
        self._sessions = SessionTable(served, self._quota)
        self._endpoint = Endpoint(served, self._sessions, self._bodies, authorization)
        self._streams: set[Stream] = set()
        served.gauges["sessions"] = lambda: self._quota.used
        served.gauges["streams"] = lambda: len(self._streams)
        self._answers: set[Work] = set()
        self._life: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()
        self._running = False
        self._sse: HTTPWithSSE | None = None
        if sse_path is not None:
            from carrel.transports.server.http_sse import HTTPWithSSE, SharedWithHTTP  # deprecated, rarely used

            self._sse = HTTPWithSSE(
                served,
                "/" + sse_path.strip("/"),
                alternative=self._path,
                shared=SharedWithHTTP(self._bodies, self._quota, self._streams, self._answers),
                authorization=authorization,
            )
            if self._sse.owns(self._path):
                raise ConfigError(f"the endpoint of HTTP+SSE at {sse_path} overlaps with {path}")
        self._routes = self._collect_routes()

    def _collect_routes(self) -> Routes | None:
        """Return the routes of the application and the authorizer, or None."""
        authorization = self._authorization
        own = () if authorization is None else authorization.routes(self._path)
        routes = [*self._app.routes, *own]
        if not routes:
            return None
        from carrel.transports.server.routes import Routes  # most servers have none

        taken = {self._path, HEALTH, *(route.path for route in routes if self._sse and self._sse.owns(route.path))}
        described = any(route.path.startswith(PROTECTED_RESOURCE) for route in own)
        reserved = () if described else (PROTECTED_RESOURCE,)
        return Routes(routes, taken, reserved, has_authorization=authorization is not None)

    # Starting and stopping

    async def start(self) -> None:
        """Start the server, unless it runs. Called automatically if the ASGI server sends lifespan events."""
        loop = asyncio.get_running_loop()
        if self._life is None or self._started is None:
            self._started = loop.create_future()
            self._stopping.clear()
            self._life = loop.create_task(self._live(self._started))
        await asyncio.shield(self._started)

    async def stop(self) -> None:
        """End all streams and sessions, and stop the server."""
        life, self._life = self._life, None
        if life is None:
            return
        self.end_streams()
        self.cancel()
        if self._answers:
            await asyncio.wait(self._answers, timeout=CLEANUP)
        self._stopping.set()
        await life

    async def _live(self, started: asyncio.Future[None]) -> None:
        """Start and stop the server in one task, as task groups in a lifespan require."""
        try:
            await self._app.start()
        except BaseException as error:
            self._life = None
            if not isinstance(error, asyncio.CancelledError):
                started.set_exception(error)
                return
            started.cancel()
            raise
        if self._authorization is None:
            for name in self._app.unprotected:
                log.warning(
                    "%s is served WITHOUT the authorization of its program (auth=, token_verifier=): give the server "
                    "that serves it authorization=, or serve the program by itself",
                    name,
                )
        self._running = True
        started.set_result(None)
        try:
            await self._keep()
        finally:
            self._running = False
            if self._authorization is not None:
                await self._authorization.stop()
            await self._app.stop()

    def end_streams(self) -> None:
        """End all open streams gracefully, for example before the process stops."""
        self._app.end_streams()
        for session in self._sessions:
            for stream in session.listening:
                if self._app.replica.shared:
                    stream.pause(RECONNECT)
                stream.end_content()
        if self._sse is not None:
            self._sse.end_streams()

    async def finish_tasks(self, seconds: float) -> None:
        """Wait for running tasks, if other servers can return their results."""
        await self._app.finish_tasks(seconds)

    def cancel(self) -> None:
        """End all sessions and cancel all requests in flight, for example after the shutdown timeout."""
        self._sessions.close()
        for work in self._answers:
            cancel(work)
        if self._sse is not None:
            self._sse.cancel()

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """ASGI lifespan for an outer application: ``Starlette(routes=…, lifespan=mcp.lifespan)``."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self) -> None:
        """Send keep-alive comments on streams, and end expired sessions, periodically."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._keep_alive
        while not self._stopping.is_set():
            wait = min(due - loop.time(), self._sessions.interval)
            try:
                await asyncio.wait_for(self._stopping.wait(), max(wait, 0.0))
            except TimeoutError:
                if loop.time() >= due:
                    due = loop.time() + self._keep_alive
                    await self._look_after_streams()
                self._sessions.sweep()

    async def _look_after_streams(self) -> None:
        """Send a comment on each stream, and close streams that block for ``write_timeout``.

        The event loop has a turn after every few streams, as there may be thousands.
        """
        for number, stream in enumerate(tuple(self._streams), 1):
            if stream in self._streams:
                stream.stalls = stream.stalls + 1 if stream.ping else 0
                if stream.stalls * self._keep_alive >= self._limits.write_timeout:
                    stream.give_up()
                else:
                    stream.keep_alive()
            if not number % STREAMS_PER_TURN:
                await asyncio.sleep(0)

    # One request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._run_lifespan(receive, send)
            return
        if kind != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        if not self._running:
            await self.start()
        response = await self._serve(HTTPExchange(scope, receive, send, path_of(scope)))
        if response is not None:
            patience = self._keep_alive if response.stateless else self._patience
            await response.run(receive, send, patience, self._streams, self._answers)

    async def _serve(self, exchange: HTTPExchange) -> PendingResponse | StandingResponse | None:
        """Handle a request, or return its response if that is not ready."""
        scope, send = exchange.scope, exchange.send
        try:
            headers = exchange.headers = read_headers(scope["headers"])
            problem = self._origins.check(headers)
            if problem is not None:
                raise Rejection(403, problem)
            method, path = scope["method"], exchange.path
            if path == HEALTH and method in ("GET", "HEAD"):
                await respond(send, 200, b'{"status":"ok"}', [(b"cache-control", b"no-store")])
                return None
            if b"origin" in headers:
                exchange.extra = self._origins.answer(headers)
            if self._authorization is not None and await self._describe(exchange):
                return None
            if self._routes is not None and path != self._path and await self._serve_route(exchange):
                return None
            if path != self._path:
                path = exchange.path = self._find(path, scope)
            if self._authorization is not None and method != "OPTIONS":
                exchange.caller = await let_in(self._authorization, scope, headers, self._path)
            if path != self._path and method != "OPTIONS":
                assert self._sse is not None
                await self._sse.serve(exchange)
            elif method == "POST":
                return await self._endpoint.post(exchange, client_of(scope, exchange.caller))
            elif method == "GET":
                return await self._endpoint.get(exchange)
            elif method == "DELETE":
                await self._endpoint.delete(exchange)
            elif method == "OPTIONS" and b"origin" in headers:
                await respond(send, 204, b"", self._origins.preflight(headers))
            else:
                raise Rejection(
                    405, f"{method} is not allowed at this endpoint", [(b"allow", b"GET, POST, DELETE, OPTIONS")]
                )
        except Rejection as rejection:
            if self._app.http_rejected is not None:
                self._app.http_rejected(rejected_request(exchange, rejection))
            body = encode_error(UNSET, INVALID_REQUEST, str(rejection))
            await respond(send, rejection.status, body, [*rejection.headers, *exchange.extra])
        except ServerUnavailable as error:
            await respond_unavailable(send, error, exchange.extra)
        return None

    async def _describe(self, exchange: HTTPExchange) -> bool:
        """Send the protected resource metadata document if the request is for that; return whether it was."""
        scope, send = exchange.scope, exchange.send
        if self._authorization is None or scope["method"] not in ("GET", "OPTIONS"):
            return False
        document = self._authorization.document(scope, self._path)
        if document is None:
            return False
        if isinstance(document, HTTPErrorResponse):
            raise Rejection(document.status, document.message, document.headers)
        if scope["method"] == "OPTIONS":
            await respond(send, 204, b"", self._origins.preflight(exchange.headers))
        else:
            await respond(send, 200, document, [(b"cache-control", b"max-age=300"), *exchange.extra])
        return True

    async def _serve_route(self, exchange: HTTPExchange) -> bool:
        """Answer a request for a route beside the endpoint; return whether it was one. The endpoint comes first."""
        path, scope, headers = exchange.path, exchange.scope, exchange.headers
        assert self._routes is not None
        if path.rstrip("/") == self._path.rstrip("/") or (self._sse is not None and self._sse.owns(path)):
            return False
        route = self._routes.find(path, scope["method"])
        if route is None:
            return False
        if scope["method"] == "OPTIONS":
            await respond(exchange.send, 204, b"", self._origins.preflight(headers) if b"origin" in headers else ())
            return True
        from carrel.transports.server import routes

        if route.authorized and self._authorization is not None:
            exchange.caller = await let_in(self._authorization, scope, headers, self._path)
        await routes.serve(route, exchange, self._bodies)
        return True

    def _find(self, path: str, scope: Scope) -> str:
        """Return the path of the endpoint that a request for a path is for."""
        if path.rstrip("/") == self._path.rstrip("/"):
            return self._path
        if self._sse is None or not self._sse.owns(path):
            raise Rejection(404, f"The MCP endpoint is {scope.get('root_path', '')}{self._path}")
        return path


def path_of(scope: Scope) -> str:
    """Return the path of a request relative to where this application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
