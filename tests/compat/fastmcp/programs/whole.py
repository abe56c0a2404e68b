"""Server for ``fastmcp`` with mounted servers, middleware, a lifespan, dependencies and tags."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import FileResource, ResourceContent, ResourceResult, TextResource
from fastmcp.server.dependencies import get_context, get_http_headers
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult, tool

seen: list[str] = []


class Noting(Middleware):
    async def on_message(self, context: MiddlewareContext, call_next):
        seen.append(f"{context.type} {context.method} {context.source}")
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext, call_next):
        if context.message.name == "forbidden":
            raise ToolError("not allowed")
        await context.fastmcp_context.set_state("by", "middleware")
        result = await call_next(context)
        if context.message.name == "changed":
            return ToolResult(content="changed by middleware")
        return result

    async def on_list_tools(self, context: MiddlewareContext, call_next):
        return [each for each in await call_next(context) if each.name != "unlisted"]

    async def on_get_prompt(self, context: MiddlewareContext, call_next):
        result = await call_next(context)
        seen.append(result.messages[0].content.text)
        return result


@asynccontextmanager
async def lifespan(server: FastMCP) -> AsyncIterator[dict]:
    yield {"db": f"db of {server.name}"}


mcp = FastMCP("whole", lifespan=lifespan, middleware=[Noting()], mask_error_details=True)
child = FastMCP("child")
grandchild = FastMCP("grandchild")


@child.tool
def double(a: int) -> int:
    return 2 * a


@child.tool(tags={"private"})
def hidden() -> str:
    return "hidden"


@child.tool
def where(ctx: Context) -> str:
    return ctx.fastmcp.name


@child.resource("data://note")
def note() -> str:
    return "a note"


@child.resource("item://{n}")
def item(n: int) -> str:
    return f"item {n!r}"


@child.prompt
def ask(topic: str) -> str:
    return f"on {topic}"


@grandchild.tool
def deep() -> str:
    return "deep"


child.mount(grandchild, namespace="grand")
mcp.mount(child, namespace="child")
mcp.disable(tags={"private"})


@asynccontextmanager
async def connection():
    yield "connection"


@contextmanager
def file():
    yield "file"


def prefix() -> str:
    return "prefix"


def text(start: str = Depends(prefix)) -> str:
    return f"{start} text"


@mcp.tool
async def depends(
    a: int,
    ctx: Context = CurrentContext(),
    c: str = Depends(connection),
    f: str = Depends(file),
    t: str = Depends(text),
) -> str:
    return f"{a} {c} {f} {t} {ctx.lifespan_context['db']} {get_context().request_id == ctx.request_id}"


@mcp.tool
def state(ctx: Context) -> str:
    """Show the state.

    More on it.

    Args:
        ctx: the context

    Returns:
        The state.
    """
    return f"{get_http_headers()} {seen[-1]}"


@mcp.tool
async def by(ctx: Context) -> str:
    return await ctx.get_state("by")


@mcp.tool
def forbidden() -> str:
    return "never"


@mcp.tool
def changed():
    return 1


@mcp.tool
def unlisted() -> str:
    return "called all the same"


@mcp.tool(timeout=5, tags={"private"})
def secret() -> str:
    return "secret"


@mcp.tool
async def reveal(ctx: Context) -> str:
    await ctx.enable_components(names={"secret"}, components={"tool"})
    found = [each.name for each in await ctx.fastmcp.list_tools()]
    await ctx.reset_visibility()
    return f"{'secret' in found}"


@mcp.tool
def masked() -> str:
    raise ValueError("the password")


@mcp.tool
def documented(a: int, b: str = "x") -> dict[str, int]:
    """Do a thing.

    Args:
        a: The first of two.
        b (str): The second.

    Raises:
        ValueError: never.
    """
    return {"a": a}


@mcp.tool
def sphinx(a: int) -> list[dict]:
    """Do a thing.

    :param a: The number.
    :return: Something.
    """
    return [{"a": a}]


@tool(title="Marked")
def marked(a: int = 1) -> int | None:
    return None


mcp.add_tool(marked)
mcp.add_tool(Tool.from_function(prefix, name="from_function", description="Of a function"))
mcp.add_resource(TextResource(uri="text://1", name="text", text="some text", mime_type="text/markdown"))
mcp.add_resource(FileResource(uri="file:///none", path="/none/such", name="none"))


@mcp.resource("several://1")
def several() -> ResourceResult:
    return ResourceResult([ResourceContent("a"), ResourceContent(b"b"), ResourceContent({"c": 1})], meta={"m": 1})


@mcp.resource("missing://1")
def missing() -> str:
    raise NotFoundError("gone")


@mcp.prompt
def result() -> PromptResult:
    return PromptResult([Message({"a": 1})], description="of the result")


@mcp.prompt
def strings(n: int = 1) -> list[str]:
    return ["one", "two"]


if __name__ == "__main__":
    mcp.run(transport="stdio", show_banner=False)
