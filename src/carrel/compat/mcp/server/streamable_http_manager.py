"""Streamable HTTP of a server, as an ASGI endpoint to be mounted."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from carrel.compat.lazy import lazily
from carrel.compat.loggers import get_logger
from carrel.compat.mcp.server.lowlevel.server import Server
from carrel.compat.mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
    check_body_size,
)
from carrel.errors import INTERNAL_ERROR, INVALID_REQUEST
from carrel.limits import Limits
from carrel.protocol.encoding import encode_error
from carrel.protocol.revisions import REVISIONS
from carrel.transports import held_output

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.abc import TaskGroup

    from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from carrel.compat.mcp.server.streamable_http_transport import (
        StreamableHTTPServerTransport as StreamableHTTPServerTransport,
    )
    from carrel.compat.sessionless import Sessionless
    from carrel.transports.server.http import StreamableHTTP
else:  # programs import this module without serving HTTP
    __getattr__ = lazily("carrel.compat.mcp.server", {"StreamableHTTPServerTransport": "streamable_http_transport"})

__all__ = [
    "DEFAULT_MAX_REQUEST_BODY_SIZE",
    "DEFAULT_MAX_SESSIONS",
    "DEFAULT_SESSION_IDLE_TIMEOUT",
    "StreamableHTTPSessionManager",
]

DEFAULT_MAX_SESSIONS = 10_000
DEFAULT_SESSION_IDLE_TIMEOUT = 1800

PATH = "/mcp"
STATELESS = frozenset(name for name, revision in REVISIONS.items() if revision.stateless)
FOREVER = 100 * 365 * 86400.0
log = get_logger(__name__)


class StreamableHTTPSessionManager:
    """Streamable HTTP endpoint of a server, at any path.

    Carrel decides per response between JSON and SSE, keeps sessions for clients that open one, unless ``stateless`` is
    true, and replays missed events from its event log: ``json_response``, ``event_store`` and ``retry_interval`` are
    accepted and have no effect. A session ends after ``session_idle_timeout`` seconds without a request in flight;
    None: never. At ``max_sessions``, a new session is refused with 503; None: Carrel's limit holds.

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
        self.asgi_app = RequestBodyLimitMiddleware(self._handle, max_request_body_size)
        self._endpoint: StreamableHTTP | Sessionless | None = None
        self._has_started = False
        self._task_group: TaskGroup | None = None
        self._server_instances: dict[str, StreamableHTTPServerTransport] = {}
        self._session_owners: dict[str, AuthorizationContext] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the server, with one lifespan for all of its clients.

        Raises:
            RuntimeError: it was run before.
        """
        if self._has_started:
            raise RuntimeError(
                "StreamableHTTPSessionManager .run() can only be called once per instance. "
                "Create a new instance if you need to run again."
            )
        self._has_started = True
        held_output.release()
        import anyio

        from carrel.compat.authorizer import UserAuthorizer
        from carrel.compat.sessionless import Sessionless
        from carrel.transports.server.http import StreamableHTTP

        app = self.app.application()
        app.limits = self._limits(app.limits)
        endpoint = StreamableHTTP(
            app,
            path=PATH,
            allowed_hosts=["*"],  # checked by the transports
            allowed_origins=["*"],
            authorization=UserAuthorizer(),
        )
        async with endpoint.lifespan(), anyio.create_task_group() as tasks:
            self._endpoint = Sessionless(endpoint, app.limits.max_message_bytes) if self.stateless else endpoint
            self._task_group = tasks
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._task_group = self._endpoint = None
                self._server_instances.clear()
                self._session_owners.clear()

    def _limits(self, limits: Limits) -> Limits:
        """Return limits of Carrel's sessions that are never reached before the limits of the manager."""
        idle, most = self.session_idle_timeout, self.max_sessions
        most = limits.max_sessions if most is None else 2 * most  # as many may be ending
        return msgspec.structs.replace(limits, session_ttl=FOREVER if idle is None else 2 * idle, max_sessions=most)

    async def handle_request(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request at any path.

        Raises:
            RuntimeError: the manager does not run.
        """
        if self._endpoint is None:
            raise RuntimeError("Task group is not initialized. Make sure to use run().")
        await self.asgi_app(scope, receive, send)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self.stateless or headers.get(b"mcp-protocol-version") in STATELESS:
            await self._handle_without_session(scope, receive, send)
            return
        id, owner = headers.get(b"mcp-session-id"), _owner_of(scope)
        if id is None:
            await self._open_session(owner, scope, receive, send)
            return
        transport = self._server_instances.get(id)
        if transport is not None and self._session_owners.get(id) != owner:
            log.warning("Rejecting request for session %s: credential does not match the one that created it", id)
            transport = None
        if transport is None:
            await _refuse(send, 404, INVALID_REQUEST, "Session not found")
            return
        await transport.handle_request(scope, receive, send)
        if transport.is_terminated:
            await self._discard_session(id, transport)

    def _create_transport(self, id: str | None, idle_timeout: float | None) -> StreamableHTTPServerTransport:
        # a program may have replaced the class in this module
        from carrel.compat.mcp.server.streamable_http_manager import StreamableHTTPServerTransport

        transport = StreamableHTTPServerTransport(
            id, security_settings=self.security_settings, idle_timeout=idle_timeout
        )
        transport.share(self._endpoint)
        return transport

    async def _handle_without_session(self, scope: Any, receive: Any, send: Any) -> None:
        transport = self._create_transport(None, None)
        try:
            await transport.handle_request(scope, receive, send)
        finally:
            await transport.terminate()

    async def _open_session(self, owner: AuthorizationContext | None, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request without a session, which opens one if it succeeds."""
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            log.warning("Refusing to open a new session: %d sessions are already open", self.max_sessions)
            await _refuse(send, 503, INTERNAL_ERROR, "Too many open sessions")
            return
        id = uuid4().hex
        transport = self._create_transport(id, self.session_idle_timeout)
        self._server_instances[id] = transport
        if owner is not None:
            self._session_owners[id] = owner
        opened = False
        try:
            await transport.handle_request(scope, receive, send)
            opened = transport.has_session
        finally:
            if not opened:
                await self._discard_session(id, transport)
        if transport.idle_scope is not None and self._task_group is not None:
            self._task_group.start_soon(self._end_when_idle, id, transport, transport.idle_scope)

    async def _end_when_idle(self, id: str, transport: StreamableHTTPServerTransport, idle: CancelScope) -> None:
        """End a session whose idle timeout has passed."""
        import anyio

        with idle:
            await anyio.sleep_forever()
        if transport.is_terminated:
            return
        log.info("Session %s idle timeout", id)
        await self._discard_session(id, transport)

    async def _discard_session(self, id: str, transport: StreamableHTTPServerTransport) -> None:
        """Forget a session, and end it, also if the current task is cancelled."""
        import anyio

        self._server_instances.pop(id, None)
        self._session_owners.pop(id, None)
        with anyio.CancelScope(shield=True):
            await transport.terminate()


def _owner_of(scope: Any) -> AuthorizationContext | None:
    """Return the identity of the user of a request."""
    user = scope.get("user")
    if user is None:
        return None
    from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context

    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


async def _refuse(send: Any, status: int, code: int, message: str) -> None:
    from carrel.transports.server.http_response import respond

    await respond(send, status, encode_error("server-error", code, message))
