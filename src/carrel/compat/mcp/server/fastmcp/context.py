"""Context of a request, for functions with a parameter of this type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, get_args, get_origin, get_type_hints

from pydantic import AnyUrl, BaseModel

from carrel.compat.mcp.server.elicitation import (
    ElicitSchemaModelT,
    UrlElicitationResult,
    elicit_url,
    elicit_with_validation,
)
from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp.server.session import ServerSessionT
from carrel.compat.mcp.shared.context import LifespanContextT, RequestContext, RequestT

__all__ = ["Context", "find_context_parameter", "inject_context"]


class Context(BaseModel, Generic[ServerSessionT, LifespanContextT, RequestT]):
    """Context of a request: log messages, progress, requests to the client, and resources of the server."""

    _request_context: Any = None
    _fastmcp: Any = None

    def __init__(self, *, request_context: Any = None, fastmcp: Any = None, **values: Any) -> None:
        super().__init__(**values)
        self._request_context = request_context
        self._fastmcp = fastmcp

    @property
    def fastmcp(self) -> Any:
        """The server."""
        if self._fastmcp is None:
            raise ValueError("Context is not available outside of a request")
        return self._fastmcp

    @property
    def request_context(self) -> RequestContext[ServerSessionT, LifespanContextT, RequestT]:
        """The context in the terms of the low-level server."""
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        found: RequestContext[ServerSessionT, LifespanContextT, RequestT] = self._request_context
        return found

    @property
    def session(self) -> Any:
        """Session of the client."""
        return self.request_context.session

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return str(self.request_context.request_id)

    @property
    def client_id(self) -> str | None:
        """The ``client_id`` in ``_meta`` of the request."""
        meta = self.request_context.meta
        return None if meta is None else getattr(meta, "client_id", None)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client requested progress."""
        meta = self.request_context.meta
        if meta is not None and meta.progressToken is not None:
            await self.session.send_progress_notification(
                meta.progressToken, progress, total, message, related_request_id=self.request_id
            )

    async def read_resource(self, uri: str | AnyUrl) -> Iterable[ReadResourceContents]:
        """Read a resource of this server."""
        found: Iterable[ReadResourceContents] = await self.fastmcp.read_resource(uri)
        return found

    async def elicit(self, message: str, schema: type[ElicitSchemaModelT]) -> Any:
        """Ask the user to fill in the form that a model describes."""
        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Ask the user to visit a page."""
        return await elicit_url(self.session, message, url, elicitation_id, self.request_id)

    async def log(
        self, level: Literal["debug", "info", "warning", "error"], message: str, *, logger_name: str | None = None
    ) -> None:
        """Send a log message to the client."""
        await self.session.send_log_message(level, message, logger_name, related_request_id=self.request_id)

    async def debug(self, message: str, **extra: Any) -> None:
        """Send a log message of level debug."""
        await self.log("debug", message, **extra)

    async def info(self, message: str, **extra: Any) -> None:
        """Send a log message of level info."""
        await self.log("info", message, **extra)

    async def warning(self, message: str, **extra: Any) -> None:
        """Send a log message of level warning."""
        await self.log("warning", message, **extra)

    async def error(self, message: str, **extra: Any) -> None:
        """Send a log message of level error."""
        await self.log("error", message, **extra)

    async def close_sse_stream(self) -> None:
        """Close the SSE stream of the request: the client reconnects for the rest."""
        close = self.request_context.close_sse_stream
        if close is not None:
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Do nothing: the stream of a session is not closed before its session."""


def find_context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the context, or None."""
    try:
        hints = get_type_hints(function)
    except Exception:  # an annotation that cannot be evaluated: the signature is refused later, with the reason
        return None
    for name, kind in hints.items():
        kinds = (kind, *(get_args(kind) if get_origin(kind) is not None else ()))
        if any(inspect.isclass(each) and issubclass(each, Context) for each in kinds):
            return name
    return None


def inject_context(
    function: Callable[..., Any], arguments: dict[str, Any], context: Any, parameter: str | None
) -> dict[str, Any]:
    """Return the arguments with the context among them, if the function takes it."""
    return arguments if parameter is None or context is None else {**arguments, parameter: context}
