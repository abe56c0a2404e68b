"""The official Python SDK 2.x reads every list of a server, and some of what is in them; prints it as JSON.

python_sdk_2_lists.py MODE WANTED (URL | COMMAND ARGUMENT…), MODE being "legacy" or "auto", WANTED a JSON object with
the "tools" and "prompts" to use, with their arguments, and the "resources" to read.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client import session

session.DISCOVER_TIMEOUT_SECONDS = 60.0  # as the machine may be busy


def plain(item) -> dict:
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)


async def all_of(method, name: str) -> list:
    found, cursor = [], None
    while True:
        try:
            page = await method(cursor=cursor)
        except MCPError as error:
            return found if error.error.code == -32601 else [error.error.code]
        found += [plain(item) for item in getattr(page, name)]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def main() -> None:
    mode, wanted, *target = sys.argv[1:]
    where = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    wants = json.loads(wanted)
    async with Client(where, mode=mode, read_timeout_seconds=60) as client:
        seen = {
            "tools": await all_of(client.list_tools, "tools"),
            "prompts": await all_of(client.list_prompts, "prompts"),
            "resources": await all_of(client.list_resources, "resources"),
            "templates": await all_of(client.list_resource_templates, "resource_templates"),
            "called": [plain(await client.call_tool(name, arguments)) for name, arguments in wants["tools"]],
            "read": [plain(await client.read_resource(uri)) for uri in wants["resources"]],
            "got": [plain(await client.get_prompt(name, arguments)) for name, arguments in wants["prompts"]],
        }
    print(json.dumps(seen))


asyncio.run(main())
