"""Callbacks of a client session, and the capabilities that they declare."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.client.context import ClientRequestContext
from carrel.compat.mcp2.types.jsonrpc import INVALID_REQUEST, ErrorData
from carrel.compat.mcp2.types.methods import MONOLITH_NOTIFICATIONS
from carrel.compat.wire import json_of, model_of, struct_of
from carrel.errors import PeerError
from carrel.protocol.client import IncomingRequest
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities
from carrel.wire.client_features import CreateMessageResult, ElicitResult, ListRootsResult

__all__ = ["Callbacks"]

logger = get_logger("client")

#: Name of each request of the server in errors, and the struct of its result, by method.
ANSWERS: dict[str, tuple[str, Any]] = {
    "sampling/createMessage": ("Sampling", CreateMessageResult),
    "elicitation/create": ("Elicitation", ElicitResult),
    "roots/list": ("List roots", ListRootsResult),
}
METHODS = {"sample": "sampling/createMessage", "elicit": "elicitation/create"}
EVENTS = {event: row.method for revision in REVISIONS.values() for event, row in revision.events.items()}


class Callbacks:
    """Callbacks of a session. Notifications are handled one after another."""

    def __init__(
        self,
        session: Any,
        *,
        sampling: Callable[..., Awaitable[Any]] | None,
        elicitation: Callable[..., Awaitable[Any]] | None,
        roots: Callable[..., Awaitable[Any]] | None,
        logging: Callable[..., Awaitable[Any]] | None,
        message: Callable[..., Awaitable[Any]] | None,
        sampling_capabilities: Any,
        extensions: dict[str, dict[str, Any]] | None,
    ) -> None:
        self._session = session
        self._answering = {
            "sampling/createMessage": sampling,
            "elicitation/create": elicitation,
            "roots/list": roots,
        }
        self._logging = logging
        self._message = message
        self._sampling_capabilities = sampling_capabilities
        self._extensions = extensions
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def capabilities(self) -> ClientCapabilities:
        """Return the capabilities that the callbacks stand for."""
        found = types.ClientCapabilities(extensions=self._extensions)
        if self._answering["sampling/createMessage"] is not None:
            found.sampling = self._sampling_capabilities or types.SamplingCapability()
        if self._answering["elicitation/create"] is not None:
            found.elicitation = types.ElicitationCapability(
                form=types.FormElicitationCapability(), url=types.UrlElicitationCapability()
            )
        if self._answering["roots/list"] is not None:
            found.roots = types.RootsCapability(list_changed=True)
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
            message = await self._queue.get()
            try:
                if self._logging is not None and isinstance(message, types.LoggingMessageNotification):
                    await self._logging(message.params)
                if self._message is not None:
                    await self._message(message)
            except Exception:
                logger.exception("a callback of the session failed")

    def take(self, event: str, received: Any) -> None:
        """Queue a notification, by its event and parameters, for the callbacks."""
        kind = MONOLITH_NOTIFICATIONS.get(EVENTS.get(event, ""))
        if kind is None:
            return
        field = kind.model_fields["params"]
        params = None
        if field.is_required():
            params = model_of(received, field.annotation)
        self._queue.put_nowait(kind(params=params) if params is not None else kind())

    # Requests of the server

    async def answer(self, request: IncomingRequest) -> Any:
        """Return the answer to a request of the server.

        Raises:
            PeerError: the callback returned an error, or is not set.
        """
        method = METHODS.get(request.operation.partition("_")[0], "roots/list")
        params: Any = None
        if method == "sampling/createMessage":
            params = model_of(request.params, types.CreateMessageRequestParams)
        elif method == "elicitation/create":
            url = request.params.mode == "url"
            params = model_of(request.params, types.ElicitRequestURLParams if url else types.ElicitRequestFormParams)
        found = await self.ask(method, params, request.id)
        if isinstance(found, ErrorData):
            raise PeerError(found.code, found.message, found.data)
        return struct_of(json_of(found), ANSWERS[method][1])

    async def ask(self, method: str, params: BaseModel | None, id: Any) -> Any:
        """Call the callback for a request of the server, and return its result or ``ErrorData``."""
        callback = self._answering[method]
        if callback is None:
            return ErrorData(code=INVALID_REQUEST, message=f"{ANSWERS[method][0]} not supported")
        context = ClientRequestContext(session=self._session, request_id=id)
        return await (callback(context) if method == "roots/list" else callback(context, params))
