import asyncio

import mcp.server.stdio
import mcp.types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from pydantic import AnyUrl

server = Server("low")


@server.list_tools()
async def lt():
    return [
        types.Tool(
            name="add",
            description="adds",
            inputSchema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        )
    ]


@server.call_tool()
async def ct(name, arguments):
    ctx = server.request_context
    await ctx.session.send_log_message(level="info", data="hi", related_request_id=ctx.request_id)
    if name != "add":
        raise ValueError(f"Unknown tool: {name}")
    return [types.TextContent(type="text", text=str(arguments["a"] + 1))]


@server.list_resources()
async def lr():
    return [types.Resource(uri=AnyUrl("x://a"), name="A")]


@server.read_resource()
async def rr(uri):
    if str(uri) != "x://a":
        raise ValueError("no such")
    return "text of " + str(uri)


@server.list_prompts()
async def lp():
    return [types.Prompt(name="p", arguments=[types.PromptArgument(name="n", required=True)])]


@server.get_prompt()
async def gp(name, arguments):
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=types.TextContent(type="text", text=f"{name} {arguments}"))]
    )


async def run():
    async with mcp.server.stdio.stdio_server() as (r, w):
        await server.run(
            r,
            w,
            InitializationOptions(
                server_name="low",
                server_version="0.1",
                capabilities=server.get_capabilities(
                    notification_options=NotificationOptions(), experimental_capabilities={}
                ),
            ),
        )


if __name__ == "__main__":
    asyncio.run(run())
