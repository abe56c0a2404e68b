"""The shelf, by the official Python SDK 1.x. Argument: stdio or http; over HTTP it prints its URL."""

import socket
import sys

import anyio
import uvicorn
from mcp import McpError, types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

NUMBER = {"type": "number"}
TEXT = {"type": "string"}


class Shelf(Server):
    """The SDK does not say that it can be subscribed to, although it can."""

    def get_capabilities(self, *arguments):
        capabilities = super().get_capabilities(*arguments)
        capabilities.resources.subscribe = True
        return capabilities


shelf = Shelf("shelf", version="1.0", instructions="Read quietly.")
count = 0
stopped = anyio.Event()


@shelf.list_resources()
async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
    resources = [
        types.Resource(uri="memo://text", name="text", mimeType="text/plain"),
        types.Resource(uri="memo://blob", name="blob", mimeType="application/octet-stream"),
        types.Resource(uri="memo://count", name="count", mimeType="text/plain"),
    ]
    start = int(request.params.cursor or 0) if request.params else 0
    return types.ListResourcesResult(resources=resources[start : start + 2], nextCursor="2" if start == 0 else None)


@shelf.list_resource_templates()
async def list_templates():
    return [types.ResourceTemplate(uriTemplate="book://{author}/{title}", name="book", mimeType="text/plain")]


@shelf.read_resource()
async def read(uri):
    if str(uri) == "memo://text":
        return [ReadResourceContents("Plain text: 糖尿病", "text/plain")]
    if str(uri) == "memo://blob":
        return [ReadResourceContents(b"\x00\x01\xff", "application/octet-stream")]
    if str(uri) == "memo://count":
        return [ReadResourceContents(str(count), "text/plain")]
    if uri.scheme == "book":
        return [ReadResourceContents(f"{uri.path[1:]} by {uri.host}", "text/plain")]
    raise McpError(types.ErrorData(code=-32002, message="Resource not found", data={"uri": str(uri)}))


@shelf.subscribe_resource()
async def subscribe(uri):
    pass


@shelf.unsubscribe_resource()
async def unsubscribe(uri):
    pass


@shelf.set_logging_level()
async def set_level(level):
    pass


def tool(name, required=(), output=None, **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return types.Tool(name=name, inputSchema=schema, outputSchema=output)


@shelf.list_tools()
async def list_tools():
    total = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
    return [
        tool("echo", ["text"], text=TEXT),
        tool("add", ["a", "b"], total, a=NUMBER, b=NUMBER),
        tool("slow", ["steps"], steps=NUMBER, ends={"type": "boolean"}),
        tool("stopped"),
        tool("touch"),
        tool("ask"),
        tool("model"),
        tool("folders"),
        tool("fail"),
        tool("log"),
    ]


def text(value):
    return [types.TextContent(type="text", text=value)]


@shelf.call_tool()
async def call(name, arguments):
    context = shelf.request_context
    session, id = context.session, context.request_id
    match name:
        case "echo":
            return text(arguments["text"])
        case "add":
            return text("added"), {"sum": arguments["a"] + arguments["b"]}
        case "slow":
            return await slow(session, context.meta and context.meta.progressToken, id, **arguments)
        case "stopped":
            await stopped.wait()
            return text("stopped")
        case "touch":
            global count
            count += 1
            await session.send_resource_updated("memo://count")
            return text("touched")
        case "ask":
            schema = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}
            answer = await session.elicit_form("What is your name?", schema, related_request_id=id)
            return text(f"{answer.action}: {answer.content}")
        case "model":
            message = types.SamplingMessage(role="user", content=text("Say something.")[0])
            answer = await session.create_message([message], max_tokens=10, related_request_id=id)
            return text(f"{answer.model}: {answer.content.text}")
        case "folders":
            return text(", ".join(str(root.uri) for root in (await session.list_roots()).roots))
        case "fail":
            raise RuntimeError("The printer is on fire.")
        case "log":
            for level in ("debug", "info", "error"):
                await session.send_log_message(level, {"said": level}, "shelf", related_request_id=id)
            return text("logged")


async def slow(session, token, id, steps, ends=True):
    try:
        for step in range(1, steps + 1):
            await session.send_progress_notification(token, step, steps, f"step {step}", related_request_id=str(id))
        if not ends:
            await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        stopped.set()
        raise
    return text("done")


@shelf.list_prompts()
async def list_prompts():
    return [types.Prompt(name="greet", arguments=[types.PromptArgument(name="name", required=True)])]


@shelf.get_prompt()
async def get_prompt(name, arguments):
    content = types.TextContent(type="text", text=f"Greet {arguments['name']}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


@shelf.completion()
async def complete(reference, argument, context):
    known = {"name": ["Ada", "Alan"], "author": ["lem", "le guin"], "title": ["solaris"]}[argument.name]
    if argument.name == "title" and (context is None or context.arguments != {"author": "lem"}):
        known = []
    return types.Completion(values=[value for value in known if value.startswith(argument.value)])


async def over_stdio():
    async with stdio_server() as (reading, writing):
        await shelf.run(reading, writing, shelf.create_initialization_options())


async def over_http():
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    manager = StreamableHTTPSessionManager(shelf)
    async with manager.run():
        config = uvicorn.Config(manager.handle_request, log_level="error", lifespan="off", interface="asgi3")
        await uvicorn.Server(config).serve([listening])


anyio.run(over_http if sys.argv[1] == "http" else over_stdio)
