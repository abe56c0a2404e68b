"""Server with resources, a template, tools that report progress, fail and ask, and a prompt."""

from carrel import Context, Server

app = Server("books")


@app.resource("book://{author}/{title}", title="A book", mime_type="text/plain")
def book(author: str, title: str) -> str:
    return f"{title} by {author}"


app.resources.add("book://cover", b"\x89PNG\x00", name="cover", mime_type="image/png", size=5)


@app.tool
async def add(a: int, b: int, context: Context) -> int:
    """Add two numbers.

    At length.
    """
    await context.report_progress(1, 2, "half")
    return a + b


@app.tool
def greet(name: str, times: int = 1) -> str:
    return f"Hello {name}! " * times


@app.tool
def fail() -> str:
    raise ValueError("on fire")


@app.tool
async def order(context: Context) -> str:
    size = {"type": "string", "enum": ["s", "m"]}
    fields = {"title": {"type": "string"}, "count": {"type": "integer", "default": 2}, "size": size}
    answer = await context.elicit("Which book?", {"type": "object", "properties": fields, "required": ["title"]})
    return f"{answer.action} {sorted(answer.data.items())}"


@app.prompt
def review(code: str) -> str:
    """Review some code."""
    return code
