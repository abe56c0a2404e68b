"""Context of a tool, resource or prompt: messages and requests to the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic

from pydantic import AnyUrl, BaseModel, model_validator
from typing_extensions import deprecated

from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.context import LifespanContextT, RequestT, ServerRequestContext
from carrel.compat.mcp2.server.elicitation import (
    ElicitSchemaModelT,
    UrlElicitationResult,
    elicit_url,
    elicit_with_validation,
)
from carrel.compat.mcp2.server.session import ServerSession
from carrel.compat.mcp2.server.subscriptions import SubscriptionBus
from carrel.compat.mcp2.shared.deprecation import LOGGING
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning
from carrel.compat.mcp2.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

__all__ = ["Context"]

OUTSIDE = "Context is not available outside of a request"


class Context(BaseModel, Generic[LifespanContextT, RequestT]):
    """Context of one request."""

    _request_context: ServerRequestContext[Any, Any] | None
    _mcp_server: Any
    _input_params: Any
    _subscriptions: Any

    def __init__(
        self,
        *,
        request_context: ServerRequestContext[LifespanContextT, RequestT] | None = None,
        mcp_server: Any = None,
        input_params: types.InputResponseRequestParams | None = None,
        subscriptions: SubscriptionBus | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._request_context = request_context
        self._mcp_server = mcp_server
        self._input_params = input_params
        self._subscriptions = subscriptions

    @model_validator(mode="wrap")
    @classmethod
    def _keep(cls, value: Any, handler: Any) -> Any:
        return value if isinstance(value, Context) else handler(value)

    @property
    def mcp_server(self) -> Any:
        """The server.

        Raises:
            ValueError: the context has none.
        """
        if self._mcp_server is None:
            raise ValueError(OUTSIDE)
        return self._mcp_server

    @property
    def request_context(self) -> ServerRequestContext[LifespanContextT, RequestT]:
        """The context of the low-level server.

        Raises:
            ValueError: there is no request.
        """
        if self._request_context is None:
            raise ValueError(OUTSIDE)
        return self._request_context

    @property
    def session(self) -> ServerSession:
        """The session of the client."""
        return self.request_context.session

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return str(self.request_context.request_id)

    @property
    def headers(self) -> Mapping[str, str] | None:
        """Headers of the HTTP request; None on other transports."""
        return getattr(self.request_context.request, "headers", None)

    @property
    def protocol_version(self) -> str | None:
        """Revision of the request; None outside of a request."""
        return None if self._request_context is None else self._request_context.protocol_version

    @property
    def input_responses(self) -> types.InputResponses | None:
        """Answers of the client to the questions of an earlier result; None without any."""
        return None if self._input_params is None else self._input_params.input_responses

    @property
    def request_state(self) -> str | None:
        """State of an earlier result; None without any."""
        return None if self._input_params is None else self._input_params.request_state

    @property
    def client_capabilities(self) -> types.ClientCapabilities | None:
        """Capabilities that the client declared."""
        return self.session.client_capabilities

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress of the request, if the client wants to know."""
        await self.session.report_progress(progress, total, message)

    # Events

    @property
    def _bus(self) -> SubscriptionBus:
        if self._subscriptions is None:
            raise ValueError(OUTSIDE)
        bus: SubscriptionBus = self._subscriptions
        return bus

    async def notify_tools_changed(self) -> None:
        """Notify clients that listen that the list of tools has changed."""
        await self._bus.publish(ToolsListChanged())

    async def notify_prompts_changed(self) -> None:
        """Notify clients that listen that the list of prompts has changed."""
        await self._bus.publish(PromptsListChanged())

    async def notify_resources_changed(self) -> None:
        """Notify clients that listen that the list of resources has changed."""
        await self._bus.publish(ResourcesListChanged())

    async def notify_resource_updated(self, uri: str | AnyUrl) -> None:
        """Notify clients that listen that a resource has changed."""
        await self._bus.publish(ResourceUpdated(uri=str(uri)))

    # Resources and questions

    async def read_resource(self, uri: str | AnyUrl) -> Iterable[ReadResourceContents]:
        """Read a resource of the server.

        Raises:
            ResourceError: it cannot be read.
            RuntimeError: it has questions to the client.
        """
        assert self._mcp_server is not None, OUTSIDE
        nested: Context[Any, Any] = Context(
            request_context=self._request_context, mcp_server=self._mcp_server, subscriptions=self._subscriptions
        )
        result: Any = await self._mcp_server.read_resource(uri, nested)
        if isinstance(result, types.InputRequiredResult):
            raise RuntimeError(
                "Resource returned InputRequiredResult; ctx.read_resource() only returns "
                "content — use MCPServer.read_resource(uri, context) to receive and forward it."
            )
        contents: Iterable[ReadResourceContents] = result
        return contents

    async def elicit(self, message: str, schema: type[ElicitSchemaModelT]) -> Any:
        """Ask the user to fill in the form that a model describes, and return an ``ElicitationResult``."""
        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Ask the user to visit a page."""
        return await elicit_url(self.session, message, url, elicitation_id, self.request_id)

    # Streams and log messages

    async def close_sse_stream(self) -> None:
        """Close the stream of the request over HTTP, for the client to come back."""
        close = None if self._request_context is None else self._request_context.close_sse_stream
        if close is not None:
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Close the client's stream for other messages, for the client to come back."""
        close = None if self._request_context is None else self._request_context.close_standalone_sse_stream
        if close is not None:
            await close()

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def log(self, level: str, data: Any, *, logger_name: str | None = None) -> None:
        """Send a log message."""
        await self.session.send_log_message(
            level=level, data=data, logger=logger_name, related_request_id=self.request_id
        )

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def debug(self, data: Any, *, logger_name: str | None = None) -> None:
        """Send a log message of this level."""
        await self.log("debug", data, logger_name=logger_name)

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def info(self, data: Any, *, logger_name: str | None = None) -> None:
        """Send a log message of this level."""
        await self.log("info", data, logger_name=logger_name)

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def warning(self, data: Any, *, logger_name: str | None = None) -> None:
        """Send a log message of this level."""
        await self.log("warning", data, logger_name=logger_name)

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def error(self, data: Any, *, logger_name: str | None = None) -> None:
        """Send a log message of this level."""
        await self.log("error", data, logger_name=logger_name)
