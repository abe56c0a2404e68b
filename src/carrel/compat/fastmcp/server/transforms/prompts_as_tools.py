"""Prompts as tools, for clients that have only tools."""

from __future__ import annotations

import json
from typing import Annotated, Any

from carrel.compat.fastmcp.server.dependencies import get_context
from carrel.compat.fastmcp.server.transforms.added_tools import AddedTools
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.mcp.types import TextContent

__all__ = ["PromptsAsTools"]


async def list_prompts() -> str:
    """List all available prompts.

    Returns JSON with prompt metadata including name, description,
    and optional arguments.
    """
    found = [
        {
            "name": each.name,
            "description": each.description,
            "arguments": [
                {"name": one.name, "description": one.description, "required": one.required}
                for one in each.arguments or ()
            ],
        }
        for each in await get_context().fastmcp.list_prompts()
    ]
    return json.dumps(found, indent=2)


async def get_prompt(
    name: Annotated[str, "The name of the prompt to get"],
    arguments: Annotated[dict[str, Any] | None, "Optional arguments for the prompt"] = None,
) -> str:
    """Get a prompt by name with optional arguments.

    Returns the rendered prompt as JSON with a messages array.
    Arguments should be provided as a dict mapping argument names
    to values.
    """
    result = await get_context().fastmcp.render_prompt(name, arguments or {})
    messages = [{"role": each.role, "content": _content(each.content)} for each in result.messages]
    return json.dumps({"messages": messages}, indent=2)


def _content(block: Any) -> Any:
    return block.text if isinstance(block, TextContent) else block.model_dump(mode="json", exclude_none=True)


class PromptsAsTools(AddedTools):
    """Transform of a server that adds the tools ``list_prompts`` and ``get_prompt``."""

    def __init__(self, provider: Any) -> None:
        super().__init__(provider, [Tool.from_function(each) for each in (list_prompts, get_prompt)])
