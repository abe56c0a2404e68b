"""Server behind the proxies and clients of other people."""

from __future__ import annotations

from pydantic import BaseModel

from carrel import Context, Server, ToolError

app = Server("small", version="1")


class Colour(BaseModel):
    """Question to the user."""

    colour: str


@app.tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.tool
def fails(reason: str) -> str:
    """Fail."""
    raise ToolError(f"failed: {reason}")


@app.tool
async def ask(question: str, context: Context) -> str:
    """Ask the user."""
    answer = await context.elicit(question, Colour)
    return str(answer)


@app.resource("note://a")
def note() -> str:
    """Return a note."""
    return "a note"


@app.resource("item://{name}")
def item(name: str) -> str:
    """Return an item."""
    return f"item {name}"


@app.prompt
def greet(name: str) -> str:
    """Greet a person."""
    return f"Greet {name}"
