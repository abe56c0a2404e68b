"""Streamable HTTP of a server, as an ASGI endpoint to be mounted."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.compat.exchange import http_scope
from carrel.compat.mcp.server.lowlevel.server import Server
from carrel.compat.mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
    check_body_size,
)
from carrel.limits import Limits

if TYPE_CHECKING:
    from carrel.compat.sessionless import Sessionless
    from carrel.transports.server.http import StreamableHTTP

__all__ = [
    "DEFAULT_MAX_REQUEST_BODY_SIZE",
    "DEFAULT_MAX_SESSIONS",
    "DEFAULT_SESSION_IDLE_TIMEOUT",
    "StreamableHTTPSessionManager",
]

DEFAULT_MAX_SESSIONS = 10_000
DEFAULT_SESSION_IDLE_TIMEOUT = 1800.0

PATH = "/mcp"


class StreamableHTTPSessionManager:
    """Streamable HTTP endpoint of a server, at any path.

    Carrel decides per response between JSON and SSE, keeps sessions for clients that open one, unless ``stateless`` is
    true, and replays missed events from its event log: ``json_response``, ``event_store`` and ``retry_interval`` are
    accepted and have no effect. Without ``session_idle_timeout`` (seconds) or ``max_sessions``, Carrel's limits hold.

    Raises:
        ValueError: a limit is not positive, or not finite.
    """

    def __init__(
        self,
        app: Server[Any, Any],
        event_store: Any = None,
        json_response: bool = False,
        stateless: bool = False,
        security_settings: TransportSecuritySettings | None = None,
        retry_interval: int | None = None,
        session_idle_timeout: float | None = DEFAULT_SESSION_IDLE_TIMEOUT,
        max_sessions: int | None = DEFAULT_MAX_SESSIONS,
        max_request_body_size: int = DEFAULT_MAX_REQUEST_BODY_SIZE,
    ) -> None:
        check_body_size(max_request_body_size)
        if session_idle_timeout is not None and not 0 < session_idle_timeout < math.inf:
            raise ValueError("session_idle_timeout must be a positive, finite number of seconds")
        if max_sessions is not None and max_sessions <= 0:
            raise ValueError("max_sessions must be a positive number of sessions or None")
        self.app = app
        self.event_store = event_store
        self.json_response = json_response
        self.stateless = stateless
        self.security_settings = security_settings
        self.retry_interval = retry_interval
        self.session_idle_timeout = session_idle_timeout
        self.max_sessions = max_sessions
        self.max_request_body_size = max_request_body_size
        self._endpoint: StreamableHTTP | Sessionless | None = None
        self._started = False

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the server, with one lifespan for all of its clients.

        Raises:
            RuntimeError: it was run before.
        """
        if self._started:
            raise RuntimeError(
                "StreamableHTTPSessionManager .run() can only be called once per instance. "
                "Create a new instance if you need to run again."
            )
        self._started = True
        # programs import this module without serving HTTP
        from carrel.compat.authorizer import UserAuthorizer
        from carrel.compat.sessionless import Sessionless
        from carrel.transports.server.http import StreamableHTTP

        app = self.app.application()
        limits = {"session_ttl": self.session_idle_timeout, "max_sessions": self.max_sessions}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        app.limits = msgspec.structs.replace(app.limits, **given)
        endpoint = StreamableHTTP(
            app,
            path=PATH,
            allowed_hosts=["*"],  # checked by ``handle_request``
            allowed_origins=["*"],
            authorization=UserAuthorizer(),
        )
        async with endpoint.lifespan():
            most = Limits().max_message_bytes
            self._endpoint = Sessionless(endpoint, most) if self.stateless else endpoint
            try:
                yield
            finally:
                self._endpoint = None

    async def handle_request(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request at any path.

        Raises:
            RuntimeError: the manager does not run.
        """
        if self._endpoint is None:
            raise RuntimeError("Task group is not initialized. Make sure to use run().")
        if not await TransportSecurityMiddleware(self.security_settings).refuses(scope, receive, send):
            await RequestBodyLimitMiddleware(self._handle, self.max_request_body_size)(scope, receive, send)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        assert self._endpoint is not None
        token = http_scope.set(scope)
        try:
            await self._endpoint({**scope, "path": PATH, "root_path": ""}, receive, send)
        finally:
            http_scope.reset(token)
