"""A server in the catalog of another: everything it has, over every transport, for clients of every era."""

import asyncio
import contextlib
import sys

import pytest

from carrel import Client, Context, Server
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import Handlers
from carrel.protocol.revisions import REVISIONS
from support.forking import forked
from support.http_server import over_http

OLDEST, SESSION, NEWEST = "2024-11-05", "2025-11-25", "2026-07-28"


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"from": app.name}


def make_app() -> Server:
    """Return a server with another one mounted under a namespace."""
    inner = Server("inner", lifespan=lifespan)
    inner.ui("ui://page", "<p>Hello</p>")

    @inner.resource("book://{title}")
    async def book(title: str, context: Context) -> str:
        return f"{title} {context.state['from']}"

    @inner.tool
    async def order(context: Context) -> str:
        answer = await context.elicit("How many?", int)
        return f"{answer.data} {context.state['from']}"

    @inner.tool
    async def steps(context: Context) -> str:
        await context.report_progress(1, 2, "half")
        return "done"

    @inner.tool(ui="ui://page")
    async def show() -> str:
        return "shown"

    @inner.tool
    async def touch() -> str:
        inner.resources.changed("note://1")
        return "touched"

    @inner.prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    inner.resources.add("note://1", "note")
    outer = Server("outer", lifespan=lifespan)

    @outer.tool
    async def own(context: Context) -> str:
        return str(context.state["from"])

    outer.add_provider(inner, namespace="in")
    return outer


@contextlib.asynccontextmanager
async def connected(transport, revision, **options):
    """Give a client of the server over a transport."""
    with contextlib.ExitStack() as stack:
        if transport == "http":
            target = stack.enter_context(over_http(make_app())) + "/mcp"
        elif transport == "stdio":
            target = forked(sys.executable, __file__)
        else:
            target = make_app()
        async with Client(target, revision=revision, **options) as client:
            yield client


async def answer(form):
    return dict.fromkeys(form.fields, 3)


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
@pytest.mark.parametrize("revision", [OLDEST, SESSION, NEWEST])
async def test_a_mounted_server_answers_over_every_transport(transport, revision):
    seen = []
    async with connected(transport, revision, handlers=Handlers(elicit_form=answer)) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == ["own", "in_order", "in_show", "in_steps", "in_touch"]
        assert (await client.call_tool("own")).content[0].text == "outer"
        assert (await client.read_resource("in+book://lem")).contents[0].text == "lem inner"
        assert (await client.get_prompt("in_greet", {"name": "Ada"})).messages[0].content.text == "Hello Ada"
        await client.call_tool("in_steps", progress=lambda *report: seen.append(report))
        assert seen == [(1, 2, "half" if revision != OLDEST else None)]
        assert "Hello" in (await client.read_resource("ui://in/page")).contents[0].text
        if "elicit" in REVISIONS[revision].server_requests:
            assert (await client.call_tool("in_order")).content[0].text == "3 inner"
        async with client.watch("in+note://1") as changes, asyncio.timeout(60):
            await client.call_tool("in_touch")
            assert (await anext(changes)).uri == "in+note://1"


async def test_tools_of_a_mounted_server_point_at_its_pages():
    pages = ClientExtension("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
    async with connected("memory", NEWEST, extensions=[pages]) as client:
        [tool] = [tool for tool in await client.list_tools() if tool.name == "in_show"]
        assert tool.meta["ui"]["resourceUri"] == "ui://in/page"


@pytest.mark.parametrize("revision", [SESSION, NEWEST])
async def test_a_server_can_be_mounted_and_removed_while_the_other_one_runs(revision):
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    async def work() -> str:
        return "done"

    @outer.tool
    async def own() -> str:
        return "own"

    async with Client(outer, revision=revision) as client, client.watch(lists=["tools"]) as changes:
        async with asyncio.timeout(60):
            await outer.add_provider(inner)
            assert (await anext(changes)).kind == "tools"
            assert (await client.call_tool("work")).content[0].text == "done"
            await outer.remove_provider("inner")
            assert (await anext(changes)).kind == "tools"
        assert [tool.name for tool in await client.list_tools()] == ["own"]


if __name__ == "__main__":
    make_app().run()
