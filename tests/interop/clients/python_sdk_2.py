"""The official Python SDK 2.x on a tour of a golden application; prints what it saw as JSON.

python_sdk_2.py MODE (URL | COMMAND ARGUMENT…), MODE being "legacy" or "auto". Of the application that asks it sees what
comes of its answers.
"""

import asyncio
import json
import sys

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import session

session.DISCOVER_TIMEOUT_SECONDS = 60.0  # as the machine may be busy


async def tour(client: Client, updates: asyncio.Queue, logs: list) -> dict:
    modern = client.protocol_version == "2026-07-28"
    seen = {"revision": client.protocol_version, "server": client.server_info.name, "instructions": client.instructions}
    if client.server_info.name == "asking":
        return {"revision": client.protocol_version, "answered": await answered(client)}

    seen["pages"], cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        seen["pages"].append([resource.uri for resource in page.resources])
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    listed, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        listed += page.resources
        cursor = page.next_cursor
        if cursor is None:
            break
    seen["rich"] = next(resource.title for resource in listed if resource.name == "rich")
    seen["templates"] = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
    seen["read"] = [
        content.text if isinstance(content, types.TextResourceContents) else content.blob
        for uri in ("memo://plain", "memo://both", "book://le%20guin/the%20dispossessed")
        for content in (await client.read_resource(uri)).contents
    ]

    if modern:
        async with client.listen(resource_subscriptions=["memo://watched"]) as subscription:
            await client.call_tool("touch", {"uri": "memo://watched"})
            seen["updated"] = (await anext(aiter(subscription))).uri
    else:
        await client.subscribe_resource("memo://watched")
        await client.call_tool("touch", {"uri": "memo://watched"})
        seen["updated"] = await updates.get()
        await client.unsubscribe_resource("memo://watched")

    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    seen["tools"] = [tool.name for tool in tools]
    seen["blocks"] = [block.type for block in (await client.call_tool("blocks")).content]
    seen["structured"] = (await client.call_tool("weather", {"city": "Oslo"})).structured_content
    seen["in a header"] = (await client.call_tool("regional", {"region": "日本"})).content[0].text
    failure = await client.call_tool("fail")
    seen["failure"] = [failure.is_error, failure.content[0].text]

    if not modern:
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
        await code_of(client.list_resources(cursor="not one of ours")),
    ]
    return seen


async def answered(client: Client) -> dict:
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
    fields = params.requested_schema["properties"]
    known = {"name": "Ada", "value": True, "letters": ["a"]}
    return types.ElicitResult(action="accept", content={name: known[name] for name in fields if name in known})


async def sample(context, params) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=said, model="m", stop_reason="endTurn")


async def list_roots(context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="Home")])


async def code_of(request) -> int | None:
    try:
        await request
    except MCPError as error:
        return error.error.code
    return None


async def main() -> None:
    mode, *target = sys.argv[1:]
    updates: asyncio.Queue = asyncio.Queue()
    logs: list = []

    async def heard(message) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.put_nowait(message.params.uri)

    async def logged(params) -> None:
        logs.append([params.level, params.data])

    server = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    client = Client(
        server,
        mode=mode,
        log_level="info",
        message_handler=heard,
        logging_callback=logged,
        read_timeout_seconds=60,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=list_roots,
    )
    async with client:
        print(json.dumps(await tour(client, updates, logs)))


asyncio.run(main())
