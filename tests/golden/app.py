"""The application that the golden conversations talk to. Everything it has is known word for word.

It shows all the vocabulary of the newest revision, so that the conversations of the older ones can pin what
of it must not reach them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from carrel import Annotations, Contents, Context, Icon, Server
from carrel.errors import MissingCapability
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.prompts import PromptMessage
from carrel.wire.resources import TextResourceContents

ICON = Icon(src="https://example.com/icon.png", mime_type="image/png", sizes=["48x48"], theme="dark")
HINTS = Annotations(audience=["user", "assistant"], priority=0.5, last_modified="2025-01-12T15:00:58Z")
META = {"example.com/shelf": 7}
AUTHORS = {"lem": ["fiasco", "solaris"], "le guin": ["the dispossessed"]}


def build(stopped: asyncio.Event | None = None) -> Server:
    """Make the application. Each one has a state of its own. A call of ``wait`` that is cancelled sets ``stopped``."""
    app = Server(
        "golden",
        version="1.0",
        title="Golden",
        description="Every word of it is known.",
        website_url="https://example.com/",
        icons=[ICON],
        instructions="Say please.",
        page_size=3,
    )
    stopped = stopped or asyncio.Event()
    add_resources(app, stopped)
    add_tools(app, stopped)
    add_prompts(app)
    return app


def add_resources(app: Server, stopped: asyncio.Event) -> None:
    app.resources.add("memo://plain", "Plain text.", name="plain", mime_type="text/plain")
    app.resources.add(
        "memo://rich",
        "# Rich\n",
        name="rich",
        title="A rich memo",
        description="Has everything that a resource can have.",
        mime_type="text/markdown",
        size=7,
        annotations=HINTS,
        icons=[ICON],
        meta=META,
        ttl=60,
        scope="public",
    )
    app.resources.add("memo://blob", b"\x00\x01\xff", name="blob", mime_type="application/octet-stream")

    @app.resource("memo://both", mime_type="text/plain")
    def both() -> list[Contents]:
        return [
            Contents("one", uri="memo://both/1", mime_type="text/plain", meta=META),
            Contents(b"\x02", uri="memo://both/2", mime_type="application/octet-stream"),
        ]

    @app.resource("memo://watched", mime_type="text/plain")
    async def watched() -> str:
        return "Watch me."

    @app.resource("memo://broken", mime_type="text/plain")
    async def broken() -> str:
        raise RuntimeError("the inside of the server")

    @app.resource("memo://cancelled", mime_type="text/plain")
    async def was_cancelled() -> str:
        await asyncio.wait_for(stopped.wait(), 60)
        return "The handler was stopped."

    @app.resource(
        "book://{author}/{title}",
        title="A book",
        description="A book of the library.",
        mime_type="text/plain",
        annotations=HINTS,
        icons=[ICON],
        meta=META,
    )
    async def book(author: str, title: str) -> str:
        return f"{title} by {author}"

    @book.complete("author")
    async def authors(prefix: str) -> list[str]:
        return [author for author in AUTHORS if author.startswith(prefix)]

    @book.complete("title")
    async def titles(prefix: str, context: dict[str, str]) -> list[str]:
        return [title for title in AUTHORS.get(context.get("author", ""), []) if title.startswith(prefix)]

    @app.resource("number://{value}", description="A number.", mime_type="text/plain")
    async def number(value: int) -> str:
        return str(value)


def add_tools(app: Server, stopped: asyncio.Event) -> None:
    @app.tool(
        title="Weather",
        description="Tell the weather.",
        annotations={"title": "Weather report", "readOnlyHint": True, "openWorldHint": False},
        icons=[ICON],
        meta=META,
        input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        output_schema={"type": "object", "properties": {"celsius": {"type": "integer"}}, "required": ["celsius"]},
    )
    async def weather(city: str) -> dict[str, Any]:
        return {"city": city, "celsius": 21}

    @app.tool(
        description="Count the books of each shelf.",
        input_schema={"type": "object"},
        output_schema={"type": "array", "items": {"type": "integer"}},
    )
    async def tally() -> list[int]:
        return [3, 1, 2]

    @app.tool(description="Return every kind of content.", input_schema={"type": "object"}, structured=False)
    async def blocks() -> list[Any]:
        return every_block()

    @app.tool(description="Fail.", input_schema={"type": "object"}, structured=False)
    async def fail() -> str:
        raise ValueError("The printer is on fire.")

    @app.tool(
        description="Count, and say how it is going.",
        input_schema={"type": "object", "properties": {"upto": {"type": "integer"}}, "required": ["upto"]},
        structured=False,
    )
    async def count(upto: int, ctx: Context) -> str:
        for number in range(1, upto + 1):
            await ctx.report_progress(number, upto, f"{number} of {upto}")
            await ctx.info({"at": number}, logger="counter")
        await ctx.warning("That was all.")
        return f"Counted to {upto}."

    @app.tool(description="Wait until cancelled.", input_schema={"type": "object"}, structured=False)
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            stopped.set()
            raise

    @app.tool(
        description="Say that a resource changed.",
        input_schema={"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
        structured=False,
    )
    async def touch(uri: str) -> str:
        app.resources.changed(uri)
        return "Touched."

    @app.tool(
        description="Change a list.",
        input_schema={
            "type": "object",
            "properties": {"list": {"enum": ["resources", "tools", "prompts"]}},
            "required": ["list"],
        },
        structured=False,
    )
    async def change(list: Literal["resources", "tools", "prompts"]) -> str:
        if list == "resources":
            app.resources.add("memo://new", "New.", name="new", mime_type="text/plain")
        elif list == "tools":
            app.tools.remove("fail")
        else:
            app.prompts.remove("greet")
        return "Changed."

    @app.tool(
        description="Do something in a region.",
        input_schema={"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
        structured=False,
    )
    async def regional(region: str | None = None) -> str:
        return f"Done in {region}."

    @app.tool(description="Needs a model.", input_schema={"type": "object"}, structured=False)
    async def ponder() -> str:
        raise MissingCapability({"sampling": {}})


def add_prompts(app: Server) -> None:
    @app.prompt(title="Review code", description="Ask for a review.", icons=[ICON], meta=META)
    async def review(code: str, language: Literal["python", "rust"] = "python") -> str:
        return f"Review this {language}: {code}"

    @app.prompt(description="Every kind of content.")
    async def gallery() -> list[PromptMessage]:
        return [PromptMessage("user", block) for block in every_block()]

    @app.prompt(description="Say hello.")
    async def greet() -> list[PromptMessage]:
        return [PromptMessage("user", TextContent("Hello.")), PromptMessage("assistant", TextContent("Hello to you."))]


def every_block() -> list[Any]:
    """Return one content block of each kind, with everything that it can have."""
    embedded = TextResourceContents("memo://plain", "Plain text.", mime_type="text/plain", meta=META)
    return [
        TextContent("Some text.", annotations=HINTS, meta=META),
        ImageContent(b"\x89PNG", "image/png", annotations=HINTS, meta=META),
        AudioContent(b"RIFF", "audio/wav", annotations=HINTS, meta=META),
        ResourceLink(
            uri="memo://rich",
            name="rich",
            title="A rich memo",
            description="Has everything.",
            mime_type="text/markdown",
            size=7,
            annotations=HINTS,
            icons=[ICON],
            meta=META,
        ),
        EmbeddedResource(embedded, annotations=HINTS, meta=META),
    ]


if __name__ == "__main__":
    build().run()
