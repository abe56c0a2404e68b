"""Session of a client, as the handler of one request sees it."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import AnyUrl, BaseModel
from typing_extensions import deprecated

from carrel.compat.exchange import Exchange, notification
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.connection import Connection, allowed_log_levels
from carrel.compat.mcp2.server.validation import (
    validate_sampling_tools,
    validate_tool_use_result_messages,
    wants_sampling_tools,
)
from carrel.compat.mcp2.shared.deprecation import LOGGING, ROOTS, SAMPLING
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning, NoBackChannelError
from carrel.compat.mcp2.shared.subscriptions import LISTEN_STREAM_METHODS
from carrel.compat.mcp2.types.base import EmptyResult
from carrel.compat.mcp2.types.jsonrpc import RequestId
from carrel.compat.wire import json_of

__all__ = ["ServerSession"]


class ServerSession:
    """Capabilities of the client, and messages and requests to it.

    A message with a related request id is sent on the stream of the request.
    """

    def __init__(self, exchange: Exchange, connection: Connection, meta: dict[str, Any] | None = None) -> None:
        self._exchange = exchange
        self._connection = connection
        self._stateless = exchange.call.peer.revision.stateless
        self._levels = allowed_log_levels(connection.protocol_version, meta)

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        """Capabilities and version that the client declared; None without its name."""
        return self._connection.client_params

    @property
    def client_capabilities(self) -> types.ClientCapabilities | None:
        """Capabilities that the client declared."""
        return self._connection.client_capabilities

    @property
    def can_send_request(self) -> bool:
        """Whether requests can be sent to the client: not from 2026-07-28 on."""
        return not self._stateless

    @property
    def protocol_version(self) -> str:
        """Revision of the connection."""
        return self._connection.protocol_version

    @property
    def principal(self) -> list[str] | None:
        """Identity of the caller; None without authorization."""
        found = getattr(self._exchange.call.principal, "id", None)
        return None if found is None else [str(found)]

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        """Return whether the client declared all capabilities in ``capability``."""
        return self._connection.check_capability(capability)

    # Requests to the client

    async def send_request(
        self,
        request: Any,
        result_type: Any,
        request_read_timeout_seconds: float | None = None,
        metadata: Any = None,
        progress_callback: Any = None,
    ) -> Any:
        """Send a request to the client, and return its result.

        Raises:
            NoBackChannelError: the client takes no requests.
            MCPError: the client answered with an error, or not in time.
        """
        if request.method == "ping" and not self._stateless:
            return EmptyResult()  # transports notice by themselves when a client is gone
        if self._stateless:
            raise NoBackChannelError(request.method)
        return await self._exchange.ask(
            request.method, request.params, result_type, timeout=request_read_timeout_seconds
        )

    @deprecated(SAMPLING, category=MCPDeprecationWarning)
    async def create_message(
        self,
        messages: list[types.SamplingMessage],
        *,
        max_tokens: int,
        tools: list[types.Tool] | None = None,
        tool_choice: types.ToolChoice | None = None,
        related_request_id: RequestId | None = None,
        **options: Any,
    ) -> Any:
        """Ask the client's model for a message (sampling). ``options`` are fields of ``CreateMessageRequestParams``."""
        validate_sampling_tools(self.client_capabilities, tools, tool_choice)
        validate_tool_use_result_messages(messages)
        params = types.CreateMessageRequestParams(
            messages=messages, max_tokens=max_tokens, tools=tools, tool_choice=tool_choice, **options
        )
        with_tools = wants_sampling_tools(tools, tool_choice)
        result = types.CreateMessageResultWithTools if with_tools else types.CreateMessageResult
        return await self.send_request(types.CreateMessageRequest(params=params), result)

    @deprecated(ROOTS, category=MCPDeprecationWarning)
    async def list_roots(self) -> types.ListRootsResult:
        """Request the client's roots."""
        return await self.send_request(types.ListRootsRequest(), types.ListRootsResult)

    async def elicit(
        self, message: str, requested_schema: dict[str, Any], related_request_id: RequestId | None = None
    ) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        return await self.elicit_form(message, requested_schema, related_request_id)

    async def elicit_form(
        self, message: str, requested_schema: dict[str, Any], related_request_id: RequestId | None = None
    ) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        params = types.ElicitRequestFormParams(message=message, requested_schema=requested_schema)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: RequestId | None = None
    ) -> types.ElicitResult:
        """Ask the user to visit a page."""
        params = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    async def send_ping(self) -> EmptyResult:
        """Return at once: transports notice by themselves when a client is gone."""
        await self.send_request(types.PingRequest(), EmptyResult)
        return EmptyResult()

    # Notifications

    async def send_notification(self, notification: Any, related_request_id: RequestId | None = None) -> None:
        """Send a notification, on the stream of the request that it is related to."""
        await self._notify(notification.method, notification.params, related=related_request_id is not None)

    async def _notify(self, method: str, params: BaseModel | bytes | None, *, related: bool) -> None:
        if not related and self._stateless and method in LISTEN_STREAM_METHODS:
            return  # clients of this revision listen to them
        exchange = self._exchange
        channel = (
            exchange.channel
            if related
            else exchange.call.client.channel or (None if self._stateless else exchange.channel)
        )
        if channel is not None:
            channel.send(notification(method, json_of(params) if isinstance(params, BaseModel) else params))
            await channel.drain()

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def send_log_message(
        self, level: str, data: Any, logger: str | None = None, related_request_id: RequestId | None = None
    ) -> None:
        """Send a log message, if the client wants one of this level."""
        if level in self._levels:
            params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            await self._notify(
                "notifications/message", params, related=self._stateless or related_request_id is not None
            )

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress of the request, if the client wants to know."""
        token = self._exchange.call.progress_token
        if token is not None:
            given = {"progressToken": token, "progress": progress, "total": total, "message": message}
            params = {name: value for name, value in given.items() if value is not None}
            await self._notify("notifications/progress", msgspec.json.encode(params), related=True)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        """Send a progress notification."""
        params = types.ProgressNotificationParams(
            progress_token=progress_token, progress=progress, total=total, message=message
        )
        await self._notify("notifications/progress", params, related=related_request_id is not None)

    async def send_resource_updated(self, uri: str | AnyUrl) -> None:
        """Notify the client that a resource has changed."""
        params = types.ResourceUpdatedNotificationParams(uri=str(uri))
        await self._notify("notifications/resources/updated", params, related=False)

    async def send_resource_list_changed(self) -> None:
        """Notify the client that the list of resources has changed."""
        await self._notify("notifications/resources/list_changed", None, related=False)

    async def send_tool_list_changed(self) -> None:
        """Notify the client that the list of tools has changed."""
        await self._notify("notifications/tools/list_changed", None, related=False)

    async def send_prompt_list_changed(self) -> None:
        """Notify the client that the list of prompts has changed."""
        await self._notify("notifications/prompts/list_changed", None, related=False)

    async def send_elicit_complete(self, elicitation_id: str, related_request_id: RequestId | None = None) -> None:
        """Notify the client that the page of an elicitation is done with."""
        params = types.ElicitCompleteNotificationParams(elicitation_id=elicitation_id)
        await self._notify("notifications/elicitation/complete", params, related=related_request_id is not None)
