"""Middleware: functions, or objects with a hook for each method, around the requests that a server handles.

@app.middleware
async def timing(call, next):
    started = time.monotonic()
    try:
        return await next(call)
    finally:
        print(call.method, time.monotonic() - started)

class Uppercase(Middleware):
    async def on_get_prompt(self, call, next):
        result = await next(call)
        result.description = (result.description or "").upper()
        return result

app.middleware(Uppercase())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from carrel.errors import ConfigError
from carrel.protocol.server import Call
from carrel.wire.base import PageParams, Result
from carrel.wire.completion import CompleteParams, CompleteResult
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
)
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    R = DefaultTypeVar("R", default=Result)
else:
    R = TypeVar("R")

__all__ = ["Middleware", "MiddlewareFunction", "Next", "caller_of", "target_of"]

Next: TypeAlias = Callable[[Call], Awaitable[R]]
"""Passes a call on, to the next middleware or to its handler, and returns the result."""
MiddlewareFunction: TypeAlias = Callable[[Call, Next], Awaitable[Result]]
"""Function around the calls of some methods: gets a call and ``next``, and returns a result or raises an error."""


class Middleware:
    """Base class of middleware with a hook for each method. Override the hooks that apply; the others cost nothing.

    ``on_request`` is around every request, outside the hook of its method.

    Raises:
        ConfigError: a subclass has a method ``on_…`` that is not a hook.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Middleware, name):
                from carrel.near_names import nearest_first

                hooks = [hook for hook in vars(Middleware) if hook.startswith("on_")]
                raise ConfigError(
                    f"{cls.__name__}: there is no hook {name!r}: the hooks are {', '.join(nearest_first(name, hooks))}"
                )

    async def on_request(self, call: Call, next: Next) -> Result:
        """Handle any request, including requests of extensions."""
        return await next(call)

    def on_change(self, uris: Sequence[str], lists: Collection[str]) -> None:
        """Called when resources or lists of the server have changed. ``lists`` has names like "tools_list_changed"."""

    async def on_call_tool(self, call: Call[CallToolParams], next: Next[CallToolResult]) -> CallToolResult:
        """Handle a tool call."""
        return await next(call)

    async def on_list_tools(self, call: Call[PageParams], next: Next[ListToolsResult]) -> ListToolsResult:
        """Handle a request for a page of tools."""
        return await next(call)

    async def on_read_resource(
        self, call: Call[ReadResourceParams], next: Next[ReadResourceResult]
    ) -> ReadResourceResult:
        """Handle the read of a resource."""
        return await next(call)

    async def on_list_resources(self, call: Call[PageParams], next: Next[ListResourcesResult]) -> ListResourcesResult:
        """Handle a request for a page of resources."""
        return await next(call)

    async def on_list_resource_templates(
        self, call: Call[PageParams], next: Next[ListResourceTemplatesResult]
    ) -> ListResourceTemplatesResult:
        """Handle a request for a page of resource templates."""
        return await next(call)

    async def on_get_prompt(self, call: Call[GetPromptParams], next: Next[GetPromptResult]) -> GetPromptResult:
        """Handle a request for a prompt."""
        return await next(call)

    async def on_list_prompts(self, call: Call[PageParams], next: Next[ListPromptsResult]) -> ListPromptsResult:
        """Handle a request for a page of prompts."""
        return await next(call)

    async def on_complete(self, call: Call[CompleteParams], next: Next[CompleteResult]) -> CompleteResult:
        """Handle a completion request."""
        return await next(call)


def caller_of(call: Call) -> Hashable:
    """Return the key of a caller: the user of the authenticated principal, or else the client.

    All OAuth clients of a user count as one caller, as it can register many.
    """
    return call.client.key if call.principal is None else ("user", call.principal.user)


def target_of(call: Call) -> str:
    """Return the name or URI that a call is about, or an empty string."""
    target = call.request.find_target(call.params)
    return target if isinstance(target, str) else ""
