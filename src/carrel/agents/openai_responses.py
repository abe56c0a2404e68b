"""OpenAI's Responses API: the function calls in its responses, and their outputs.

https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.agents.calls import ModelCall
from carrel.agents.vendor_tools import decoded_arguments, member
from carrel.vendors.openai_responses import content, declare, tool_results
from carrel.wire.client_features import ToolResultContent

__all__ = ["calls", "content", "declare", "results", "tool_list"]


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls in a response."""
    return [
        ModelCall(
            str(member(item, "call_id")), str(member(item, "name")), decoded_arguments(member(item, "arguments") or {})
        )
        for item in member(response, "output") or []
        if member(item, "type") == "function_call"
    ]


def results(calls: Sequence[ModelCall], results: Sequence[ToolResultContent]) -> list[dict[str, Any]]:
    """Return an input item for each result."""
    return tool_results(results)
