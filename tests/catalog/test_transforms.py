"""Transforms: names and URIs change on the way out and back, in everything that can hold them."""

import msgspec
import pytest
from msgspec import Raw

from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Change, Interest, Page, Provider, Request
from carrel.catalog.transforms.change_items import ChangeItems
from carrel.catalog.transforms.filter import Filter
from carrel.catalog.transforms.namespace import Namespace
from carrel.catalog.transforms.rename import Rename
from carrel.catalog.transforms.transform import Transform
from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.server.app import Server
from carrel.wire.base import Icon
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.content import EmbeddedResource, ResourceLink, TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptMessage
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.skills import Skill, SkillResource
from carrel.wire.tools import CallToolResult, Tool

#: Requests that a shop answers, with the arguments of the provider's methods.
ASKED = {
    "list_resources": (),
    "list_templates": (),
    "read_resource": ("item://1",),
    "list_tools": (),
    "list_prompts": (),
    "get_prompt": ("advise", {}),
    "list_skills": (),
    "get_skill": ("skill://sell/SKILL.md",),
    "call_tool": ("buy", Raw(b"{}")),
    "complete": (PromptReference("advise"), "about", "", {}),
}


class Shop(Provider):
    """Provider with references to its resources in everything that it returns."""

    name = "shop"
    prefixes = ("item://", "ui://", "skill://")

    def list_resources(self, request):
        return Page([Resource("item://1", "one"), Resource("ui://page", "page")])

    def list_templates(self, request):
        return Page([ResourceTemplate("item://{id}{?lines}", "item")])

    def read_resource(self, uri, request):
        if uri == "item://gone":
            raise ResourceNotFound(uri)
        return ReadResourceResult(contents=[TextResourceContents(uri, "text")])

    def complete(self, reference, argument, value, context, request):
        where = reference.name if isinstance(reference, PromptReference) else reference.uri
        return Completion([f"{where} {argument}"])

    def list_tools(self, request):
        meta = {"ui": {"resourceUri": "ui://page"}, "ui/resourceUri": "ui://page", "other": 1}
        return Page([Tool(name=name, input_schema={"type": "object"}, meta=meta) for name in ("buy", "sell")])

    def call_tool(self, name, arguments, request):
        if name not in ("buy", "sell"):
            raise InvalidParams(f"no {name}")
        embedded = EmbeddedResource(TextResourceContents("item://2", "text"))
        return CallToolResult(content=[TextContent(name), ResourceLink("item://1", "one"), embedded])

    def list_prompts(self, request):
        return Page([Prompt(name="advise")])

    def get_prompt(self, name, arguments, request):
        return GetPromptResult(messages=[PromptMessage("user", ResourceLink("item://1", name))])

    def list_skills(self, request):
        return Page([self.get_skill("skill://sell/SKILL.md", request)])

    def get_skill(self, uri, request):
        return Skill(uri, {"name": "sell"}, [SkillResource("skill://sell/notes.md", "sha256:0", 1)])

    async def watch(self, interest):
        yield ()
        yield [Change("changed", uri) for uri in interest.uris]


class Nothing:
    def publish(self, changes=(), lists=()):
        pass


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("item://1", "x+item://1"),
        ("mailto:lem@example.org", "x+mailto:lem@example.org"),
        ("ui://page/a?b#c", "ui://x/page/a?b#c"),
        ("skill://sell/SKILL.md", "skill://x/sell/SKILL.md"),
        ("item://{id}{?lines}", "x+item://{id}{?lines}"),
        ("x+item://1", "x+x+item://1"),
        ("ui://x/page", "ui://x/x/page"),
    ],
)
def test_a_namespace_can_be_taken_off_every_uri_that_it_was_put_on(inner, outer):
    namespace = Namespace(Shop(), "x")
    assert namespace.uri_out(inner) == outer
    assert namespace.uri_in(outer) == inner


@pytest.mark.parametrize(
    "uri", ["item://1", "y+item://1", "ui://page", "ui://xy/page", "skill://y/sell/SKILL.md", "x:"]
)
def test_a_uri_of_another_namespace_is_not_in_this_one(uri):
    namespace = Namespace(Shop(), "x")
    assert namespace.uri_in(uri) is None
    assert uri not in namespace.exact


@pytest.mark.parametrize("name", ["", "X", "1a", "a b", "a_b", "ä", "a/b", "-a", "a+b"])
def test_a_namespace_is_a_name_that_schemes_can_begin_with(name):
    with pytest.raises(ConfigError, match="namespace"):
        Namespace(Shop(), name)


async def test_everything_of_a_provider_is_in_its_namespace():
    shop = Namespace(Shop(), "x")
    request = Request()
    assert [resource.uri for resource in (await shop.list_resources(request)).items] == ["x+item://1", "ui://x/page"]
    assert (await shop.list_templates(request)).items[0].uri_template == "x+item://{id}{?lines}"
    assert (await shop.read_resource("x+item://1", request)).contents[0].uri == "x+item://1"
    tools = (await shop.list_tools(request)).items
    assert [tool.name for tool in tools] == ["x_buy", "x_sell"]
    assert tools[0].meta == {"ui": {"resourceUri": "ui://x/page"}, "ui/resourceUri": "ui://x/page", "other": 1}
    assert [prompt.name for prompt in (await shop.list_prompts(request)).items] == ["x_advise"]
    [skill] = (await shop.list_skills(request)).items
    assert (skill.uri, skill.resources[0].uri) == ("skill://x/sell/SKILL.md", "skill://x/sell/notes.md")
    assert await shop.get_skill("skill://x/sell/SKILL.md", request) == skill


async def test_links_and_embedded_resources_of_results_are_in_the_namespace():
    shop = Namespace(Shop(), "x")
    text, link, embedded = (await shop.call_tool("x_buy", Raw(b"{}"), Request())).content
    assert (text.text, link.uri, embedded.resource.uri) == ("buy", "x+item://1", "x+item://2")
    [message] = (await shop.get_prompt("x_advise", {}, Request())).messages
    assert (message.content.uri, message.content.name) == ("x+item://1", "advise")


async def test_completion_gets_the_names_of_the_provider():
    shop = Namespace(Shop(), "x")
    found = await _told(shop.complete(ResourceTemplateReference("x+item://{id}{?lines}"), "id", "", {}, Request()))
    assert found.values == ["item://{id}{?lines} id"]
    found = await _told(shop.complete(PromptReference("x_advise"), "about", "", {}, Request()))
    assert found.values == ["advise about"]
    for reference in (PromptReference("advise"), ResourceTemplateReference("item://{id}{?lines}")):
        with pytest.raises(InvalidParams):
            await _told(shop.complete(reference, "id", "", {}, Request()))


async def test_subscriptions_are_translated_both_ways():
    batches = [
        batch async for batch in Namespace(Shop(), "x").watch(Interest({"x+item://1", "item://1", "ui://x/page"}))
    ]
    assert batches[0] == []
    assert {change.uri for change in batches[1]} == {"x+item://1", "ui://x/page"}


async def test_an_error_names_the_uri_as_it_was_asked_for():
    with pytest.raises(ResourceNotFound) as raised:
        await Namespace(Shop(), "x").read_resource("x+item://gone", Request())
    assert raised.value.uri == "x+item://gone"


async def test_an_error_of_another_uri_keeps_it():
    class Linked(Shop):
        def read_searchable(self, uris, request):
            return [ResourceNotFound("item://other"), ResourceNotFound(uris[1]), InvalidParams("no")]

    asked = ["x+item://1", "x+item://2", "x+item://3", "y+item://4"]
    found = await Namespace(Linked(), "x").read_searchable(asked, Request())
    assert [getattr(error, "uri", None) for error in found] == ["item://other", "x+item://2", None, "y+item://4"]


async def test_a_provider_of_any_uri_has_only_those_of_its_namespace():
    shop = Shop()
    shop.catch_all = True
    catalog = Catalog()
    await catalog.add(Namespace(shop, "x"))
    assert "x+other:1" in catalog.routes
    assert "other:1" not in catalog.routes


async def test_what_a_filter_leaves_out_cannot_be_used_either():
    shop = Filter(Shop(), tools=["b*"], prompts=[], resources=["item:*"])
    assert [tool.name for tool in (await shop.list_tools(Request())).items] == ["buy"]
    assert (await shop.list_prompts(Request())).items == []
    assert [resource.uri for resource in (await shop.list_resources(Request())).items] == ["item://1"]
    with pytest.raises(InvalidParams):
        shop.call_tool("sell", Raw(b"{}"), Request())
    with pytest.raises(InvalidParams):
        await shop.get_prompt("advise", {}, Request())
    with pytest.raises(ResourceNotFound):
        await shop.read_resource("ui://page", Request())
    batches = [batch async for batch in shop.watch(Interest({"item://1", "ui://page"}))]
    assert [change.uri for change in batches[1]] == ["item://1"]


async def test_a_template_that_a_filter_hides_is_not_completed():
    template = ResourceTemplateReference("item://{id}{?lines}")
    shown = Filter(Shop(), resources=["item:*"])
    assert (await _told(shown.complete(template, "id", "", {}, Request()))).values == ["item://{id}{?lines} id"]
    with pytest.raises(InvalidParams, match="unknown resource template"):
        await _told(Filter(Shop(), resources=["ui:*"]).complete(template, "id", "", {}, Request()))


async def test_a_tool_with_another_name_is_not_found_by_its_old_one():
    shop = Rename(Shop(), tools={"buy": "purchase"})
    assert [tool.name for tool in (await shop.list_tools(Request())).items] == ["purchase", "sell"]
    assert (await _told(shop.call_tool("purchase", Raw(b"{}"), Request()))).content[0].text == "buy"
    with pytest.raises(InvalidParams):
        shop.call_tool("buy", Raw(b"{}"), Request())


async def test_two_tools_can_swap_their_names():
    shop = Rename(Shop(), tools={"buy": "sell", "sell": "buy"})
    assert (await _told(shop.call_tool("sell", Raw(b"{}"), Request()))).content[0].text == "buy"
    with pytest.raises(ConfigError):
        Rename(Shop(), tools={"buy": "x", "sell": "x"})


async def test_transforms_are_combined_in_any_order():
    inside = Namespace(Filter(Rename(Shop(), tools={"buy": "get"}), tools=["get"]), "x")
    outside = Filter(Namespace(Rename(Shop(), tools={"buy": "get"}), "x"), tools=["x_get"])
    for shop in (inside, outside):
        assert [tool.name for tool in (await shop.list_tools(Request())).items] == ["x_get"]
        assert (await _told(shop.call_tool("x_get", Raw(b"{}"), Request()))).content[0].text == "buy"


async def test_two_namespaces_of_one_provider_live_in_one_catalog():
    catalog = Catalog()
    for name in ("x", "y"):
        await catalog.add(Namespace(Shop(), name))
    try:
        assert len((await catalog.list_tools(Request())).items) == 4
        for name in ("x", "y"):
            result = await _told(catalog.read_resource(f"ui://{name}/page", Request()))
            assert result.contents[0].uri == f"ui://{name}/page"
            template = ResourceTemplateReference(f"{name}+item://{{id}}{{?lines}}")
            assert (await _told(catalog.complete(template, "id", "", {}, Request()))).values
    finally:
        for name in ("x:shop", "y:shop"):
            await catalog.remove(name)


async def _told(pending):
    return await pending if hasattr(pending, "__await__") else pending


async def test_resources_read_together_and_their_errors_have_the_outer_uris():
    class Together(Shop):
        def read_searchable(self, uris, request):
            return [ResourceNotFound(uri) if uri == "item://gone" else self.read_resource(uri, request) for uri in uris]

    shop = Namespace(Together(), "shop")
    assert shop.offers("read_searchable")
    assert not Namespace(Shop(), "shop").offers("read_searchable")
    one, gone, other = await shop.read_searchable(["shop+item://1", "shop+item://gone", "item://1"], Request())
    assert [part.uri for part in one.contents] == ["shop+item://1"]
    assert [error.uri for error in (gone, other)] == ["shop+item://gone", "item://1"]


# Items and requests


async def test_details_of_items_change_in_lists_and_names_stay():
    def described(tool: Tool) -> Tool:
        return msgspec.structs.replace(tool, name="other", description="for you", icons=[Icon("https://example.org/i")])

    changed = ChangeItems(
        Shop(),
        tools=described,
        prompts=lambda prompt: msgspec.structs.replace(prompt, title="Advice"),
        resources=lambda resource: msgspec.structs.replace(resource, uri="item://other", title=resource.name.upper()),
        templates=lambda template: msgspec.structs.replace(template, description="an item"),
    )
    tools = (await _told(changed.list_tools(Request()))).items
    assert [(tool.name, tool.description) for tool in tools] == [("buy", "for you"), ("sell", "for you")]
    assert tools[0].icons == [Icon("https://example.org/i")]
    assert [each.title for each in (await _told(changed.list_prompts(Request()))).items] == ["Advice"]
    resources = (await _told(changed.list_resources(Request()))).items
    assert [(each.uri, each.title) for each in resources] == [("item://1", "ONE"), ("ui://page", "PAGE")]
    assert (await _told(changed.list_templates(Request()))).items[0].description == "an item"
    assert (await _told(changed.call_tool("buy", Raw(b"{}"), Request()))).content[0].text == "buy"


async def test_items_are_changed_before_they_are_named():
    changed = ChangeItems(Shop(), tools=lambda tool: msgspec.structs.replace(tool, description=f"to {tool.name}"))
    tools = (await _told(Namespace(changed, "x").list_tools(Request()))).items
    assert [(tool.name, tool.description) for tool in tools] == [("x_buy", "to buy"), ("x_sell", "to sell")]


@pytest.mark.parametrize("base", [Transform, Filter, Rename, ChangeItems])
async def test_every_request_passes_through_one_method(base):
    seen: list[str] = []

    class Recorded(base):
        def forward(self, row, request, *arguments):
            seen.append(row.provider_method)
            return super().forward(row, request, *arguments)

    shop = Recorded(Shop())
    for name, arguments in ASKED.items():
        await _told(getattr(shop, name)(*arguments, Request()))
    assert seen == list(ASKED)


def test_a_transform_of_a_server_is_rejected_because_it_takes_a_provider() -> None:
    with pytest.raises(ConfigError, match=r"^Filter takes a Provider, not a Server$"):
        Filter(Server("shop"), tools=["get_*"])  # type: ignore[arg-type]
