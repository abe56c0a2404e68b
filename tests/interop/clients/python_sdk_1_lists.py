"""The official Python SDK 1.x reads every list of a server, and some of what is in them; prints it as JSON.

python_sdk_1_lists.py WANTED URL, as of python_sdk_2_lists.py.
"""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


def plain(item) -> dict:
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)


async def all_of(method, name: str) -> list:
    found, cursor = [], None
    while True:
        page = await method(cursor=cursor)
        found += [plain(item) for item in getattr(page, name)]
        cursor = page.nextCursor
        if cursor is None:
            return found


async def main() -> None:
    wanted, url = sys.argv[1:]
    wants = json.loads(wanted)
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        seen = {
            "tools": await all_of(client.list_tools, "tools"),
            "prompts": await all_of(client.list_prompts, "prompts"),
            "resources": await all_of(client.list_resources, "resources"),
            "templates": await all_of(client.list_resource_templates, "resourceTemplates"),
            "called": [plain(await client.call_tool(name, arguments)) for name, arguments in wants["tools"]],
            "read": [plain(await client.read_resource(uri)) for uri in wants["resources"]],
            "got": [plain(await client.get_prompt(name, arguments)) for name, arguments in wants["prompts"]],
        }
    print(json.dumps(seen))


asyncio.run(main())
