"""Catalog: how providers are found, and what happens when they come, go, change or cannot be reached."""

import asyncio
import logging

import pytest
from msgspec import Raw

from carrel import Client, Server
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Page, Provider, Request
from carrel.catalog.rules import READING, Rule, Rules
from carrel.errors import ConfigError, InvalidCursor, InvalidParams, ProviderUnavailable, ResourceNotFound
from carrel.protocol.methods import CALL_TOOL, GET_PROMPT, RequestType
from carrel.protocol.principal import View
from carrel.wire.completion import Completion, PromptReference
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptMessage
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool


class Named(Provider):
    """Provider whose contents say which provider has answered."""

    def __init__(self, name, *, prefixes=(), exact=(), templates=(), catch_all=(), tools=(), prompts=()):
        self.name = name
        self.prefixes = tuple(prefixes)
        self.exact = set(exact)
        self.templates = list(templates)
        self.catch_all = bool(catch_all)
        self.known = set(catch_all)
        self.tools = list(tools)
        self.prompts = list(prompts)
        self.uris = []
        self.events = None
        self.asked = 0
        self.away = False

    async def start(self, events):
        self.events = events

    async def stop(self):
        self.events = None

    def check(self):
        self.asked += 1
        if self.away:
            raise ProviderUnavailable(self.name)

    def list_resources(self, request):
        self.check()
        uris = sorted(uri for uri in self.uris if request.cursor is None or uri > request.cursor)
        page = [Resource(uri, self.name) for uri in uris[: request.limit]]
        return Page(page, page[-1].uri if len(uris) > request.limit else None, ttl=60, scope="public")

    def list_templates(self, request):
        self.check()
        return Page([ResourceTemplate(template, self.name) for template in self.templates])

    def list_tools(self, request):
        self.check()
        return Page([Tool(name=name, input_schema={"type": "object"}) for name in self.tools])

    def list_prompts(self, request):
        self.check()
        return Page([Prompt(name=name) for name in self.prompts])

    def call_tool(self, name, arguments, request):
        if name not in self.tools:
            raise InvalidParams(f"no {name}")
        return CallToolResult(content=[TextContent(self.name)])

    def read_resource(self, uri, request):
        self.check()
        if self.catch_all and uri not in self.known:
            raise ResourceNotFound(uri)
        return ReadResourceResult(contents=[TextResourceContents(uri, self.name)])


async def catalog_of(*providers):
    catalog = Catalog()
    for provider in providers:
        await catalog.add(provider)
    return catalog


async def resolved(pending):
    return await pending if hasattr(pending, "__await__") else pending


async def reader(catalog, uri):
    """Return the name of the provider that a URI is read from."""
    return (await resolved(catalog.read_resource(uri, Request()))).contents[0].text


async def uris(catalog, limit=100):
    """Return all URIs that are listed, in pages."""
    found, cursor = [], None
    while True:
        page = await catalog.list_resources(Request(cursor=cursor, limit=limit))
        assert len(page.items) <= limit
        found += [resource.uri for resource in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_a_uri_is_found_exactly_then_by_the_longest_prefix_then_by_a_template_then_by_who_takes_any():
    catalog = await catalog_of(
        Named("any", catch_all=["x://a/b/c", "x://z", "other:1"]),
        Named("exact", exact=["x://a/b/c"]),
        Named("long", prefixes=["x://a/b"]),
        Named("short", prefixes=["x://a"]),
        Named("template", templates=["x://{first}/{second}", "x://a/b/{rest}", "y:{name}"]),
    )
    assert await reader(catalog, "x://a/b/c") == "exact"
    assert await reader(catalog, "x://a/b/d") == "long"
    assert await reader(catalog, "x://a/d") == "short"
    assert await reader(catalog, "x://b/d") == "template"
    assert await reader(catalog, "y:1") == "template"
    assert await reader(catalog, "x://z") == "any"
    with pytest.raises(ResourceNotFound):
        await reader(catalog, "other:2")


@pytest.mark.parametrize(
    ("prefix", "inside", "outside"),
    [
        ("x://a", ["x://a", "x://a/", "x://a/b", "x://a?b", "x://a#b"], ["x://ab", "x://a-b", "x://b"]),
        ("x://a/", ["x://a/", "x://a/b"], ["x://a", "x://ab"]),
        ("x:", ["x:1", "x://a"], ["xy:1"]),
        ("x:a", ["x:a", "x:a/b"], ["x:ab"]),
    ],
)
async def test_a_prefix_ends_where_a_segment_ends(prefix, inside, outside):
    catalog = await catalog_of(Named("one", prefixes=[prefix]))
    assert [uri for uri in inside if catalog.routes.find(uri) is None] == []
    assert [uri for uri in outside if catalog.routes.find(uri) is not None] == []


async def test_the_most_literal_template_is_taken():
    catalog = await catalog_of(
        Named("a", templates=["x://{any}"]), Named("b", templates=["x://book-{number}"]), Named("c")
    )
    assert await reader(catalog, "x://book-1") == "b"
    assert await reader(catalog, "x://cook-1") == "a"


async def test_a_uri_in_another_spelling_is_the_same():
    catalog = await catalog_of(Named("one", exact=["x://a/b"]), Named("two"))
    for uri in ("X://A/b", "x://a/%62", "x://A/%62"):
        assert await reader(catalog, uri) == "one"


async def test_of_two_tools_with_one_name_the_first_provider_has_it():
    catalog = await catalog_of(Named("b", tools=["shared", "two"]), Named("a", tools=["shared", "one"]))
    assert [tool.name for tool in (await catalog.list_tools(Request())).items] == ["shared", "one", "two"]
    result = await resolved(catalog.call_tool("shared", Raw(b"{}"), Request()))
    assert result.content[0].text == "a"
    await catalog.remove("a")
    result = await resolved(catalog.call_tool("shared", Raw(b"{}"), Request()))
    assert result.content[0].text == "b"
    with pytest.raises(InvalidParams):
        await resolved(catalog.call_tool("one", Raw(b"{}"), Request()))


class Denying(View):
    """View that denies one verb."""

    key = "denying"

    def __init__(self, denied):
        self.denied = denied

    def allows(self, verb, target):
        return verb != self.denied


@pytest.mark.parametrize(("use", "arguments"), [(CALL_TOOL, Raw(b"{}")), (GET_PROMPT, {})])
async def test_a_request_about_a_tool_or_prompt_whose_row_has_no_verb_is_checked_as_its_use_is(use, arguments):
    method = use.provider_method
    row = RequestType("a/b", "b", use.params, use.result, name_field="name", item=use.item, provider_method=method)
    provider = Named("one", tools=["work"], prompts=["work"])
    setattr(provider, method, lambda name, *_: f"{name} done")
    catalog = await catalog_of(provider)
    assert await catalog.forward(row, Request(view=Denying("read")), "work", arguments) == "work done"
    with pytest.raises(InvalidParams, match=f"unknown {use.item}: work"):
        await catalog.forward(row, Request(view=Denying(use.verb)), "work", arguments)


async def test_two_providers_cannot_have_one_name():
    catalog = await catalog_of(Named("a"))
    with pytest.raises(ConfigError, match="a already"):
        await catalog.add(Named("a"))


async def test_a_provider_that_does_not_start_is_not_there_and_one_that_starts_is_stopped():
    class Broken(Named):
        def list_templates(self, request):
            raise ConfigError("broken")

    catalog, broken = Catalog(), Broken("broken")
    with pytest.raises(ConfigError):
        await catalog.add(broken)
    assert catalog.providers == ()
    assert broken.events is None


async def test_a_list_goes_on_with_its_cursor_when_providers_come_and_go():
    one, two, three = Named("one"), Named("two"), Named("three")
    one.uris, three.uris, two.uris = ["o:1", "o:2", "o:3"], ["h:1", "h:2"], ["t:1", "t:2"]
    catalog = await catalog_of(one, two, three)
    whole = ["o:1", "o:2", "o:3", "h:1", "h:2", "t:1", "t:2"]
    for limit in (1, 2, 3, 100):
        assert await uris(catalog, limit) == whole
    page = await catalog.list_resources(Request(limit=2))
    again = await catalog_of(two, one, three)  # as after a restart, in another order
    rest = await again.list_resources(Request(cursor=page.next_cursor))
    assert [resource.uri for resource in rest.items] == whole[2:]
    await catalog.remove("one")
    rest = await catalog.list_resources(Request(cursor=page.next_cursor))
    assert [resource.uri for resource in rest.items] == whole[3:]
    with pytest.raises(InvalidCursor):
        await catalog.list_tools(Request(cursor=page.next_cursor))


async def test_templates_and_names_are_learned_again_when_lists_change():
    one, two = Named("one", templates=["x:{a}"], tools=["first"]), Named("two", tools=["other"])
    catalog = await catalog_of(one, two)
    one.templates, one.tools = ["y:{a}"], ["second"]
    asked = one.asked
    assert await reader(catalog, "x:1") == "one"
    assert one.asked == asked + 1  # not learned again for a read
    one.events.publish(lists=["resources_list_changed", "tools_list_changed"])
    assert catalog.stale == {"one"}
    assert await reader(catalog, "y:1") == "one"
    assert catalog.stale == set()
    result = await resolved(catalog.call_tool("second", Raw(b"{}"), Request()))
    assert result.content[0].text == "one"
    with pytest.raises(ResourceNotFound):
        await reader(catalog, "x:1")


async def test_prompts_and_completion_wait_for_lists_that_have_changed():
    class Prompting(Named):
        def get_prompt(self, name, arguments, request):
            return GetPromptResult(messages=[PromptMessage("user", TextContent(f"{self.name} {name}"))])

        def complete(self, reference, argument, value, context, request):
            return Completion([self.name])

    catalog = await catalog_of(Prompting("one"), two := Prompting("two", prompts=["old"]))
    for ask in (
        lambda: catalog.get_prompt("new", {}, Request()),
        lambda: catalog.complete(PromptReference("new"), "a", "", {}, Request()),
    ):
        two.prompts = ["old"]
        two.events.publish(lists=["prompts_list_changed"])
        with pytest.raises(InvalidParams):
            await resolved(ask())
        two.prompts = ["new"]
        two.events.publish(lists=["prompts_list_changed"])
        answer = await resolved(ask())
        assert "two" in str(answer)
        assert catalog.stale == set()


@pytest.mark.parametrize(("method", "others"), [("shows", ["t:1", "none:1"]), ("accepts", ["o:hidden", "t:1"])])
async def test_a_provider_decides_about_subscriptions_to_its_resources(method, others):
    class Guarded(Named):
        async def accepts(self, uri, request):
            return uri != "o:secret"

        shows = accepts

    catalog = await catalog_of(one := Guarded("one", prefixes=["o:"]), Named("two", prefixes=["t:"]))
    view = Rules([Rule("**", READING), Rule("o:hidden", READING, allow=False)]).view()
    uris = ["o:1", "o:secret", "o:hidden", "t:1", "none:1", "no uri"]

    async def accepted(request):
        return [uri for uri in uris if await getattr(catalog, method)(uri, request)]

    assert await accepted(Request()) == uris, "nothing is hidden from anybody"
    assert await accepted(Request(view=view)) == ["o:1", *others, "no uri"]
    one.guards = True
    none = ["none:1"] if method == "shows" else []
    assert await accepted(Request()) == ["o:1", "o:hidden", "t:1", *none, "no uri"]


async def test_a_provider_that_cannot_be_reached_is_left_out_of_lists_that_may_not_be_kept(caplog):
    one, two = Named("one", tools=["a"], prefixes=["o:"]), Named("two", tools=["b"], prefixes=["t:"])
    one.uris, two.uris = ["o:1"], ["t:1"]
    catalog = await catalog_of(one, two)
    one.away = True
    with caplog.at_level(logging.WARNING, "carrel"):
        for _ in range(2):
            page = await catalog.list_resources(Request())
            assert [resource.uri for resource in page.items] == ["t:1"]
            assert page.ttl == 0
    assert [record.getMessage() for record in caplog.records] == [
        "one is not available; its items are missing from lists"
    ]
    with pytest.raises(ProviderUnavailable, match="one is not available"):
        await reader(catalog, "o:1")
    one.away = False
    page = await catalog.list_resources(Request())
    assert [resource.uri for resource in page.items] == ["o:1", "t:1"]
    assert (page.ttl, page.scope) == (60, "public")


async def test_a_provider_that_cannot_be_reached_does_not_hide_what_others_have():
    one, two = Named("one", catch_all=["x:1"]), Named("two", catch_all=["x:2"])
    catalog = await catalog_of(one, two)
    one.away = True
    assert await reader(catalog, "x:2") == "two"
    with pytest.raises(ProviderUnavailable):
        await reader(catalog, "x:1")
    one.events.publish(lists=["resources_list_changed"])  # and then is not there to be learned from
    assert await reader(catalog, "x:2") == "two"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_clients_are_notified_of_providers_that_come_and_go(revision):
    app, provider = Server("s"), Named("late", tools=["late"], prefixes=["l:"])
    provider.uris = ["l:1"]
    app.resources.add("own:1", "own")
    app.tool(late_and_never)
    lists = ["resources", "tools"]
    async with Client(app, revision=revision) as client, client.watch(lists=lists) as changes, asyncio.timeout(60):
        await app.add_provider(provider)
        assert {(await anext(changes)).kind for _ in lists} == set(lists)
        assert [resource.uri for resource in await client.list_resources()] == ["own:1", "l:1"]
        assert (await client.call_tool("late")).content[0].text == "late"
        await app.remove_provider("late")
        assert {(await anext(changes)).kind for _ in lists} == set(lists)
        assert [resource.uri for resource in await client.list_resources()] == ["own:1"]


async def late_and_never() -> str:
    return ""
