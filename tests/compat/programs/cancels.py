"""Server with a tool that does not end; ``cancels.py COMMAND …`` is a client of one that cancels a call by hand."""

import asyncio
import sys

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.server.fastmcp import Context, FastMCP

mcp = FastMCP("cancels")


@mcp.tool()
async def wait(ctx: Context) -> str:
    await ctx.info(ctx.request_id)
    await asyncio.Event().wait()
    return "never"


async def main(command: str, *arguments: str) -> None:
    ids: asyncio.Queue[str] = asyncio.Queue()

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        ids.put_nowait(params.data)

    server = StdioServerParameters(command=command, args=list(arguments))
    async with stdio_client(server) as (read, write), ClientSession(read, write, logging_callback=note) as session:
        await session.initialize()
        call = asyncio.ensure_future(session.call_tool("wait"))
        params = types.CancelledNotificationParams(requestId=int(await ids.get()))
        await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        try:
            await call
        except McpError as error:
            print(error.error)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(*sys.argv[1:]))
    else:
        mcp.run()
