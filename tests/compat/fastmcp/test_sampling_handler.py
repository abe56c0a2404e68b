"""``FastMCP(sampling_handler=…)``: the server's own model, for clients without one or for all."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.exceptions import ToolError


async def own(messages: Any, params: Any, context: Any) -> str:
    return f"own: {messages[0].content.text}, {params.systemPrompt}, {params.maxTokens}"


def clients(messages: Any, params: Any, context: Any) -> str:
    return f"client's: {messages[0].content.text}"


async def asked(handler: Any, behavior: Any, *, has_model: bool) -> str:
    """Return what a tool gets that asks for a message."""
    server = FastMCP("sampling", sampling_handler=handler, sampling_handler_behavior=behavior)

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.sample("Hello", system_prompt="Be short.", max_tokens=7)).text)

    async with Client(server, sampling_handler=clients if has_model else None) as client:
        return str((await client.call_tool("ask")).data)


@pytest.mark.parametrize(
    ("handler", "behavior", "has_model", "expected"),
    [
        (own, None, False, "own: Hello, Be short., 7"),
        (own, "fallback", True, "client's: Hello"),
        (own, "always", True, "own: Hello, Be short., 7"),
        (lambda *_: "sync", "always", False, "sync"),
        (None, None, True, "client's: Hello"),
    ],
)
async def test_the_model_of_the_server_answers_clients_without_one_or_all(
    handler: Any, behavior: Any, has_model: bool, expected: str
) -> None:
    assert await asked(handler, behavior, has_model=has_model) == expected


@pytest.mark.parametrize(
    ("handler", "behavior", "complaint"),
    [(None, "always", "no handler configured"), (own, "other", "Invalid sampling_handler_behavior: 'other'")],
)
async def test_a_behavior_that_cannot_be_is_an_error_of_the_call(handler: Any, behavior: Any, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        await asked(handler, behavior, has_model=True)
