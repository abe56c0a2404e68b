"""Client that lists and reads what a server has, written for ``mcp`` 1.x."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Notification


async def main() -> None:
    params = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=None)
    async with stdio_client(params) as (reader, writer), ClientSession(reader, writer) as session:
        await session.initialize()
        await session.send_notification(Notification(method="notifications/initialized", params={}))
        response = await session.list_resources()
        print(response)
        for resource in response.resources:
            contents = (await session.read_resource(resource.uri)).contents
            print(resource.uri, resource.name, contents[0].text)


if __name__ == "__main__":
    asyncio.run(main())
