"""Built-in tools of the chat, with which the model finds and reads resources of the servers.

Their names have no server prefix, so they cannot clash with a server's tools.
"""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.chat.contents import blocks_of_contents
from carrel.errors import ConfigError, MCPError
from carrel.host import Host
from carrel.near_names import did_you_mean
from carrel.wire.content import ContentBlock, TextContent
from carrel.wire.tools import Tool, ToolAnnotations

__all__ = ["LIST_RESOURCES_TOOL", "OWN_TOOLS", "READ_RESOURCE_TOOL", "call_own_tool"]

#: Entries that one listing shows.
MOST = 100

READ_RESOURCE_TOOL = Tool(
    name="read_resource",
    description="Read a resource of a server by its URI, such as one that a tool result or list_resources names.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "name of the server"},
            "uri": {"type": "string", "description": "URI of the resource"},
        },
        "required": ["server", "uri"],
    },
    annotations=ToolAnnotations(read_only_hint=True),
)
LIST_RESOURCES_TOOL = Tool(
    name="list_resources",
    description="List resources and URI templates of the servers; with a query, only matching ones, best first.",
    input_schema={
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "only of this server"},
            "query": {"type": "string", "description": "words in the name, the title or the URI"},
        },
    },
    annotations=ToolAnnotations(read_only_hint=True),
)
OWN_TOOLS = {tool.name: tool for tool in (READ_RESOURCE_TOOL, LIST_RESOURCES_TOOL)}


async def call_own_tool(host: Host, name: str, arguments: dict[str, Any], budget: int) -> list[ContentBlock]:
    """Call a tool of the chat, and return its content.

    Raises:
        MCPError: an argument is wrong, or the server returns an error.
    """
    server = arguments.get("server")
    if server is not None and server not in host.servers:
        raise ConfigError(f"there is no server {server!r}{did_you_mean(str(server), host.servers)}")
    if name == READ_RESOURCE_TOOL.name:
        uri = arguments.get("uri")
        if not isinstance(server, str) or not isinstance(uri, str):
            raise ConfigError("read_resource needs server and uri, both text")
        result = await host.read_resource(server, uri)
        return [*blocks_of_contents(server, result.contents, budget)] or [TextContent("[The resource is empty.]")]
    return [TextContent(await _listing(host, server, str(arguments.get("query") or "")))]


async def _listing(host: Host, server: str | None, query: str) -> str:
    servers = list(host.servers) if server is None else [server]
    if query:
        found = [(one.server, one.item.resource) for one in await host.search(query, servers=servers, limit=MOST)]
    else:
        found = [(one.server, one.item) for one in await host.list_resources(servers=servers)]
    lines = []
    for name, item in found[:MOST]:
        entry = {"server": name, "uri": item.uri, "name": item.title or item.name}
        entry |= {"type": item.mime_type} if item.mime_type else {}
        entry |= {"description": item.description[:200]} if item.description else {}
        lines.append(msgspec.json.encode(entry).decode())
    if len(found) > MOST:
        lines.append(f"[{len(found) - MOST:,} more; give a query]")
    try:
        templates = [] if query else await host.list_resource_templates(servers=servers)
    except MCPError:
        templates = []
    shown = [{"server": one.server, "uriTemplate": one.item.uri_template} for one in templates[:MOST]]
    lines += [msgspec.json.encode(entry).decode() for entry in shown]
    return "\n".join(lines) or "[No resources.]"
