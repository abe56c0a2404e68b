"""Connects to a server of any revision, and shows its name, its resources and its tools.

    python examples/client.py
    python examples/client.py http://127.0.0.1:8000/mcp
    python examples/client.py python examples/tools.py

Without a server, it connects to the server below, in this process.
"""

import asyncio
import sys

from carrel import Client, MCPError, Server
from carrel.types import TextResourceContents, printable

app = Server("desk", version="1.0", instructions="Read note://welcome first.")
app.resources.add("note://welcome", "Welcome to the desk.", name="welcome", mime_type="text/plain")
app.resources.add("note://lamp", b"\x89PNG\r\n", name="lamp", mime_type="image/png")


@app.tool(annotations={"readOnlyHint": True})
def count_notes() -> int:
    """Count the notes on the desk."""
    return 2


def say(text: str) -> None:
    """Print one line of server text, without terminal control characters."""
    print(printable(text, 1000))


async def look_around(client: Client) -> None:
    """Print the contents of a server, read one resource, and call one read-only tool without required arguments."""
    say(f"{client.server.name if client.server else 'a server'} speaks {client.revision}")
    if client.instructions:
        say(f"  {client.instructions}")

    resources = await client.list_resources()
    for resource in resources[:20]:
        say(f"resource {resource.uri} ({resource.mime_type or 'unknown type'}): {resource.title or resource.name}")
    async for template in client.list_resource_templates():
        say(f"template {template.uri_template}: {template.title or template.name}")
    for contents in (await client.read_resource(resources[0].uri)).contents if resources else []:
        if isinstance(contents, TextResourceContents):
            say(f"{contents.uri} says: {contents.text[:200]}")
        else:
            say(f"{contents.uri} has {len(contents.blob)} bytes")

    tools = await client.list_tools()
    for tool in tools:
        say(f"tool {tool.name}: {tool.description or tool.title or ''}")
    harmless = [tool for tool in tools if tool.annotations and tool.annotations.read_only_hint]
    for tool in [tool for tool in harmless if not tool.input_schema.get("required")][:1]:
        result = await client.call_tool(tool.name)
        say(f"{tool.name} {'failed' if result.is_error else 'returned'}: {result.text}")


async def main() -> None:
    command = sys.argv[1:]
    url = command[0] if len(command) == 1 and command[0].startswith(("http://", "https://")) else None
    target: str | list[str] | Server = url or command or app
    try:
        async with Client(target) as client:
            await look_around(client)
    except MCPError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    asyncio.run(main())
