"""The shelf, by the official Python SDK 2.x. Argument: stdio or http; over HTTP it prints its URL."""

import socket
import sys
import warnings

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

warnings.simplefilter("ignore")  # half of what a server of both ages does is deprecated

NUMBER = {"type": "number"}
TEXT = {"type": "string"}
NAME = {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}

count = 0
stopped = anyio.Event()
bus = InMemorySubscriptionBus()


async def list_resources(ctx, params):
    resources = [
        types.Resource(uri="memo://text", name="text", mime_type="text/plain"),
        types.Resource(uri="memo://blob", name="blob", mime_type="application/octet-stream"),
        types.Resource(uri="memo://count", name="count", mime_type="text/plain"),
    ]
    start = int(params.cursor or 0) if params else 0
    return types.ListResourcesResult(resources=resources[start : start + 2], next_cursor="2" if start == 0 else None)


async def list_templates(ctx, params):
    template = types.ResourceTemplate(uri_template="book://{author}/{title}", name="book", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read(ctx, params):
    uri = params.uri
    texts = {"memo://text": "Plain text: 糖尿病", "memo://count": str(count)}
    if uri in texts:
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=texts[uri])
    elif uri == "memo://blob":
        contents = types.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob="AAH/")
    elif uri.startswith("book://"):
        author, _, title = uri.removeprefix("book://").partition("/")
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"{title} by {author}")
    else:
        code = -32602 if modern(ctx) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[contents])


def modern(ctx):
    return ctx.session.protocol_version == "2026-07-28"


async def nothing(ctx, params):
    return types.EmptyResult()


def tool(name, required=(), output=None, **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return types.Tool(name=name, input_schema=schema, output_schema=output)


async def list_tools(ctx, params):
    total = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
    tools = [
        tool("echo", ["text"], text={**TEXT, "x-mcp-header": "Text"}),
        tool("add", ["a", "b"], total, a=NUMBER, b=NUMBER),
        tool("slow", ["steps"], steps=NUMBER, ends={"type": "boolean"}),
        *(tool(name) for name in ("stopped", "touch", "ask", "model", "folders", "fail", "log")),
    ]
    return types.ListToolsResult(tools=tools)


def text(value, **rest):
    return types.CallToolResult(content=[types.TextContent(text=value)], **rest)


async def call(ctx, params):
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return text(arguments["text"])
        case "add":
            return text("added", structured_content={"sum": arguments["a"] + arguments["b"]})
        case "slow":
            return await slow(ctx, **arguments)
        case "stopped":
            await stopped.wait()
            return text("stopped")
        case "touch":
            global count
            count += 1
            await bus.publish(ResourceUpdated("memo://count"))
            if not modern(ctx):
                await ctx.session.send_resource_updated("memo://count")
            return text("touched")
        case "ask" | "model" | "folders":
            return await ask(ctx, params)
        case "fail":
            return text("The printer is on fire.", is_error=True)
        case "log":
            for level in ("debug", "info", "error"):
                await ctx.session.send_log_message(level, {"said": level}, "shelf", related_request_id=ctx.request_id)
            return text("logged")
    raise MCPError(-32602, f"Unknown tool: {params.name}")


async def ask(ctx, params):
    """Ask in the way that the revision has."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Say something."))
    form = types.ElicitRequestFormParams(message="What is your name?", requested_schema=NAME)
    question, kind = {
        "ask": (types.ElicitRequest(params=form), types.ElicitResult),
        "model": (
            types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=10)),
            types.CreateMessageResult,
        ),
        "folders": (types.ListRootsRequest(), types.ListRootsResult),
    }[params.name]
    if not modern(ctx):
        answer = await ctx.session.send_request(question, kind)
    elif params.input_responses:
        assert params.request_state == "asked"
        answer = params.input_responses["answer"]
    else:
        return types.InputRequiredResult(input_requests={"answer": question}, request_state="asked")
    if params.name == "ask":
        return text(f"{answer.action}: {answer.content}")
    if params.name == "model":
        return text(f"{answer.model}: {answer.content.text}")
    return text(", ".join(str(root.uri) for root in answer.roots))


async def slow(ctx, steps, ends=True):
    try:
        for step in range(1, int(steps) + 1):
            await ctx.session.report_progress(step, steps, f"step {step}")
        if not ends:
            await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        stopped.set()
        raise
    return text("done")


async def list_prompts(ctx, params):
    prompt = types.Prompt(name="greet", arguments=[types.PromptArgument(name="name", required=True)])
    return types.ListPromptsResult(prompts=[prompt])


async def get_prompt(ctx, params):
    content = types.TextContent(text=f"Greet {params.arguments['name']}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def complete(ctx, params):
    argument, context = params.argument, params.context
    known = {"name": ["Ada", "Alan"], "author": ["lem", "le guin"], "title": ["solaris"]}[argument.name]
    if argument.name == "title" and (context is None or context.arguments != {"author": "lem"}):
        known = []
    values = [value for value in known if value.startswith(argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values))


shelf = Server(
    "shelf",
    version="1.0",
    instructions="Read quietly.",
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read,
    on_subscribe_resource=nothing,
    on_unsubscribe_resource=nothing,
    on_subscriptions_listen=ListenHandler(bus),
    on_list_tools=list_tools,
    on_call_tool=call,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=nothing,
)


async def over_stdio():
    async with stdio_server() as (reading, writing):
        await shelf.run(reading, writing, shelf.create_initialization_options())


async def over_http():
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    await uvicorn.Server(uvicorn.Config(shelf.streamable_http_app(), log_level="error")).serve([listening])


anyio.run(over_http if sys.argv[1] == "http" else over_stdio)
