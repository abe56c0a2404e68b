"""Server with most of what ``MCPServer`` offers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server import CacheHint, MCPServer
from mcp.server.extension import Extension, MethodBinding, ToolBinding
from mcp.server.mcpserver import (
    AcceptedElicitation,
    AssistantMessage,
    Context,
    Elicit,
    ElicitationResult,
    Image,
    ListRoots,
    Resolve,
    Sample,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.resources import TextResource
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    Completion,
    Icon,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from mcp_types import EmbeddedResource, InputRequiredResult, RequestParams, ResourceLink, TextResourceContents
from pydantic import BaseModel, Field
from typing_extensions import TypedDict


class Point(BaseModel):
    """A place."""

    x: int
    y: int = Field(default=2, description="The height.", alias="Y")


class Row(TypedDict):
    name: str
    count: int


@dataclass
class Box:
    label: str
    size: float = 1.5


class Answer(BaseModel):
    name: str
    age: int | None = None


class Extra(Extension):
    identifier = "org.example/extra"

    def settings(self) -> dict[str, Any]:
        return {"level": 3}

    def tools(self) -> list[ToolBinding]:
        return [ToolBinding(extra_tool, meta={"from": "extra"})]

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("extra/count", RequestParams, count)]


def extra_tool(word: str) -> str:
    """Belongs to an extension."""
    return word[::-1]


async def count(ctx: Any, params: Any) -> dict[str, Any]:
    return {"count": 7}


@asynccontextmanager
async def lifespan(server: MCPServer[Any]) -> AsyncIterator[dict[str, str]]:
    yield {"of": server.name}


async def timing(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "prompts/get" and (ctx.params or {}).get("name") == "forbidden":
        raise MCPError(-32001, "Forbidden by the middleware", {"name": "forbidden"})
    return await call_next(ctx)


mcp = MCPServer(
    "wide",
    title="A wide server",
    description="Has everything.",
    instructions="Try it all.",
    website_url="https://wide.example",
    icons=[Icon(src="https://wide.example/icon.png", mime_type="image/png", sizes=["48x48"], theme="dark")],
    version="1.2",
    lifespan=lifespan,
    extensions=[Extra()],
    middleware=[timing],
    cache_hints={"tools/list": CacheHint(ttl_ms=5000, scope="public")},
    resources=[TextResource(uri="text://fixed", text="fixed text", name="fixed")],
    log_level="ERROR",
)


async def ask_name(ctx: Context, reason: str) -> Elicit[Answer]:
    return Elicit(f"Who, for {reason}?", Answer)


async def ask_model(ctx: Context) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text="hello"))], max_tokens=5)


async def ask_roots() -> ListRoots:
    return ListRoots()


@mcp.tool(title="Add", annotations=ToolAnnotations(read_only_hint=True), meta={"a": 1})
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
async def state(ctx: Context[dict[str, str]]) -> str:
    await ctx.report_progress(1, 2, "half")
    return f"{ctx.request_context.lifespan_context} {ctx.headers} {ctx.protocol_version}"


@mcp.tool()
def place(point: Point, tags: list[str] | None = None) -> Point:
    return point


@mcp.tool()
def rows(names: list[str]) -> list[Row]:
    return [{"name": name, "count": len(name)} for name in names]


@mcp.tool()
def row(name: str) -> Row:
    return {"name": name, "count": 1}


@mcp.tool()
def box(label: Annotated[str, Field(min_length=2)]) -> Box:
    return Box(label)


@mcp.tool()
def table(key: str) -> dict[str, int]:
    return {key: 1}


@mcp.tool()
def untyped(copy, value=None):
    return [copy, value, {"deep": [1, 2]}]


@mcp.tool()
def blocks(kind: str) -> list[Any]:
    link = ResourceLink(uri="text://fixed", name="fixed")
    inside = EmbeddedResource(resource=TextResourceContents(uri="text://fixed", text="inside"))
    return [Image(data=b"png"), link, inside, "plain", 4]


@mcp.tool(structured_output=False)
def loose(a: int) -> int:
    return a


@mcp.tool()
def exact() -> Annotated[CallToolResult, Row]:
    return CallToolResult(content=[TextContent(text="t")], structured_content={"name": "n", "count": 2}, _meta={"m": 1})


@mcp.tool()
def fails(how: str) -> str:
    errors: dict[str, Exception] = {
        "tool": ToolError("told"),
        "resource": ResourceError("told of a resource"),
        "mcp": MCPError(-32050, "as a response", {"k": 1}),
    }
    raise errors.get(how) or RuntimeError("secret")


@mcp.tool()
async def greet(reason: str, who: Annotated[ElicitationResult[Answer], Resolve(ask_name)]) -> str:
    return f"{reason}: {who.data.name}" if isinstance(who, AcceptedElicitation) else f"{reason}: {who.action}"


@mcp.tool()
async def sampled(
    result: Annotated[Any, Resolve(ask_model)], roots: Annotated[ListRootsResult, Resolve(ask_roots)]
) -> str:
    return f"{result.content} {roots.roots}"


@mcp.tool()
async def form(ctx: Context) -> str:
    return str(await ctx.elicit("Fill in", Answer))


@mcp.tool()
def required(a: int) -> str | InputRequiredResult:
    return InputRequiredResult(request_state="s") if a == 1 else "done"


@mcp.tool()
async def nested(ctx: Context) -> str:
    return "".join(str(each.content) for each in await ctx.read_resource("text://fixed"))


@mcp.resource("data://bytes", mime_type="application/x-raw", title="Raw")
def raw() -> bytes:
    """Some bytes."""
    return b"\x00\x01"


@mcp.resource("data://json")
async def as_json() -> dict[str, int]:
    return {"a": 1}


@mcp.resource("data://broken")
def broken() -> str:
    raise RuntimeError("secret")


@mcp.resource("user://{name}/{number}")
def user(name: str, number: int, ctx: Context) -> str:
    if name == "none":
        raise ResourceNotFoundError(f"no {name}")
    return f"{name} {number + 1}"


@mcp.resource("search://{area}{?q,limit}")
def search(area: str, q: str = "all", limit: int = 3) -> dict[str, Any]:
    return {"area": area, "q": q, "limit": limit}


@mcp.resource("file:///docs/{+path}")
def document(path: str) -> str:
    return path


@mcp.prompt(title="Talk")
def talk(topic: str, style: str = "short") -> list[UserMessage | AssistantMessage]:
    return [UserMessage(f"{topic} {style}"), AssistantMessage("well")]


@mcp.prompt()
def plain(n: int) -> str:
    return str(n + 1)


@mcp.prompt()
def forbidden() -> str:
    return "never"


@mcp.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
    return Completion(values=[f"{argument.value}{number}" for number in range(2)], has_more=False)


if __name__ == "__main__":
    mcp.run()
