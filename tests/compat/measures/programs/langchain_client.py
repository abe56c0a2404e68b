"""Lists and calls the tools of two servers with langchain-mcp-adapters: ``langchain_client.py COMMAND URL``."""

from __future__ import annotations

import asyncio
import json
import sys

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult

ARGUMENTS = {"add": {"a": 1, "b": 2}, "ask": {"question": "Which?"}, "fails": {"reason": "none"}}


async def elicited(context, params, about):
    """Answer a question of the server."""
    print(about.server_name, params.message, json.dumps(params.requestedSchema))
    return ElicitResult(action="accept", content={"colour": "red"})


async def main(command, url):
    """Print everything that the servers have."""
    client = MultiServerMCPClient(
        {
            "local": {"transport": "stdio", "command": command[0], "args": command[1:]},
            "remote": {"transport": "streamable_http", "url": url},
        },
        callbacks=Callbacks(on_elicitation=elicited),
        tool_name_prefix=True,
    )
    for tool in await client.get_tools():
        print(tool.name, tool.description, json.dumps(tool.args_schema), tool.metadata)
        given = ARGUMENTS[tool.name.rpartition("_")[2]]
        found = await tool.ainvoke({"name": tool.name, "args": given, "id": "1", "type": "tool_call"})
        print(found.status, [block["text"] for block in found.content], found.artifact)
    for name in ("local", "remote"):
        print(await client.get_prompt(name, "greet", arguments={"name": "Ada"}))
        for blob in await client.get_resources(name, uris=["note://a", "item://b"]):
            print(blob.mimetype, blob.as_string(), blob.metadata)
    async with client.session("local") as session:
        tools = await load_mcp_tools(session)
        print([tool.name for tool in tools], (await tools[0].ainvoke({"a": 4}))[0]["text"])


asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
