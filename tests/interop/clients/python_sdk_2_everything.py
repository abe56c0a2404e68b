"""The official Python SDK 2.x on a tour of the reference server "everything" behind a gateway; prints what it saw.

python_sdk_2_everything.py MODE (URL | COMMAND ARGUMENT…), MODE being "legacy" or "auto". Names and URIs are in the
namespace ev.
"""

import asyncio
import json
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client import session

session.DISCOVER_TIMEOUT_SECONDS = 60.0  # as the machine may be busy

WATCHED = "ev+demo://resource/dynamic/text/1"


def text_of(result) -> str:
    assert not result.is_error, result.content
    return "\n".join(block.text for block in result.content)


async def tour(client: Client, updates: asyncio.Queue, logs: list) -> dict:
    seen = {"revision": client.protocol_version}
    if seen["revision"] != "2026-07-28":
        await client.set_logging_level("debug")
    resources = (await client.list_resources()).resources
    seen["resources"] = len(resources)
    seen["read"] = [len((await client.read_resource(each.uri)).contents[0].text) > 100 for each in resources]
    seen["templates"] = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    [dynamic] = (await client.read_resource("ev+demo://resource/dynamic/text/3")).contents
    seen["dynamic"] = [dynamic.uri, dynamic.text[:41]]
    seen["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
    seen["echo"] = text_of(await client.call_tool("ev_echo", {"message": "日本"}))
    weather = await client.call_tool("ev_get-structured-content", {"location": "Chicago"})
    seen["weather"] = sorted(weather.structured_content)
    links = (await client.call_tool("ev_get-resource-links", {"count": 2})).content[1:]
    seen["links"] = [len((await client.read_resource(link.uri)).contents) for link in links]

    progress = []

    async def report(done, total, message):
        progress.append([done, total])

    arguments = {"duration": 0.1, "steps": 3}
    await client.call_tool("ev_trigger-long-running-operation", arguments, progress_callback=report)
    seen["progress"] = progress

    seen["elicited"] = "Ada" in text_of(await client.call_tool("ev_trigger-elicitation-request"))
    page = await client.call_tool("ev_trigger-url-elicitation", {"url": "https://example.org/form"})
    seen["visited"] = "accept" in text_of(page)
    sampled = await client.call_tool("ev_trigger-sampling-request", {"prompt": "hello", "maxTokens": 5})
    seen["sampled"] = "Paris" in text_of(sampled)

    seen["prompts"] = sorted(prompt.name for prompt in (await client.list_prompts()).prompts)
    team = {"department": "Sales", "name": "Eve"}
    seen["prompt"] = (await client.get_prompt("ev_completable-prompt", team)).messages[0].content.text
    prompt = types.PromptReference(type="ref/prompt", name="ev_completable-prompt")
    found = await client.complete(prompt, {"name": "name", "value": ""}, {"department": "Sales"})
    template = types.ResourceTemplateReference(type="ref/resource", uri=seen["templates"][0])
    numbers = await client.complete(template, {"name": "resourceId", "value": "1"})
    seen["completed"] = [found.completion.values, numbers.completion.values]

    if seen["revision"] == "2026-07-28":
        async with client.listen(resource_subscriptions=[WATCHED]) as subscription:
            await client.call_tool("ev_toggle-subscriber-updates")
            seen["updated"] = (await anext(aiter(subscription))).uri
    else:
        await client.subscribe_resource(WATCHED)
        await client.call_tool("ev_toggle-subscriber-updates")
        seen["updated"] = await updates.get()
    await client.call_tool("ev_toggle-subscriber-updates")

    logs.clear()
    await client.call_tool("ev_toggle-simulated-logging")
    await client.call_tool("ev_toggle-simulated-logging")
    others = ("Received", "Roots updated")  # of subscriptions, and of roots, which the server requests when it likes
    seen["logged"] = [data.lower().startswith(level) for level, data in logs if not data.startswith(others)]
    return seen


async def elicit(context, params) -> types.ElicitResult:
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"name": "Ada", "integer": 7})


async def sample(context, params) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=said, model="m", stop_reason="endTurn")


async def list_roots(context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="Home")])


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
        log_level="debug",
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
