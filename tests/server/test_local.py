"""What the decorators of a server register keeps the contract of providers, by itself and without a client."""

import threading

import pytest

from carrel import Context, Server
from carrel.errors import ResourceNotFound
from carrel.testing import Caller, ProviderContract

NAMES = ("a", "b", "bb", "c", "d", "e")


def build(names=NAMES) -> Server:
    """Return a server with resources of every kind, tools and prompts."""
    app = Server("local")
    for name in names:
        app.resources.add(f"word:{name}", name * 3, title=f"Word {name}")

    @app.resource("note://{author}/{title}")
    async def note(author: str, title: str) -> str:
        if author not in names:
            raise ResourceNotFound(f"note://{author}/{title}")
        return f"{title} by {author}"

    @note.complete("author")
    def authors(typed: str) -> list[str]:
        return [name for name in names if name.startswith(typed)]

    @app.resource("page://{number}")
    def page(number: int) -> bytes:
        return number.to_bytes(8, "big")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    def shout(text: str) -> str:
        return text.upper()

    @app.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @app.prompt
    def part() -> str:
        return "Goodbye"

    return app


class TestLocal(ProviderContract):
    """The provider of a server that runs, which no client has asked."""

    reports = ()  # the server announces changes itself

    @pytest.fixture
    async def provider(self):
        self.app = build()
        await self.app.endpoint.start()
        yield self.app.endpoint.catalog.get("")
        await self.app.endpoint.stop()

    def again(self, provider):
        return build([uri.removeprefix("word:") for uri in provider.exact]).endpoint.catalog.get("")

    async def create(self, provider):
        uri = f"word:new{len(provider.exact)}"
        provider.resources.add(uri, "new")
        return uri

    async def change(self, provider, uri):
        provider.resources.replace(uri, "changed")

    async def remove(self, provider, uri):
        provider.resources.remove(uri)

    def missing(self, provider):
        return "note://nobody/x"

    async def unreadable(self, provider):
        return ["page://one", "word:zzz", "word:"]

    async def searched(self, provider):
        return "bb", "word:bb"

    async def completed(self, provider):
        return "note://{author}/{title}", "author", "", "c"

    async def called(self, provider):
        return "add", {"a": 1, "b": 2}

    async def prompted(self, provider):
        return "greet", {"name": "Ada"}


async def test_handlers_can_use_their_context_without_a_client():
    app = build()

    @app.tool
    async def reads(context: Context) -> str:
        context.report_progress(1, 2)
        context.log("info", "a line")
        return (await context.read_resource("word:a")).contents[0].text

    @app.prompt
    async def quotes(context: Context) -> str:
        return (await context.read_resource("note://a/x")).contents[0].text

    @app.tool(task="optional")
    async def long() -> str:
        return "done"

    @app.tool
    def blocks() -> str:
        return threading.current_thread().name

    caller = Caller(app.endpoint.catalog.get(""))
    await app.endpoint.start()
    try:
        assert (await caller.call_tool("blocks", {})).content[0].text != threading.current_thread().name
        assert (await caller.call_tool("reads", {})).content[0].text == "aaa"
        assert (await caller.get_prompt("quotes", {})).messages[0].content.text == "x by a"
        assert (await caller.call_tool("long", {})).content[0].text == "done"
    finally:
        await app.endpoint.stop()
