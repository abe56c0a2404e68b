"""Low-level server with handlers, pages, and a method that the protocol does not have."""

import asyncio
from typing import Any

import mcp.server.stdio
import mcp.types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.shared.exceptions import MCPError


async def list_tools(ctx: ServerRequestContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    second = params is not None and params.cursor == "2"
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tool = types.Tool(name="second" if second else "first", input_schema=schema, output_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool], next_cursor=None if second else "2")


async def call_tool(ctx: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "second":
        raise MCPError(types.INVALID_PARAMS, "not this one", {"name": params.name})
    if not params.arguments:
        raise RuntimeError("no arguments")
    await ctx.session.send_log_message("info", {"a": params.arguments}, "low", related_request_id=ctx.request_id)
    return types.CallToolResult(
        content=[types.TextContent(text=f"{params.arguments} {ctx.lifespan_context}")], structured_content={"k": [1]}
    )


async def list_resources(ctx: ServerRequestContext, params: Any) -> types.ListResourcesResult:
    icon = types.Icon(src="data:,", mime_type="image/png")
    return types.ListResourcesResult(
        resources=[types.Resource(uri="low://one", name="one", size=3, icons=[icon], mime_type="text/plain")]
    )


async def read_resource(ctx: ServerRequestContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if params.uri == "low://one":
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="one")])
    return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=params.uri, blob="AAE=")])


async def list_prompts(ctx: ServerRequestContext, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="p", arguments=[types.PromptArgument(name="x")])])


async def get_prompt(ctx: ServerRequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(text=str(params.arguments)))
    return types.GetPromptResult(description="d", messages=[message])


async def complete(ctx: ServerRequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[params.argument.value], total=1))


server = Server(
    "low",
    version="3",
    instructions="Low.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)


async def main() -> None:
    async with mcp.server.stdio.stdio_server() as (read, write):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True), {"x": {"y": 1}})
        await server.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(main())
