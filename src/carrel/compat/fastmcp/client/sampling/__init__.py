"""Answers of a client to sampling requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from carrel.compat.mcp.shared.context import RequestContext
from carrel.compat.mcp.types import CreateMessageRequestParams as SamplingParams
from carrel.compat.mcp.types import CreateMessageResult, SamplingMessage, TextContent
from carrel.compat.wire import as_model

__all__ = ["RequestContext", "SamplingHandler", "SamplingMessage", "SamplingParams", "sampling_callback"]

SamplingHandler: TypeAlias = Callable[[list[SamplingMessage], SamplingParams, Any], Any]


def sampling_callback(handler: SamplingHandler) -> Callable[[Any, SamplingParams], Awaitable[Any]]:
    """Return the callback of a handler, which takes messages, parameters and context, and may return text."""

    async def callback(context: Any, params: SamplingParams) -> Any:
        found = handler(params.messages, params, context)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, str):
            content = TextContent(type="text", text=found)
            return CreateMessageResult(role="assistant", model="fastmcp-client", content=content)
        return as_model(found, CreateMessageResult)

    return callback
