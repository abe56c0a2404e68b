"""Gemini's generateContent: the function calls in its responses, and their results.

https://ai.google.dev/gemini-api/docs/function-calling
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.agents.calls import ModelCall
from carrel.agents.vendor_tools import member
from carrel.vendors.gemini import content, declare, tool_results
from carrel.wire.client_features import ToolResultContent

__all__ = ["calls", "content", "declare", "results", "tool_list"]


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``: one with all functions."""
    return [{"functionDeclarations": list(tools)}] if tools else []


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls in a response, or in a content."""
    candidates = member(response, "candidates")
    content = member(candidates[0], "content") if candidates else response
    found = [member(part, "function_call", "functionCall") for part in member(content, "parts") or []]
    return [
        ModelCall(str(member(call, "id") or f"#{number}"), str(member(call, "name")), member(call, "args") or {})
        for number, call in enumerate(found)
        if call is not None
    ]


def results(calls: Sequence[ModelCall], results: Sequence[ToolResultContent]) -> list[dict[str, Any]]:
    """Return one content with all results."""
    return tool_results(results, {call.id: call.name for call in calls})
