"""Client for ``fastmcp`` of a server in the same process, and of the command that it is given."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime

from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.logging import LogMessage
from fastmcp.client.messages import MessageHandler
from fastmcp.client.sampling import SamplingMessage, SamplingParams
from fastmcp.client.transports import FastMCPTransport, StdioTransport
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import McpError
from pydantic import BaseModel

mcp = FastMCP("in memory", instructions="Ask")


@dataclass
class Point:
    x: int
    label: str | None = None


@dataclass
class Place:
    x: int
    name: str = "here"


class Meeting(BaseModel):
    at: datetime
    where: Point
    who: list[str] = []


@mcp.tool
def point(x: int) -> Point:
    return Point(x)


@mcp.tool
def points(n: int) -> list[Point]:
    return [Point(each, "p") for each in range(n)]


@mcp.tool
def meeting() -> Meeting:
    return Meeting(at=datetime(2026, 1, 2), where=Point(1))


@mcp.tool
def table() -> dict[str, int]:
    return {"a": 1}


@mcp.tool
def number(a: int) -> int:
    return a


@mcp.tool
def text() -> str:
    return "text"


@mcp.tool
def fails() -> str:
    raise ToolError("it failed")


@mcp.tool
async def asks(ctx: Context) -> str:
    found = await ctx.elicit("Where?", Place)
    return f"{found.action} {found.data.x} {found.data.name}"


@mcp.tool
async def declined(ctx: Context) -> str:
    return (await ctx.elicit("Sure?", bool)).action


@mcp.tool
async def thinks(ctx: Context) -> str:
    return (await ctx.sample(["one", "two"], system_prompt="short", model_preferences="some-model")).text


@mcp.tool
async def works(ctx: Context) -> None:
    await ctx.info("begun", logger_name="work")
    await ctx.report_progress(1, 2)
    await ctx.report_progress(2, 2, "done")
    await ctx.session.send_tool_list_changed()


@mcp.tool
async def roots(ctx: Context) -> list[str]:
    return [str(each.uri) for each in await ctx.list_roots()]


@mcp.tool
async def remembers(ctx: Context, value: str | None = None) -> str | None:
    if value is not None:
        await ctx.set_state("value", value)
    return await ctx.get_state("value")


@mcp.resource("data://one")
def one() -> str:
    return "one"


@mcp.resource("data://{name}/part")
def part(name: str) -> bytes:
    return name.encode()


@mcp.prompt
def ask(topic: str, points: list[int]) -> str:
    return f"{topic} {sum(points)}"


#: What was heard of without being waited for.
heard = []


async def log(message: LogMessage) -> None:
    heard.append(message)
    print("log", message.level, message.logger, message.data["msg"])


async def progress(progress: float, total: float | None, message: str | None) -> None:
    heard.append(progress)
    print("progress", progress, total, message)


async def elicit(message: str, response_type: type, params, context):
    print("asked", message, params.requestedSchema["required"])
    if message == "Sure?":
        return ElicitResult(action="decline")
    return response_type(x=7)


async def sample(messages: list[SamplingMessage], params: SamplingParams, context) -> str:
    return f"{len(messages)} {params.systemPrompt} {params.modelPreferences.hints[0].name} {params.maxTokens}"


class Messages(MessageHandler):
    async def on_tool_list_changed(self, message) -> None:
        heard.append(message)
        print("tools changed")


async def in_memory() -> None:
    client = Client(
        mcp,
        log_handler=log,
        progress_handler=progress,
        elicitation_handler=elicit,
        sampling_handler=sample,
        message_handler=Messages(),
        roots=["file:///home"],
        timeout=60,
    )
    print(client.is_connected())
    async with client:
        print(client.is_connected(), await client.ping(), client.initialize_result.serverInfo.name)
        print([tool.name for tool in await client.list_tools()])
        print([str(each.uri) for each in await client.list_resources()])
        print([each.uriTemplate for each in await client.list_resource_templates()])
        print([each.name for each in await client.list_prompts()])
        result = await client.call_tool("point", {"x": 3})
        print(result.data.x, result.data.label, result.structured_content, result.content[0].text, result.is_error)
        print([each.x for each in (await client.call_tool("points", {"n": 2})).data])
        found = (await client.call_tool("meeting")).data
        print(found.at, found.where.x, found.who)
        for name in ("table", "text", "asks", "declined", "thinks", "roots"):
            print(name, (await client.call_tool(name)).data)
        heard.clear()
        print((await client.call_tool("works", progress_handler=progress)).data)
        async with asyncio.timeout(60):
            while len(heard) < 4:
                await asyncio.sleep(0.01)
        print((await client.call_tool("remembers", {"value": "kept"})).data, (await client.call_tool("remembers")).data)
        failed = await client.call_tool("fails", raise_on_error=False)
        print(failed.is_error, failed.content[0].text, failed.data)
        for name, arguments in (("fails", {}), ("none", {}), ("number", {"a": "x"})):
            try:
                await client.call_tool(name, arguments)
            except ToolError as error:
                print("error", str(error).splitlines()[0])
        print((await client.read_resource("data://one"))[0].text, (await client.read_resource("data://x/part"))[0].blob)
        try:
            await client.read_resource("data://none")
        except McpError as error:
            print("error", error)
        print((await client.get_prompt("ask", {"topic": "sum", "points": [1, 2]})).messages[0].content.text)
        async with client:
            print((await client.call_tool("number", {"a": 1})).data)
        print(client.is_connected())
    print(client.is_connected())
    async with Client(FastMCPTransport(mcp)) as other:
        print((await other.call_tool_mcp("number", {"a": 2})).structuredContent)


async def over_stdio(command: list[str]) -> None:
    async with Client(StdioTransport(command[0], command[1:])) as client:
        print(len(await client.list_tools()), (await client.call_tool("add", {"a": 40})).data)
    config = {"mcpServers": {"one": {"command": command[0], "args": command[1:]}}}
    async with Client(config) as client:
        print((await client.call_tool("point", {"x": 1})).data.y)


asyncio.run(in_memory())
asyncio.run(over_stdio(sys.argv[1:]))
