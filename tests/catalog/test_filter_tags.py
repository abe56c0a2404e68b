"""``Filter(tags=…)``: only what has one of the tags is listed, and can be used."""

import pytest

from carrel import Client, Server
from carrel.catalog.transforms.filter import Filter, tags_in
from carrel.errors import PeerError, ResourceNotFound
from carrel.host.remote import RemoteProvider

TAGS = frozenset({"public"})


def shop() -> Server:
    app = Server("shop")
    app.tools.add(lambda: "bought", name="buy", tags={"public", "trade"})
    app.tools.add(lambda: "wiped", name="wipe", tags={"admin"})
    app.tools.add(lambda: "plain", name="plain")
    app.resources.add("item://lamp", "a lamp", tags=TAGS)
    app.resources.add("item://safe", "a safe")

    @app.resource("page://{name}", tags=TAGS)
    def page(name: str) -> str:
        return name

    @app.resource("secret://{name}")
    def secret(name: str) -> str:
        return name

    @page.complete("name")
    def names(prefix: str) -> list[str]:
        return ["one"]

    @secret.complete("name")
    def secrets(prefix: str) -> list[str]:
        return ["two"]

    @app.prompt(tags=TAGS)
    def greet() -> str:
        return "hello"

    @app.prompt
    def hush() -> str:
        return "quiet"

    return app


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
async def client(request):
    outer = Server("outer")
    inner = shop()
    outer.add_provider(Filter(RemoteProvider(inner, name="shop"), tags=["public"]))
    outer.tools.add(lambda: "mine", name="mine")
    async with Client(outer, revision=request.param) as client:
        client.inner = inner
        yield client


async def test_only_what_has_a_tag_is_listed(client):
    assert sorted(tool.name for tool in await client.list_tools()) == ["buy", "mine"]
    assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
    assert [resource.uri for resource in await client.list_resources()] == ["item://lamp"]
    assert [template.uri_template for template in await client.list_resource_templates()] == ["page://{name}"]


async def test_what_has_no_tag_cannot_be_used_even_before_anything_is_listed(client):
    for name in ("wipe", "plain"):
        with pytest.raises(PeerError, match="unknown tool"):
            await client.call_tool(name)
    for uri in ("item://safe", "secret://one"):
        with pytest.raises(ResourceNotFound):
            await client.read_resource(uri)
    with pytest.raises(PeerError, match="unknown prompt"):
        await client.get_prompt("hush")


async def test_what_has_a_tag_is_used_even_before_anything_is_listed(client):
    assert (await client.call_tool("buy")).text == "bought"
    assert (await client.read_resource("item://lamp")).contents[0].text == "a lamp"
    assert (await client.read_resource("page://one")).contents[0].text == "one"
    assert (await client.get_prompt("greet")).messages[0].content.text == "hello"


async def test_only_templates_with_a_tag_are_completed(client):
    from carrel.wire.completion import ResourceTemplateReference

    assert (await client.complete(ResourceTemplateReference("page://{name}"), "name")).values == ["one"]
    try:
        found = (await client.complete(ResourceTemplateReference("secret://{name}"), "name")).values
    except PeerError:
        found = []
    assert found == []


async def test_a_new_tool_with_a_tag_appears(client):
    await client.list_tools()
    async with client.watch(lists=["tools"]) as changes:
        client.inner.tools.add(lambda: "sold", name="sell", tags=TAGS)
        await anext(aiter(changes))
    assert (await client.call_tool("sell")).text == "sold"


@pytest.mark.parametrize(
    ("meta", "tags"),
    [
        (None, set()),
        ({"carrel/tags": ["a"]}, {"a"}),
        ({"fastmcp": {"tags": ["a", "b"]}}, {"a", "b"}),
        ({"_fastmcp": {"tags": ["a"]}, "carrel/tags": ["c"]}, {"a", "c"}),
        ({"carrel/tags": "a", "fastmcp": 3, "_fastmcp": {"tags": [1, None]}}, set()),
    ],
)
def test_tags_are_read_as_carrel_and_fastmcp_write_them(meta, tags):
    assert tags_in(meta) == tags
