"""Anthropic's Messages API: the calls in its messages, and their results.

https://docs.anthropic.com/en/docs/build-with-claude/tool-use
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from carrel.agents.calls import ModelCall
from carrel.agents.vendor_tools import member
from carrel.vendors.anthropic import content, declare, tool_results
from carrel.wire.client_features import ToolResultContent

__all__ = ["calls", "content", "declare", "results", "tool_list"]


def tool_list(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the value of ``tools``."""
    return list(tools)


def calls(response: Any) -> list[ModelCall]:
    """Return the tool uses in a message."""
    blocks = member(response, "content")
    return [
        ModelCall(str(member(block, "id")), str(member(block, "name")), member(block, "input") or {})
        for block in (blocks if isinstance(blocks, list) else [])
        if member(block, "type") == "tool_use"
    ]


def results(calls: Sequence[ModelCall], results: Sequence[ToolResultContent]) -> list[dict[str, Any]]:
    """Return one message with all results."""
    return tool_results(results)
