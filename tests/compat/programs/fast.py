from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.prompts import base
from mcp.server.session import ServerSession
from mcp.types import (
    CallToolResult,
    Completion,
    PromptReference,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field


@dataclass
class App:
    db: str


@asynccontextmanager
async def lifespan(server):
    yield App("db")


mcp = FastMCP("fast", instructions="Do it", lifespan=lifespan)


class User(BaseModel):
    name: str
    age: int | None = None


class TD(TypedDict, total=False):
    a: int


@dataclass
class DC:
    x: int
    y: str = "z"


class Node(BaseModel):
    v: int
    kids: list["Node"] = []


class Plain:
    def __init__(self):
        self.a = 1


@mcp.tool()
def add(a: int, b: int = 2) -> int:
    """Add numbers.

    Args:
        a: first
    """
    return a + b


@mcp.tool(title="T", annotations=types.ToolAnnotations(readOnlyHint=True), meta={"k": 1})
async def ctxt(x: Annotated[str, Field(description="the x", min_length=2)], ctx: Context[ServerSession, App]) -> str:
    await ctx.info("info")
    await ctx.report_progress(1, 2, "half")
    return f"{x} {ctx.request_context.lifespan_context.db} {ctx.session.client_params.clientInfo.name} {ctx.client_id} {[c.content for c in await ctx.read_resource('cfg://a')]}"


@mcp.tool()
def user(user: User, opts: dict[str, bool] | None = None) -> User:
    return user


@mcp.tool()
def lst(items: list[str]) -> list[str]:
    return items


@mcp.tool()
def td() -> TD:
    return {"a": 1}


@mcp.tool()
def dc() -> DC:
    return DC(1)


@mcp.tool()
def tree() -> Node:
    return Node(v=1, kids=[Node(v=2)])


@mcp.tool()
def plain() -> Plain:
    return Plain()


@mcp.tool()
def d() -> dict:
    return {"x": [1, None]}


@mcp.tool()
def dd() -> dict[str, float]:
    return {"x": 1}


@mcp.tool()
def none() -> None:
    pass


@mcp.tool()
def opt(json: str, schema: int | None = None, mode: Literal["a", "b"] = "a") -> str | None:
    return json


@mcp.tool()
def untyped(a, b=1):
    return [a, b, {"c": 1}]


@mcp.tool()
def img() -> Image:
    return Image(data=b"png", format="png")


@mcp.tool()
def mixed() -> list:
    return ["a", Image(data=b"png"), {"a": 1}]


@mcp.tool()
def fail() -> str:
    raise ValueError("oops")


@mcp.tool()
def ctr() -> Annotated[CallToolResult, User]:
    return CallToolResult(content=[TextContent(type="text", text="t")], structuredContent={"name": "n"}, _meta={"m": 1})


class Form(BaseModel):
    date: str = Field(description="when")
    n: int = 1


@mcp.tool()
async def ask(ctx: Context) -> str:
    r = await ctx.elicit("When?", Form)
    return f"{r.action} {getattr(r, 'data', None)}"


@mcp.tool()
async def sample(ctx: Context) -> str:
    r = await ctx.session.create_message(
        messages=[SamplingMessage(role="user", content=TextContent(type="text", text="hi"))], max_tokens=10
    )
    return r.content.text + str((await ctx.session.list_roots()).roots[0].uri)


@mcp.resource("cfg://a")
def cfg() -> dict:
    return {"a": 1}


@mcp.resource("cfg://bin", mime_type="image/png", name="Bin")
def binr() -> bytes:
    return b"\x00\x01"


@mcp.resource("user://{name}/{id}", title="U")
async def ut(name: str, id: int, ctx: Context) -> str:
    return f"{name} {id!r} {ctx.request_id != ''}"


@mcp.prompt(title="P")
def p1(code: str, lang: str = "py") -> str:
    "Prompt doc"
    return f"{lang}: {code}"


@mcp.prompt()
def p2(error: str) -> list[base.Message]:
    return [base.UserMessage("e"), base.UserMessage(error), base.AssistantMessage("ok")]


@mcp.completion()
async def comp(ref, argument, context):
    if isinstance(ref, PromptReference):
        return Completion(values=["py", "js"], hasMore=False)
    return None


if __name__ == "__main__":
    mcp.run()
