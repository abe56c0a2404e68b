"""Server for ``fastmcp`` with tools, resources and prompts of every kind."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ResourceError, ToolError
from fastmcp.prompts import Message
from fastmcp.tools import Tool
from fastmcp.tools.tool import ToolResult
from fastmcp.utilities.types import Audio, File, Image
from mcp.types import TextContent, ToolAnnotations
from pydantic import BaseModel, Field

mcp = FastMCP("fast", instructions="Be fast", version="1.2")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class User(BaseModel):
    """A user."""

    name: str = Field(description="The name", min_length=1)
    color: Color = Color.RED
    friends: list["User"] = []


@dataclass
class Point:
    x: int
    y: float = 1.5


def db() -> str:
    return "db"


@mcp.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
async def greet(name: Annotated[str, Field(description="Who")], loud: bool = False) -> str:
    """Greet.

    Args:
        name: ignored
    """
    return f"hi {name}" + "!" * loud


@mcp.tool("named", title="Named", description="D", tags={"b", "a"}, annotations={"readOnlyHint": True}, meta={"v": 1})
def other(c: Color, m: Literal["x", "y"] = "x") -> dict[str, Any]:
    return {"c": c.value, "m": m}


@mcp.tool(annotations=ToolAnnotations(title="Ann"), output_schema=None)
def user(user: User) -> User:
    return user


@mcp.tool
def user_too(u: User, p: Point | None = None) -> User:
    return u


@mcp.tool
def point(x: int) -> Point:
    return Point(x)


@mcp.tool
def lst(n: list[int]) -> list[Point]:
    return [Point(i) for i in n]


@mcp.tool
def untyped(a, b=3):
    return [a, b]


@mcp.tool
def none() -> None:
    pass


@mcp.tool
def anyt(a: Any) -> Any:
    return {"a": a}


@mcp.tool
def image() -> Image:
    return Image(data=b"abc", format="png")


@mcp.tool
def mixed() -> list:
    return ["a", Image(data=b"abc"), {"x": 1}, File(data=b"abc", format="txt", name="f")]


@mcp.tool
def audio() -> Audio:
    return Audio(data=b"abc")


@mcp.tool
def fails(kind: str = "tool") -> str:
    if kind == "tool":
        raise ToolError("a tool error")
    raise ValueError("a value error")


@mcp.tool
def result() -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text="t")], structured_content={"s": 1}, meta={"m": 2})


@mcp.tool
def result2() -> ToolResult:
    return ToolResult(structured_content={"s": 1})


@mcp.tool
async def ctxt(x: str, ctx: Context) -> str:
    await ctx.debug("debug")
    await ctx.info("info")
    await ctx.warning("warn", logger_name="me")
    await ctx.error("err")
    await ctx.info("more", extra={"a": 1})
    await ctx.report_progress(1, 2, "half")
    await ctx.report_progress(progress=2)
    await ctx.set_state("k", x)
    return f"{x} {await ctx.get_state('k')} {ctx.fastmcp.name} {ctx.client_id}"


@mcp.tool
async def reading(ctx: Context) -> str:
    r = await ctx.read_resource("data://config")
    return r.contents[0].content


@mcp.tool
async def ask(ctx: Context) -> str:
    r = await ctx.elicit("Who?", response_type=str)
    return f"{r.action} {getattr(r, 'data', None)}"


@mcp.tool
async def ask2(ctx: Context) -> str:
    r = await ctx.elicit("Who?", Point)
    return f"{r.action} {getattr(r, 'data', None)}"


@mcp.tool
async def ask3(ctx: Context) -> str:
    r = await ctx.elicit("Who?", ["a", "b"])
    return f"{r.action} {getattr(r, 'data', None)}"


@mcp.tool
async def ask4(ctx: Context) -> str:
    r = await ctx.elicit("Ok?", response_type=None)
    return f"{r.action}"


@mcp.tool
async def think(ctx: Context) -> str:
    r = await ctx.sample("Say hi", system_prompt="be brief", temperature=0.1, max_tokens=9)
    return r.text


@mcp.tool
async def roots(ctx: Context) -> list[str]:
    return [str(each.uri) for each in await ctx.list_roots()]


@mcp.tool
def dep(a: int, d: str = Depends(db)) -> str:
    return f"{a}{d}"


class Calc:
    def mul(self, a: int, b: int) -> int:
        "Mul."
        return a * b


mcp.tool(Calc().mul)
mcp.add_tool(Tool.from_function(lambda x: x, name="lam", description="L"))


@mcp.resource("data://config")
def config() -> str:
    """The config."""
    return "cfg"


@mcp.resource(
    "data://json", mime_type="application/json", name="JSON", title="T", tags={"x"}, description="d", meta={"q": 1}
)
async def js() -> str:
    return '{"a": 1}'


@mcp.resource("data://bytes")
def byts() -> bytes:
    return b"abc"


@mcp.resource("data://dict")
def dct() -> dict:
    return {"a": 1}


@mcp.resource("data://fail")
def rfail() -> str:
    raise ValueError("no")


@mcp.resource("data://fail2")
def rfail2() -> str:
    raise ResourceError("no2")


@mcp.resource("user://{name}/{n}")
async def tmpl(name: str, n: int, ctx: Context) -> str:
    """A template."""
    return f"{name} {n!r} {ctx.fastmcp.name}"


@mcp.resource("path://{p*}")
def wild(p: str) -> str:
    return p


@mcp.resource("q://{a}{?b,c}")
def query(a: str, b: int = 1, c: str = "x") -> str:
    return f"{a} {b!r} {c}"


@mcp.prompt
def simple(topic: str) -> str:
    """Ask."""
    return f"About {topic}"


@mcp.prompt(name="messages", title="Msgs", description="D", tags={"t"}, meta={"z": 0})
async def messages(a: Annotated[str, Field(description="An a")], n: int = 3, xs: list[int] = []) -> list[Message]:
    return [Message(f"{a} {n!r} {xs!r}"), Message("ok", role="assistant")]


@mcp.prompt
def pfail(x: str) -> str:
    raise ValueError("bad")


if __name__ == "__main__":
    mcp.run()
