"""Callbacks of a client session, and the capabilities that they declare."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, get_args

from carrel.client.handlers import Progress
from carrel.compat.mcp import types
from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.shared.session import ProgressFnT
from carrel.compat.mcp.types import base
from carrel.compat.wire import json_of, model_of, struct_of
from carrel.errors import PeerError
from carrel.log import Log
from carrel.protocol.client import IncomingRequest, ServerNotification
from carrel.protocol.revisions import LATEST_HANDSHAKE
from carrel.wire.base import ClientCapabilities
from carrel.wire.client_features import CreateMessageResult, ElicitResult, ListRootsResult

__all__ = ["Callbacks"]

logger = Log("client")

Callback: TypeAlias = Callable[..., Awaitable[Any]]

#: Models of notifications, by their names on the wire.
NOTIFICATIONS: dict[str, type[Any]] = {
    kind.model_fields["method"].default: kind for kind in get_args(types.ServerNotificationType)
}


class Callbacks:
    """Callbacks of a session. Notifications are handled one after another."""

    def __init__(
        self,
        session: Any,
        *,
        sampling: Callback | None,
        elicitation: Callback | None,
        roots: Callback | None,
        logging: Callback | None,
        message: Callback | None,
        sampling_capabilities: types.SamplingCapability | None,
    ) -> None:
        self._session = session
        self._sampling = sampling
        self._elicitation = elicitation
        self._roots = roots
        self._logging = logging
        self._message = message
        self._sampling_capabilities = sampling_capabilities
        self.extensions: dict[str, dict[str, Any]] = {}
        """Settings of the protocol extensions that the client declares, by identifier."""
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def capabilities(self) -> ClientCapabilities:
        """Return the capabilities that the callbacks stand for."""
        found = types.ClientCapabilities()
        if self._sampling is not None:
            found.sampling = self._sampling_capabilities or types.SamplingCapability()
        if self._elicitation is not None:
            found.elicitation = types.ElicitationCapability(
                form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
            )
        if self._roots is not None:
            found.roots = types.RootsCapability(listChanged=True)
        if self.extensions:
            found = found.model_copy(update={"extensions": self.extensions})
        return struct_of(found, ClientCapabilities)

    # Notifications

    def start(self) -> None:
        """Begin to handle notifications."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop handling notifications."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            handle = await self._queue.get()
            try:
                await handle()
            except Exception:
                logger.exception("a callback of the session failed")

    def take_notice(self, notice: ServerNotification) -> None:
        """Queue a notification for the callbacks."""
        self.take(notice.event, notice.params)

    def take(self, event: str, received: Any) -> None:
        """Queue a notification, by its event and parameters, for the callbacks."""
        row = LATEST_HANDSHAKE.events.get(event)
        if row is None:
            return
        kind = NOTIFICATIONS[row.method]
        self._queue.put_nowait(lambda: self._handle(kind, received))

    async def _handle(self, kind: type[Any], params: Any) -> None:
        field = kind.model_fields["params"]
        message = kind() if not field.is_required() else kind(params=model_of(params, field.annotation))
        if self._logging is not None and isinstance(message, types.LoggingMessageNotification):
            await self._logging(message.params)
        if self._message is not None:
            await self._message(types.ServerNotification.model_construct(message))

    def progress(self, callback: ProgressFnT) -> Progress:
        """Return the callback for progress notifications of a request."""

        async def handle(progress: float, total: float | None, message: str | None) -> None:
            await callback(progress, total, message)

        return handle

    # Requests of the server

    async def answer(self, request: IncomingRequest) -> Any:
        """Return the answer to a request of the server.

        Raises:
            PeerError: the callback returned an error, or is not set.
        """
        context: RequestContext[Any, Any, Any] = RequestContext(request.id, None, self._session, None)
        if request.operation == "sample":
            params: Any = model_of(request.params, types.CreateMessageRequestParams)
            return await self._ask("Sampling", self._sampling, CreateMessageResult, context, params)
        if request.operation == "elicit":
            url = request.params.mode == "url"
            kind: Any = types.ElicitRequestURLParams if url else types.ElicitRequestFormParams
            return await self._ask(
                "Elicitation", self._elicitation, ElicitResult, context, model_of(request.params, kind)
            )
        return await self._ask("List roots", self._roots, ListRootsResult, context)

    async def _ask(self, what: str, callback: Callback | None, kind: Any, *arguments: Any) -> Any:
        if callback is None:
            raise PeerError(base.INVALID_REQUEST, f"{what} not supported")
        found = await callback(*arguments)
        if isinstance(found, base.ErrorData):
            raise PeerError(found.code, found.message, found.data)
        return struct_of(json_of(found), kind)
