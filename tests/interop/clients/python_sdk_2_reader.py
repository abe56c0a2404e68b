"""The official Python SDK 2.x reads every resource of a server, and prints the texts by name as JSON.

python_sdk_2_reader.py COMMAND ARGUMENT…
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.client import session

session.DISCOVER_TIMEOUT_SECONDS = 60.0  # as the machine may be busy


async def main() -> None:
    command, *arguments = sys.argv[1:]
    async with Client(StdioServerParameters(command=command, args=arguments), read_timeout_seconds=60) as client:
        found, cursor = {}, None
        while True:
            page = await client.list_resources(cursor=cursor)
            for resource in page.resources:
                found[resource.name] = (await client.read_resource(resource.uri)).contents[0].text
            cursor = page.next_cursor
            if cursor is None:
                break
        print(json.dumps(found))


asyncio.run(main())
