"""Checks of sampling requests."""

from __future__ import annotations

from carrel.compat.mcp.server.validation import (
    check_sampling_tools_capability,
    validate_tool_use_result_messages,
    wants_sampling_tools,
)
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import INVALID_PARAMS

__all__ = [
    "check_sampling_tools_capability",
    "validate_sampling_tools",
    "validate_tool_use_result_messages",
    "wants_sampling_tools",
]


def validate_sampling_tools(
    client_caps: types.ClientCapabilities | None,
    tools: list[types.Tool] | None,
    tool_choice: types.ToolChoice | None,
) -> None:
    """Check that a client's model can use tools, if the request is about tools.

    Raises:
        MCPError: it cannot.
    """
    if wants_sampling_tools(tools, tool_choice) and not check_sampling_tools_capability(client_caps):
        raise MCPError(INVALID_PARAMS, "Client does not support sampling tools capability")
