"""OpenAI's Chat Completions and servers that speak the same: the tool calls in completions, and their results.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.agents.calls import ModelCall
from carrel.agents.vendor_tools import decoded_arguments, member
from carrel.vendors.openai_chat import content, declare, tool_results
from carrel.wire.client_features import ToolResultContent

__all__ = ["calls", "content", "declare", "results", "tool_list"]


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the tool calls in a completion, or in a message."""
    choices = member(response, "choices")
    message = member(choices[0], "message") if choices else response
    functions = [(call, member(call, "function")) for call in member(message, "tool_calls") or []]
    return [
        ModelCall(
            str(member(call, "id")),
            str(member(function, "name")),
            decoded_arguments(member(function, "arguments") or {}),
        )
        for call, function in functions
        if function is not None
    ]


def results(calls: Sequence[ModelCall], results: Sequence[ToolResultContent]) -> list[dict[str, Any]]:
    """Return a message for each result, and one with their images and files."""
    return tool_results(results)
