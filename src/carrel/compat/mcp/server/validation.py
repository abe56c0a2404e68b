"""Checks of sampling requests, for both generations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.compat.mcp.shared.exceptions import McpError
from carrel.errors import INVALID_PARAMS

if TYPE_CHECKING:
    from carrel.compat.mcp import types

__all__ = [
    "check_sampling_tools_capability",
    "validate_sampling_tools",
    "validate_tool_use_result_messages",
    "wants_sampling_tools",
]


def check_sampling_tools_capability(client_caps: Any) -> bool:
    """Return whether a client's model can use tools."""
    return client_caps is not None and client_caps.sampling is not None and client_caps.sampling.tools is not None


def wants_sampling_tools(tools: Any, tool_choice: Any) -> bool:
    """Return whether a sampling request is about tools."""
    return tools is not None or tool_choice is not None


def validate_sampling_tools(
    client_caps: types.ClientCapabilities | None,
    tools: list[types.Tool] | None,
    tool_choice: types.ToolChoice | None,
) -> None:
    """Check that a client's model can use tools, if the request is about tools.

    Raises:
        McpError: it cannot.
    """
    if wants_sampling_tools(tools, tool_choice) and not check_sampling_tools_capability(client_caps):
        raise McpError(code=INVALID_PARAMS, message="Client does not support sampling tools capability")


def validate_tool_use_result_messages(messages: list[Any]) -> None:
    """Check that the results of tools in the last message belong to the uses of tools in the message before.

    Raises:
        ValueError: they do not, or the last message has other content beside results.
    """
    if not messages:
        return
    last: list[Any] = messages[-1].content_as_list
    before: list[Any] | None = messages[-2].content_as_list if len(messages) > 1 else None
    results = {_used(each) for each in last if each.type == "tool_result"}
    uses = {each.id for each in before or () if each.type == "tool_use"}
    if results:
        if any(each.type != "tool_result" for each in last):
            raise ValueError("The last message must contain only tool_result content if any is present")
        if before is None:
            raise ValueError("tool_result requires a previous message containing tool_use")
        if not uses:
            raise ValueError("tool_result blocks do not match any tool_use in the previous message")
    if uses and uses != results:
        raise ValueError("ids of tool_result blocks and tool_use blocks from previous message do not match")


def _used(result: Any) -> str:
    """Return the id of the use of a tool that a result is for."""
    found: str = result.toolUseId if hasattr(result, "toolUseId") else result.tool_use_id
    return found
