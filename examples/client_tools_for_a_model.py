"""The tools of several servers as one list for a model, with its calls routed to the right server.

    python examples/client_tools_for_a_model.py
    python examples/client_tools_for_a_model.py http://127.0.0.1:8000/mcp http://127.0.0.1:9000/mcp

prints the list in the format of model APIs. Without servers, it uses the two servers below, and acts as a model.
"""

import asyncio
import json
import re
import sys
from contextlib import AsyncExitStack
from typing import Any

from carrel import Client, MCPError, Server, ToolError
from carrel.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

weather = Server("weather", version="1.0")
diary = Server("diary", version="1.0")
entries: list[str] = []


@weather.tool(annotations={"readOnlyHint": True})
def look_up(city: str) -> str:
    """Say how the weather is in a city."""
    if city != "Vienna":
        raise ToolError("Only the weather of Vienna is known here.")
    return "Rain, 12 degrees."


@diary.tool()
def write(text: str) -> str:
    """Write an entry."""
    entries.append(text)
    return f"{len(entries)} entries"


@diary.tool(annotations={"readOnlyHint": True})
def look_up_entry(number: int) -> str:
    """Read an entry by its number."""
    return entries[number - 1]


class Toolbox:
    """The tools of several servers. Models use the names in ``definitions``, which are unique."""

    def __init__(self) -> None:
        self.definitions: list[dict[str, Any]] = []
        self._owners: dict[str, tuple[Client, str]] = {}

    async def add(self, client: Client, prefix: str) -> None:
        """Add the tools of a server. ``prefix`` is your name for the server, not the name that it reports."""
        async for tool in client.list_tools():
            name = known_as = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{prefix}__{tool.name}")[:60]
            number = 1
            while known_as in self._owners:
                number += 1
                known_as = f"{name}_{number}"
            self._owners[known_as] = client, tool.name
            self.definitions.append(
                {
                    "name": known_as,
                    "description": tool.description or tool.title or tool.name,
                    "input_schema": tool.input_schema,
                }
            )

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a tool for the model. Errors are included, so that the model can correct its call."""
        if name not in self._owners:
            return {"content": f"There is no tool {name}.", "is_error": True}
        client, tool = self._owners[name]
        try:
            result = await client.call_tool(tool, arguments, timeout=120)
        except MCPError as error:
            return {"content": f"The call failed: {error}", "is_error": True}
        return {"content": "\n".join(map(as_text, result.content)), "is_error": result.is_error is True}


def as_text(block: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource) -> str:
    """Convert a content block to text. Images could be passed unchanged to a model that supports them."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"{block.uri} ({block.title or block.name})"
    if isinstance(block, EmbeddedResource):
        return getattr(block.resource, "text", f"{block.resource.uri} (not a text)")
    return f"({len(block.data)} bytes of {block.mime_type})"


async def act(toolbox: Toolbox) -> None:
    """Act as a model: call tools by name, read the results, and correct a call."""
    for name, arguments in (
        ("s1__look_up", {"city": "Paris"}),
        ("s1__look_up", {"city": "Vienna"}),
        ("s2__write", {"text": "It rained."}),
        ("s2__look_up_entry", {"number": 1}),
        ("s2__burn", {}),
    ):
        result = await toolbox.call(name, arguments)
        print(f"{name}({json.dumps(arguments)}) {'failed' if result['is_error'] else 'said'}: {result['content']}")


async def main() -> None:
    servers: list[str | Server] = [*sys.argv[1:]] or [weather, diary]
    toolbox = Toolbox()
    try:
        async with AsyncExitStack() as stack:
            for number, server in enumerate(servers, 1):
                await toolbox.add(await stack.enter_async_context(Client(server)), f"s{number}")
            print(json.dumps(toolbox.definitions, indent=2))
            if not sys.argv[1:]:
                await act(toolbox)
    except MCPError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    asyncio.run(main())
