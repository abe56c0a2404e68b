"""The official Python SDK 1.x on a tour of a golden application; prints what it saw as JSON.

python_sdk_1.py (URL | COMMAND ARGUMENT…); a URL that ends with /sse is one of HTTP+SSE. Of the application that asks it
sees what comes of its answers.
"""

import asyncio
import contextlib
import datetime
import json
import sys

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def tour(client: ClientSession, updates: asyncio.Queue, logs: list) -> dict:
    opened = await client.initialize()
    seen = {"revision": opened.protocolVersion, "server": opened.serverInfo.name, "instructions": opened.instructions}
    if opened.serverInfo.name == "asking":
        return {"revision": opened.protocolVersion, "answered": await answered(client)}

    seen["pages"], cursor = [], None
    while True:
        page = await client.list_resources(params=types.PaginatedRequestParams(cursor=cursor))
        seen["pages"].append([str(resource.uri) for resource in page.resources])
        if page.nextCursor is None:
            break
        cursor = page.nextCursor
    listed, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        listed += page.resources
        cursor = page.nextCursor
        if cursor is None:
            break
    seen["rich"] = next(resource.title for resource in listed if resource.name == "rich")
    seen["templates"] = [t.uriTemplate for t in (await client.list_resource_templates()).resourceTemplates]
    seen["read"] = [
        content.text if isinstance(content, types.TextResourceContents) else content.blob
        for uri in ("memo://plain", "memo://both", "book://le%20guin/the%20dispossessed")
        for content in (await client.read_resource(uri)).contents
    ]

    await client.subscribe_resource("memo://watched")
    await client.call_tool("touch", {"uri": "memo://watched"})
    seen["updated"] = await updates.get()
    await client.unsubscribe_resource("memo://watched")

    tools, cursor = [], None
    while True:
        page = await client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        if page.nextCursor is None:
            break
        cursor = page.nextCursor
    seen["tools"] = [tool.name for tool in tools]
    seen["blocks"] = [block.type for block in (await client.call_tool("blocks")).content]
    seen["structured"] = (await client.call_tool("weather", {"city": "Oslo"})).structuredContent
    seen["in a header"] = (await client.call_tool("regional", {"region": "日本"})).content[0].text
    failure = await client.call_tool("fail")
    seen["failure"] = [failure.isError, failure.content[0].text]

    await client.set_logging_level("info")
    progress = []

    async def report(done, total, message):
        progress.append([done, total, message])

    seen["counted"] = (await client.call_tool("count", {"upto": 2}, progress_callback=report)).content[0].text
    seen["progress"], seen["logs"] = progress, logs

    seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
    seen["prompt"] = (await client.get_prompt("review", {"code": "pass"})).messages[0].content.text
    book = types.ResourceTemplateReference(type="ref/resource", uri="book://{author}/{title}")
    found = await client.complete(book, {"name": "title", "value": "s"}, {"author": "lem"})
    seen["completed"] = found.completion.values
    review = types.PromptReference(type="ref/prompt", name="review")
    seen["completed prompt"] = (await client.complete(review, {"name": "language", "value": "r"})).completion.values

    seen["errors"] = [
        await code_of(client.read_resource("memo://nowhere")),
        await code_of(client.call_tool("nonesuch")),
        await code_of(client.get_prompt("nonesuch")),
        await code_of(client.list_resources(params=types.PaginatedRequestParams(cursor="not one of ours"))),
    ]
    return seen


async def answered(client: ClientSession) -> dict:
    seen = {
        name: (await client.call_tool(name)).content[0].text
        for name in ("greet", "book", "choose", "pay", "ponder", "look", "survey")
    }
    seen["prompt"] = (await client.get_prompt("greeting")).messages[0].content.text
    seen["resource"] = (await client.read_resource("memo://name")).contents[0].text
    return seen


async def elicit(context, params) -> types.ElicitResult:
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    fields = params.requestedSchema["properties"]
    known = {"name": "Ada", "value": True, "letters": ["a"]}
    return types.ElicitResult(action="accept", content={name: known[name] for name in fields if name in known})


async def sample(context, params) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=said, model="m", stopReason="endTurn")


async def list_roots(context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="Home")])


async def code_of(request) -> int | None:
    try:
        await request
    except McpError as error:
        return error.error.code
    return None


async def main() -> None:
    target = sys.argv[1:]
    updates: asyncio.Queue = asyncio.Queue()
    logs: list = []

    async def heard(message) -> None:
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ResourceUpdatedNotification):
            updates.put_nowait(str(notification.params.uri))

    async def logged(params) -> None:
        logs.append([params.level, params.data])

    async with contextlib.AsyncExitStack() as stack:
        if target[0].endswith("/sse"):
            read, write = await stack.enter_async_context(sse_client(target[0]))
        elif len(target) == 1:
            read, write, _ = await stack.enter_async_context(streamable_http_client(target[0]))
        else:
            parameters = StdioServerParameters(command=target[0], args=target[1:])
            read, write = await stack.enter_async_context(stdio_client(parameters))
        patience = datetime.timedelta(seconds=10)
        client = ClientSession(
            *(read, write, patience, sample, elicit, list_roots), message_handler=heard, logging_callback=logged
        )
        await stack.enter_async_context(client)
        print(json.dumps(await tour(client, updates, logs)))


asyncio.run(main())
