"""Client of the server of ``wide.py``, in one process, in each mode; prints what it receives."""

import asyncio
import json
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from mcp.client import ClientRequestContext, advertise
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.server.mcpserver import Context
from wide import mcp


@mcp.tool()
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    await ctx.notify_resource_updated("text://fixed")
    return "changed"


async def fill_in(context: ClientRequestContext, params: Any) -> types.ElicitResult:
    print("form", params.message, sorted(params.requested_schema["properties"]))
    return types.ElicitResult(action="accept", content={"name": "Ann", "age": 3})


async def sample(context: ClientRequestContext, params: Any) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="hm"), model="m")


async def roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///a", name="a")])


async def progress(done: float, total: float | None, message: str | None) -> None:
    print("progress", float(done), float(total or 0), message)


async def attempt(what: str, waiting: Any) -> None:
    try:
        result = await waiting
        print(what, json.dumps(result.model_dump(mode="json", exclude_none=True), sort_keys=True))
    except MCPError as error:
        print(what, "failed", error.code, error.message, error.data)


async def use(client: Client) -> None:
    print(client.protocol_version, client.server_info, client.server_capabilities, client.instructions)
    await attempt("tools", client.list_tools())
    await attempt("resources", client.list_resources())
    await attempt("templates", client.list_resource_templates())
    await attempt("prompts", client.list_prompts())
    await attempt("add", client.call_tool("add", {"a": 1}))
    await attempt("state", client.call_tool("state", progress_callback=progress))
    await attempt("greet", client.call_tool("greet", {"reason": "fun"}))
    await attempt("sampled", client.call_tool("sampled"))
    await attempt("mcp", client.call_tool("fails", {"how": "mcp"}))
    await attempt("crash", client.call_tool("fails", {"how": "?"}))
    await attempt("read", client.read_resource("search://here?limit=5"))
    await attempt("none", client.read_resource("user://none/1"))
    await attempt("prompt", client.get_prompt("talk", {"topic": "t"}))
    await attempt("forbidden", client.get_prompt("forbidden"))
    reference = types.PromptReference(name="talk")
    await attempt("complete", client.complete(reference, {"name": "topic", "value": "x"}))
    try:
        async with client.listen(tools_list_changed=True, resource_subscriptions=["text://fixed"]) as events:
            print("honored", events.honored)
            await client.call_tool("change")
            print("event", await anext(events), await anext(events))
    except ListenNotSupportedError as error:
        print("listen", error.negotiated_version)


async def main() -> None:
    for mode in ("auto", "legacy", "2026-07-28"):
        async with Client(
            mcp,
            mode=mode,
            elicitation_callback=fill_in,
            sampling_callback=sample,
            list_roots_callback=roots,
            client_info=types.Implementation(name="me", version="0"),
            extensions=[advertise("org.example/extra")],
        ) as client:
            await use(client)


if __name__ == "__main__":
    asyncio.run(main())
