"""Middleware: base class with a hook for each kind of request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from carrel.protocol.revisions import REQUESTS

__all__ = ["CallNext", "Middleware", "MiddlewareContext", "run_middleware"]

T = TypeVar("T", default=Any)
R = TypeVar("R", default=Any)
Next: TypeAlias = Callable[["MiddlewareContext[Any]"], Awaitable[Any]]


class CallNext(Generic[T, R]):
    """Type of ``call_next``: the rest of the middleware, and the request itself."""

    def __call__(self, context: MiddlewareContext[T]) -> Awaitable[R]:
        raise NotImplementedError


@dataclass(kw_only=True, frozen=True)
class MiddlewareContext(Generic[T]):
    """Request on its way through the middleware."""

    message: T
    fastmcp_context: Any = None
    source: Literal["client", "server"] = "client"
    type: Literal["request", "notification"] = "request"
    method: str | None = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    def copy(self, **changes: Any) -> MiddlewareContext[T]:
        """Return the context with changes."""
        return replace(self, **changes)


class Middleware:
    """Code around requests, in hooks with ``call_next``: ``on_message``, ``on_request`` and one per method.

    The order is from ``on_message`` inwards.
    """

    async def __call__(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        chain: Next = call_next
        row = REQUESTS.get(context.method or "")
        names = ["" if row is None else f"on_{row.operation}", f"on_{context.type}", "on_message"]
        for name in names:
            if hasattr(Middleware, name):
                chain = partial(getattr(self, name), call_next=chain)
        return await chain(context)

    async def on_message(self, context: Any, call_next: Any) -> Any:
        """Handle any message."""
        return await call_next(context)

    async def on_request(self, context: Any, call_next: Any) -> Any:
        """Handle a request."""
        return await call_next(context)

    async def on_notification(self, context: Any, call_next: Any) -> Any:
        """Handle a notification. Not called: notifications are answered before there is a context."""
        return await call_next(context)

    async def on_initialize(self, context: Any, call_next: Any) -> Any:
        """Handle the first request of a session. Not called: clients of 2026-07-28 do not send it."""
        return await call_next(context)

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Handle a call of a tool, whose result is a ``ToolResult``."""
        return await call_next(context)

    async def on_read_resource(self, context: Any, call_next: Any) -> Any:
        """Handle a read, whose result is a ``ResourceResult``."""
        return await call_next(context)

    async def on_get_prompt(self, context: Any, call_next: Any) -> Any:
        """Handle a prompt, whose result is a ``PromptResult``."""
        return await call_next(context)

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        """Handle a list of tools."""
        return await call_next(context)

    async def on_list_resources(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resources."""
        return await call_next(context)

    async def on_list_resource_templates(self, context: Any, call_next: Any) -> Any:
        """Handle a list of resource templates."""
        return await call_next(context)

    async def on_list_prompts(self, context: Any, call_next: Any) -> Any:
        """Handle a list of prompts."""
        return await call_next(context)


async def run_middleware(middleware: list[Any], context: MiddlewareContext[Any], call: Next) -> Any:
    """Return the result of a call inside of middleware, of which the first is outermost."""
    chain = call
    for each in reversed(middleware):
        chain = partial(each, call_next=chain)
    return await chain(context)
