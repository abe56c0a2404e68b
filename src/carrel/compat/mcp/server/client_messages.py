"""Messages and requests to the client of a session, as handlers of the face of ``mcp`` send them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, TypeAlias

from pydantic import AnyUrl, BaseModel

from carrel.compat.mcp import types
from carrel.compat.mcp.server.validation import validate_sampling_tools, validate_tool_use_result_messages
from carrel.compat.mcp.types import base

__all__ = ["ClientMessages"]

ListName: TypeAlias = Literal["resources", "tools", "prompts"]


class ClientMessages(ABC):
    """Client of a session: its capabilities, and messages and requests to it."""

    @property
    @abstractmethod
    def client_params(self) -> types.InitializeRequestParams | None:
        """Capabilities and version that the client declared."""

    @abstractmethod
    async def _send(self, method: str, params: BaseModel | None, *, related: bool = False) -> None:
        """Send a notification, on the stream of the request that is being answered if it is ``related``."""

    @abstractmethod
    async def _ask(self, method: str, params: BaseModel | None, result: Any) -> Any:
        """Send a request, and return its result."""

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        """Return whether the client declared everything that ``capability`` has."""
        if self.client_params is None:
            return False
        declared = self.client_params.capabilities.model_dump(exclude_none=True)
        return _includes(declared, capability.model_dump(exclude_none=True))

    # Notifications

    async def send_notification(self, notification: Any, related_request_id: base.RequestId | None = None) -> None:
        """Send a notification, on the stream of the request that it is related to."""
        message = getattr(notification, "root", notification)
        await self._send(message.method, message.params, related=related_request_id is not None)

    async def send_log_message(
        self,
        level: types.LoggingLevel,
        data: Any,
        logger: str | None = None,
        related_request_id: base.RequestId | None = None,
    ) -> None:
        """Send a log message."""
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        await self._send("notifications/message", params, related=related_request_id is not None)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: base.RequestId | None = None,
    ) -> None:
        """Send a progress notification."""
        params = types.ProgressNotificationParams(
            progressToken=progress_token, progress=progress, total=total, message=message
        )
        await self._send("notifications/progress", params, related=related_request_id is not None)

    async def send_resource_updated(self, uri: AnyUrl) -> None:
        """Notify the client that a resource has changed."""
        params = types.ResourceUpdatedNotificationParams(uri=uri)
        await self._send("notifications/resources/updated", params)

    async def send_resource_list_changed(self) -> None:
        """Notify the client that the list of resources has changed."""
        await self._send("notifications/resources/list_changed", None)

    async def send_tool_list_changed(self) -> None:
        """Notify the client that the list of tools has changed."""
        await self._send("notifications/tools/list_changed", None)

    async def send_prompt_list_changed(self) -> None:
        """Notify the client that the list of prompts has changed."""
        await self._send("notifications/prompts/list_changed", None)

    async def send_elicit_complete(self, elicitation_id: str, related_request_id: base.RequestId | None = None) -> None:
        """Notify the client that the page of an elicitation is done with."""
        params = types.ElicitCompleteNotificationParams(elicitationId=elicitation_id)
        await self._send("notifications/elicitation/complete", params, related=related_request_id is not None)

    # Requests to the client

    async def send_request(self, request: Any, result_type: Any, *args: Any, **options: Any) -> Any:
        """Send a request to the client, and return its result.

        Raises:
            McpError: the client does not support the request, or answered with an error.
        """
        message = request.root if isinstance(request, types.ServerRequest) else request
        return await self._ask(message.method, message.params, result_type)

    async def create_message(
        self,
        messages: list[types.SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        include_context: types.IncludeContext | None = None,
        temperature: float | None = None,
        stop_sequences: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        model_preferences: types.ModelPreferences | None = None,
        tools: list[types.Tool] | None = None,
        tool_choice: types.ToolChoice | None = None,
        related_request_id: base.RequestId | None = None,
    ) -> Any:
        """Ask the client's model for a message (sampling)."""
        declared = self.client_params
        validate_sampling_tools(None if declared is None else declared.capabilities, tools, tool_choice)
        validate_tool_use_result_messages(messages)
        params = types.CreateMessageRequestParams(
            messages=messages,
            maxTokens=max_tokens,
            systemPrompt=system_prompt,
            includeContext=include_context,
            temperature=temperature,
            stopSequences=stop_sequences,
            metadata=metadata,
            modelPreferences=model_preferences,
            tools=tools,
            toolChoice=tool_choice,
        )
        plain = tools is None and tool_choice is None
        result = types.CreateMessageResult if plain else types.CreateMessageResultWithTools
        return await self._ask("sampling/createMessage", params, result)

    async def list_roots(self) -> types.ListRootsResult:
        """Request the client's roots."""
        found: types.ListRootsResult = await self._ask("roots/list", None, types.ListRootsResult)
        return found

    async def elicit(
        self,
        message: str,
        requestedSchema: types.ElicitRequestedSchema,
        related_request_id: base.RequestId | None = None,
    ) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        return await self.elicit_form(message, requestedSchema, related_request_id)

    async def elicit_form(
        self,
        message: str,
        requestedSchema: types.ElicitRequestedSchema | None = None,
        related_request_id: base.RequestId | None = None,
        *,
        requested_schema: types.ElicitRequestedSchema | None = None,
    ) -> types.ElicitResult:
        """Ask the user to fill in a form. The schema has the names of both versions."""
        schema = requested_schema or requestedSchema or {}
        params = types.ElicitRequestFormParams(message=message, requestedSchema=schema)
        found: types.ElicitResult = await self._ask("elicitation/create", params, types.ElicitResult)
        return found

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: base.RequestId | None = None
    ) -> types.ElicitResult:
        """Ask the user to visit a page."""
        params = types.ElicitRequestURLParams(message=message, url=url, elicitationId=elicitation_id)
        found: types.ElicitResult = await self._ask("elicitation/create", params, types.ElicitResult)
        return found

    async def send_ping(self) -> base.EmptyResult:
        """Return at once: transports notice by themselves when a client is gone."""
        return base.EmptyResult()


def _includes(declared: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether the capabilities in ``wanted`` are all in ``declared``."""
    for name, value in wanted.items():
        if name not in declared:
            return False
        if isinstance(value, dict) and not _includes(declared[name] or {}, value):
            return False
        if value is True and declared[name] is not True:
            return False
    return True
