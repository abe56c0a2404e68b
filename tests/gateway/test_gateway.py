"""Gateways over servers of every revision, for clients of every revision: what passes, and what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.catalog.provider import Page, Provider, Request
from carrel.client.handlers import ClientCall, Handlers
from carrel.errors import ConfigError, InvalidParams, PeerError, ResourceNotFound, TransportError
from carrel.gateway import Gateway
from carrel.gateway.tool_search import ToolSearch
from carrel.host.config import ServerConfig
from carrel.protocol.methods import LIST_TOOLS
from carrel.wire.base import PageParams
from carrel.wire.completion import PromptReference
from carrel.wire.content import ResourceLink, TextContent
from carrel.wire.resources import ReadResourceResult, Resource
from carrel.wire.tools import CallToolResult

from .conftest import MakeGateway

OLDEST, SESSION, NEWEST = "2024-11-05", "2025-11-25", "2026-07-28"
PAIRS = [(far, near) for far in (OLDEST, SESSION, NEWEST) for near in (OLDEST, SESSION, NEWEST)]
PATIENCE = 60.0


def shop(name: str, **options: Any) -> Server:
    """Return a server that has one thing of each kind."""
    app = Server(name, "2.1", instructions=f"Ask {name}.", **options)
    app.resources.add("note://same", f"of {name}", name="same")
    app.resources.add(f"note://{name}", f"only {name}", name=name)

    @app.resource("page://{title}")
    async def page(title: str) -> str:
        return f"{title} of {name}"

    @page.complete("title")
    async def titles(prefix: str) -> list[str]:
        return [f"{prefix}{name}"]

    @app.tool
    async def find(query: str) -> str:
        return f"{query} at {name}"

    @app.tool(name=f"{name}only")
    async def own(context: Context) -> str:
        for step in range(2):
            await context.report_progress(step, 2)
        context.debug("details")
        context.warning("careful")
        return "done"

    @app.prompt
    async def greet(who: str) -> str:
        return f"Hello {who} from {name}"

    @greet.complete("who")
    async def names(prefix: str) -> list[str]:
        return [f"{prefix}{name}"]

    return app


async def served(client: Client) -> dict[str, list[str]]:
    """Return the names and URIs that a client sees."""
    return {
        "tools": sorted(tool.name for tool in await client.list_tools()),
        "prompts": sorted(prompt.name for prompt in await client.list_prompts()),
        "resources": sorted(resource.uri for resource in await client.list_resources()),
        "templates": sorted(template.uri_template for template in await client.list_resource_templates()),
    }


@pytest.mark.parametrize(("far", "near"), PAIRS)
async def test_two_servers_are_one_at_every_pair_of_revisions(gateway_of: MakeGateway, far: str, near: str) -> None:
    servers = {"a": shop("a"), "b": shop("b")}
    async with (
        gateway_of(servers, revisions={"a": far, "b": NEWEST}, status=False) as gateway,
        Client(gateway.app, revision=near) as client,
    ):
        assert await served(client) == {
            "tools": ["a_find", "aonly", "b_find", "bonly"],
            "prompts": ["a_greet", "b_greet"],
            "resources": ["a+note://same", "b+note://same", "note://a", "note://b"],
            "templates": ["a+page://{title}", "b+page://{title}"],
        }
        assert (await client.call_tool("a_find", {"query": "lamp"})).content[0].text == "lamp at a"
        assert (await client.get_prompt("b_greet", {"who": "Lem"})).messages[0].content.text == "Hello Lem from b"
        for uri, text in [
            ("a+note://same", "of a"),
            ("note://b", "only b"),
            ("b+page://x", "x of b"),
            ("a+note://a", "only a"),
        ]:
            (part,) = (await client.read_resource(uri)).contents
            assert (part.uri, part.text) == (uri, text)
        if near != OLDEST and far != OLDEST:
            (template,) = [one for one in await client.list_resource_templates() if one.uri_template[0] == "a"]
            assert (await client.complete(template, "title", "x")).values == ["xa"]
            assert (await client.complete(PromptReference("b_greet"), "who", "x")).values == ["xb"]


async def test_a_name_of_several_servers_is_refused_and_the_error_says_what_it_could_be(
    gateway_of: MakeGateway,
) -> None:
    async with gateway_of({"a": shop("a"), "b": shop("b")}) as gateway, Client(gateway.app) as client:
        with pytest.raises(PeerError, match="find is not unique here; say which one: a_find, b_find") as refused:
            await client.call_tool("find", {"query": "x"})
        assert refused.value.code == InvalidParams.code
        assert refused.value.data == {"candidates": ["a_find", "b_find"]}
        with pytest.raises(PeerError, match=r"greet is not unique here; say which one: a_greet, b_greet"):
            await client.get_prompt("greet", {"who": "x"})
        with pytest.raises(PeerError, match=r"say which one: a\+note://same, b\+note://same"):
            await client.read_resource("note://same")
        with pytest.raises(PeerError, match=r"say which one: a\+page://x, b\+page://x"):
            await client.read_resource("page://x")


async def test_a_uri_that_no_server_lists_is_asked_of_all_of_them_and_only_one_may_have_it(
    gateway_of: MakeGateway,
) -> None:
    one, other = Server("one"), Server("other")
    for app, names in ((one, ("here", "both")), (other, ("both",))):
        for name in names:
            app.resources.add(f"note://{name}", app.name)
    async with gateway_of({"one": one, "other": other}) as gateway, Client(gateway.app) as client:
        gateway.names.servers([])
        gateway.names.servers(["one", "other"])
        assert (await client.read_resource("note://here")).contents[0].text == "one"
        assert gateway.names.find("uri", "note://here") == ("one", "note://here")
        with pytest.raises(PeerError, match=r"say which one: one\+note://both, other\+note://both"):
            await client.read_resource("note://both")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://nowhere")


async def test_every_name_has_its_prefix_where_that_is_wanted(gateway_of: MakeGateway) -> None:
    async with gateway_of({"a": shop("a")}, prefix="always", status=False) as gateway, Client(gateway.app) as client:
        assert await served(client) == {
            "tools": ["a_aonly", "a_find"],
            "prompts": ["a_greet"],
            "resources": ["a+note://a", "a+note://same"],
            "templates": ["a+page://{title}"],
        }
        assert (await client.call_tool("a_find", {"query": "x"})).content[0].text == "x at a"
        assert (await client.read_resource("a+page://x")).contents[0].text == "x of a"
        with pytest.raises(PeerError, match="say which one: a_find"):
            await client.call_tool("find", {"query": "x"})


async def test_without_prefixes_a_name_of_two_servers_is_an_error_that_names_both(gateway_of: MakeGateway) -> None:
    with pytest.raises(ConfigError, match="is offered by a and b: use the prefix 'auto' or 'always'"):
        async with gateway_of({"a": shop("a"), "b": shop("b")}, prefix="never"):
            pass


async def test_a_tool_list_that_changes_under_a_client_is_announced_and_no_call_goes_to_another_server(
    gateway_of: MakeGateway,
) -> None:
    servers = {"a": shop("a"), "b": Server("b")}
    for revision in (SESSION, NEWEST):
        servers["b"] = Server("b")

        @servers["b"].tool
        async def first() -> str:
            return "first"

        async with gateway_of(servers, revisions={"b": revision}) as gateway, Client(gateway.app) as client:
            assert (await client.call_tool("find", {"query": "x"})).content[0].text == "x at a"
            async with client.watch(lists=["tools"]) as changes, asyncio.timeout(PATIENCE):

                @servers["b"].tool
                async def find(query: str) -> str:
                    return f"{query} at b"

                while "b_find" not in [tool.name for tool in await client.list_tools()]:
                    assert (await anext(changes)).kind in ("tools", "missed")
            assert (await served(client))["tools"] == ["a_find", "aonly", "b_find", "first"]
            with pytest.raises(PeerError, match="say which one: a_find, b_find"):
                await client.call_tool("find", {"query": "x"})


@pytest.mark.parametrize(("far", "near"), PAIRS)
async def test_changes_of_one_resource_reach_its_subscribers_at_every_pair_of_revisions(
    gateway_of: MakeGateway, far: str, near: str
) -> None:
    servers = {"a": shop("a"), "b": shop("b")}
    async with (
        gateway_of(servers, revisions={"a": far, "b": far}) as gateway,
        Client(gateway.app, revision=near) as client,
    ):
        watch = client.watch("a+note://same", "note://b", "b+page://x")
        async with watch as changes, asyncio.timeout(PATIENCE):
            assert watch.refused == ()
            for app, uri, outer in [
                ("a", "note://same", "a+note://same"),
                ("b", "note://b", "note://b"),
                ("b", "page://x", "b+page://x"),
            ]:
                while True:
                    servers[app].resources.changed(uri)
                    seen = await anext(changes)
                    if seen.uri == outer:
                        break
            servers["b"].resources.changed("note://same")
            servers["a"].resources.changed("note://same")
            while (seen := await anext(changes)).uri != "a+note://same":
                assert seen.uri != "b+note://same"


async def test_a_resource_of_several_servers_cannot_be_subscribed_to_without_saying_which(
    gateway_of: MakeGateway,
) -> None:
    async with gateway_of({"a": shop("a"), "b": shop("b", subscribe=False)}) as gateway:
        async with Client(gateway.app, revision=SESSION) as client:
            for uri, why in [
                ("note://same", "say which one"),
                ("b+note://same", "b does not offer subscriptions"),
            ]:
                with pytest.raises(PeerError, match="rejected all subscriptions"):
                    async with client.watch(uri):
                        pass
                del why
        async with Client(gateway.app) as client, client.watch("note://same", "note://b", "note://a") as changes:
            assert changes.refused == ("note://same", "note://b")


@pytest.mark.parametrize(("far", "near"), PAIRS)
async def test_log_messages_go_to_the_client_whose_call_caused_them_from_its_level_up(
    gateway_of: MakeGateway, far: str, near: str
) -> None:
    async with gateway_of({"a": shop("a")}, revisions={"a": far}) as gateway:
        heard: dict[str, list[Any]] = {"debug": [], "warning": [], "error": []}
        clients = {
            level: Client(
                gateway.app,
                revision=near,
                log_level=level,
                log=lambda params, level=level: heard[level].append(params.data),
            )  # type: ignore[arg-type,misc]
            for level in heard
        }
        for level in ("error", "debug", "warning"):
            async with clients[level] as client:
                await client.call_tool("aonly")
        assert heard == {"debug": ["details", "careful"], "warning": ["careful"], "error": []}


@pytest.mark.parametrize(("far", "near"), PAIRS)
async def test_progress_and_cancellation_pass_at_every_pair_of_revisions(
    gateway_of: MakeGateway, far: str, near: str
) -> None:
    app = shop("a")
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @app.tool
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with gateway_of({"a": app}, revisions={"a": far}) as gateway, Client(gateway.app, revision=near) as client:
        steps: list[float] = []
        await client.call_tool("aonly", progress=lambda progress, total, message: steps.append(progress))
        assert steps == [0, 1]
        async with asyncio.timeout(PATIENCE):
            call = asyncio.ensure_future(client.call_tool("wait"))
            await begun.wait()
            call.cancel()
            await cancelled.wait()


async def test_a_server_that_dies_is_named_in_errors_and_is_back_by_itself(
    gateway_of: MakeGateway, down: set[str]
) -> None:
    servers = {"a": shop("a"), "b": shop("b")}
    async with gateway_of(servers, revisions={"a": SESSION}) as gateway, Client(gateway.app) as client:
        states = gateway.host.watch()
        async with client.watch("note://a", lists=["tools"]) as changes, asyncio.timeout(PATIENCE):
            down.add("a")
            connection = gateway.host.server("a").client.session.connection
            assert connection is not None
            connection.closed(TransportError("lost"))
            while gateway.host.server("a").state != "failed":
                await anext(states)
            with pytest.raises(PeerError, match="a is not available") as refused:
                await client.call_tool("a_find", {"query": "x"})
            assert "secret" not in f"{refused.value}{refused.value.data}"
            assert sorted(tool.name for tool in await client.list_tools()) == ["b_find", "bonly"]
            with pytest.raises(PeerError, match="say which one: a_find, b_find"):
                await client.call_tool("find", {"query": "x"})
            down.clear()
            while gateway.host.server("a").state != "ready":
                await anext(states)
            assert (await client.call_tool("a_find", {"query": "x"})).content[0].text == "x at a"
            while True:
                servers["a"].resources.changed("note://a")
                if (await anext(changes)).uri == "note://a":
                    break


async def test_nothing_of_a_configuration_is_in_errors_status_or_table(gateway_of: MakeGateway, down: set[str]) -> None:
    down.add("b")
    async with gateway_of({"a": shop("a"), "b": shop("b")}) as gateway, Client(gateway.app) as client:
        texts = [
            gateway.status(),
            gateway.table(),
            (await client.read_resource("carrel://gateway/servers")).contents[0].text,
        ]
        for request in (
            client.call_tool("b_find", {"query": "x"}),
            client.read_resource("b+note://same"),
            client.get_prompt("b_greet", {"who": "x"}),
        ):
            with pytest.raises(PeerError, match="b is not available") as refused:
                await request
            texts.append(f"{refused.value} {refused.value.data}")
        assert "secret" not in " ".join(texts)


async def test_a_server_that_is_connected_and_offers_nothing_is_reported(
    gateway_of: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_of({"a": shop("a"), "void": Server("void")}) as gateway, Client(gateway.app) as client:
        (part,) = (await client.read_resource("carrel://gateway/servers")).contents
        states = {server["name"]: server["state"] for server in json.loads(part.text)["servers"]}
        assert states == {"a": "ready", "void": "empty"}
        assert "it offers nothing" in gateway.table()
        assert "void is connected, and offers nothing" in caplog.text


async def test_the_status_says_how_each_server_is_and_what_collides(gateway_of: MakeGateway) -> None:
    async with gateway_of({"a": shop("a"), "b": shop("b")}, revisions={"b": SESSION}) as gateway:
        status = json.loads(gateway.status())
        assert status["servers"][1] == {
            "name": "b",
            "state": "ready",
            "reason": None,
            "retryInSeconds": None,
            "prefix": "b",
            "server": {"name": "b", "version": "2.1"},
            "revision": SESSION,
            "isolation": "auto",
            "tools": 2,
            "prompts": 1,
            "resources": 2,
            "templates": 1,
        }
        assert {"kind": "tool", "name": "find", "servers": ["a", "b"]} in status["collisions"]


async def test_instructions_of_all_servers_are_passed_on_under_their_names_and_bounded(gateway_of: MakeGateway) -> None:
    long = Server("long", instructions="x" * 100_000)
    async with gateway_of({"a": shop("a"), "long": long}, instructions="Be kind.") as gateway:
        for revision in (OLDEST, NEWEST):
            async with Client(gateway.app, revision=revision) as client:
                assert client.instructions is not None
                assert client.instructions.startswith("Be kind.\n\n# a\n\nAsk a.\n\n# long\n\nxxx")
                assert len(client.instructions) < 3000


async def test_lists_are_paged_with_cursors_that_stay_right_while_other_servers_change(gateway_of: MakeGateway) -> None:
    many = Server("many")
    for number in range(25):
        many.tools.add(_tool(number), name=f"tool{number:02}")
    async with (
        gateway_of({"a": shop("a"), "many": many, "z": shop("z")}, app={"page_size": 10}) as gateway,
        Client(gateway.app) as client,
    ):
        listed = [tool.name async for tool in client.list_tools()]
        assert sorted(listed) == [
            "a_find",
            "aonly",
            *(f"tool{number:02}" for number in range(25)),
            "z_find",
            "zonly",
        ]


def _tool(number: int) -> Any:
    async def tool() -> str:
        return str(number)

    return tool


async def test_only_the_named_servers_are_used_and_a_name_that_is_not_there_is_an_error(
    gateway_of: MakeGateway,
) -> None:
    async with gateway_of({"a": shop("a"), "b": shop("b")}, only=["a"]) as gateway:
        assert list(gateway.host.servers) == ["a"]
        assert "find" in gateway.names.of("tool", "a")
    with pytest.raises(ConfigError, match="there is no server 'c'"):
        async with gateway_of({"a": shop("a")}, only=["c"]):
            pass


async def test_a_lazy_gateway_connects_when_something_is_asked_for(gateway_of: MakeGateway) -> None:
    async with gateway_of({"a": shop("a"), "b": shop("b")}, lazy=True) as gateway, Client(gateway.app) as client:
        assert [server.state for server in gateway.host.servers.values()] == ["idle", "idle"]
        assert (await client.call_tool("aonly")).content[0].text == "done"
        assert [server.state for server in gateway.host.servers.values()] == ["ready", "ready"]


async def test_there_is_no_way_to_start_a_command_through_the_gateway(gateway_of: MakeGateway) -> None:
    async with gateway_of({"void": Server("void")}) as gateway, Client(gateway.app) as client:
        seen = await served(client)
        assert (seen["tools"], seen["prompts"], seen["templates"]) == ([], [], [])
        assert seen["resources"] == ["carrel://gateway/servers"]
        assert gateway.app.endpoint.routes == []


async def test_questions_go_to_the_client_whose_call_caused_them(gateway_of: MakeGateway) -> None:
    app = shop("a")

    @app.tool
    async def order(context: Context) -> str:
        answer = await context.elicit("Which size?", int)
        return f"size {answer.data}"

    async def seven(form: Any) -> dict[str, Any]:
        return {"value": 7}

    for far in (SESSION, NEWEST):
        async with gateway_of({"a": app, "b": shop("b")}, revisions={"a": far}) as gateway:
            for near in (SESSION, NEWEST):
                async with Client(gateway.app, revision=near, handlers=Handlers(elicit_form=seven)) as client:
                    assert (await client.call_tool("order")).content[0].text == "size 7"


async def test_the_configuration_of_a_gateway_refuses_two_servers_of_one_name() -> None:
    config = ServerConfig(name="a", command="x")
    with pytest.raises(ConfigError, match="several servers of one name"):
        Gateway([config, config])


def test_a_configuration_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*servers\.json"):
        Gateway(tmp_path / "servers.json")


async def test_a_server_that_does_not_get_ready_holds_up_nothing_of_the_others(gateway_of: MakeGateway) -> None:
    hanging, begun = shop("hanging"), asyncio.Event()

    @hanging.on_startup
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with gateway_of({"a": shop("a"), "hanging": hanging}, enter_timeout=0.05) as gateway:
        await begun.wait()
        async with Client(gateway.app) as client, asyncio.timeout(60):
            while gateway.host.server("a").state != "ready":
                await asyncio.sleep(0.01)
            assert gateway.host.server("hanging").state == "connecting"
            assert (await served(client))["tools"] == ["aonly", "find"]
            assert (await client.read_resource("page://x")).contents[0].text == "x of a"
            with pytest.raises(ResourceNotFound):
                await client.read_resource("nowhere://x")


@pytest.mark.parametrize(("far", "near"), PAIRS)
async def test_meta_of_requests_results_and_entries_passes(gateway_of: MakeGateway, far: str, near: str) -> None:
    app = Server("a")
    seen: list[dict[str, Any]] = []

    @app.tool(meta={"example.org/shelf": 7})
    async def look(context: Context) -> CallToolResult:
        seen.append(context.meta)
        return CallToolResult(content=[TextContent(text="x", meta={"example.org/x": 1})], meta={"example.org/y": [2]})

    async with gateway_of({"a": app}, revisions={"a": far}) as gateway, Client(gateway.app, revision=near) as client:
        (tool,) = await client.list_tools()
        result = await client.call_tool("look", meta={"example.org/z": {"deep": 3}})
        assert seen[0]["example.org/z"] == {"deep": 3}
        assert result.meta is not None
        assert result.meta["example.org/y"] == [2]
        if OLDEST not in (far, near):
            assert tool.meta == {"example.org/shelf": 7}
            assert result.content[0].meta == {"example.org/x": 1}


async def test_a_uri_that_one_server_lists_and_a_template_of_another_matches_is_that_of_neither_alone(
    gateway_of: MakeGateway,
) -> None:
    lists, matches = Server("lists"), Server("matches")
    lists.resources.add("note://1", "listed")
    lists.resources.add("file:///x", "listed")

    @matches.resource("note://{number}")
    async def note(number: str) -> str:
        return f"matched {number}"

    async with gateway_of({"lists": lists, "matches": matches}, status=False) as gateway, Client(gateway.app) as client:
        seen = await served(client)
        assert seen["resources"] == ["file:///x", "lists+note://1"]
        assert seen["templates"] == ["note://{number}"]
        assert (await client.read_resource("lists+note://1")).contents[0].text == "listed"
        assert (await client.read_resource("matches+note://1")).contents[0].text == "matched 1"
        assert (await client.read_resource("note://2")).contents[0].text == "matched 2"
        with pytest.raises(PeerError, match=r"say which one: lists\+note://1, matches\+note://1"):
            await client.read_resource("note://1")


async def test_links_in_results_lead_back_to_their_server(gateway_of: MakeGateway) -> None:
    def linking(name: str) -> Server:
        app = Server(name)

        @app.resource("hidden://{x}")
        async def hidden(x: str) -> str:
            return f"{x} of {name}"

        @app.tool
        async def link() -> CallToolResult:
            names = ("hidden://1", f"own-{name}://1", "https://example.org/")
            return CallToolResult(content=[ResourceLink(uri=uri, name="x") for uri in names])

        return app

    async with gateway_of({"a": linking("a"), "b": linking("b")}) as gateway, Client(gateway.app) as client:
        result = await client.call_tool("b_link")
        links = [block.uri for block in result.content if isinstance(block, ResourceLink)]
        assert links == ["b+hidden://1", "own-b://1", "https://example.org/"]
        assert (await client.read_resource(links[0])).contents[0].text == "1 of b"


async def test_skills_of_two_servers_keep_their_paths_apart(gateway_of: MakeGateway, tmp_path: Path) -> None:
    servers = {}
    for name in ("a", "b"):
        for skill in ("same", f"only-{name}"):
            folder = tmp_path / name / skill
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {skill}\ndescription: Of {name}.\n---\nRead {name}.\n")
        servers[name] = Server(name)
        servers[name].skills(tmp_path / name)
    async with gateway_of(servers) as gateway, Client(gateway.app) as client:
        listed = sorted([skill.uri async for skill in client.skills.list_skills()])
        assert listed == [
            "skill://a/same/SKILL.md",
            "skill://b/same/SKILL.md",
            "skill://only-a/SKILL.md",
            "skill://only-b/SKILL.md",
        ]
        assert "Read b." in (await client.read_resource("skill://b/same/SKILL.md")).contents[0].text
        inside = [resource.uri async for resource in client.list_directory("skill://b/same")]
        assert inside == ["skill://b/same/SKILL.md"]


async def test_capabilities_follow_what_the_servers_have(gateway_of: MakeGateway) -> None:
    tools, more = Server("tools"), Server("more")
    tools.tools.add(_tool(1), name="one")
    async with gateway_of({"tools": tools, "more": more}, status=False) as gateway:
        for revision in (SESSION, NEWEST):
            async with Client(gateway.app, revision=revision) as client:
                assert client.capabilities.tools is not None
                assert client.capabilities.prompts is None
        async with Client(gateway.app) as client, client.watch(lists=["tools"]) as changes:
            await gateway.host.apply([gateway.host.server("more").config])
            assert (await asyncio.wait_for(anext(changes), PATIENCE)).kind == "tools"
        async with Client(gateway.app) as client:
            assert client.capabilities.tools is None


async def test_a_subscription_outlives_that_its_uri_is_not_unique_any_more(gateway_of: MakeGateway) -> None:
    servers = {"a": Server("a"), "b": Server("b")}
    servers["a"].resources.add("note://1", "one")
    servers["b"].resources.add("note://2", "two")
    async with (
        gateway_of(servers, status=False) as gateway,
        Client(gateway.app) as client,
        client.watch("note://1", lists=["resources"]) as changes,
        asyncio.timeout(PATIENCE),
    ):
        servers["b"].resources.add("note://1", "another")
        while (await served(client))["resources"] != ["a+note://1", "b+note://1", "note://2"]:
            await anext(changes)
        with pytest.raises(PeerError, match="say which one"):
            await client.read_resource("note://1")
        servers["a"].resources.changed("note://1")
        while (await anext(changes)).uri != "note://1":
            pass


@pytest.mark.parametrize("scope", ["public", "private"])
async def test_a_list_that_is_kept_is_offered_for_as_long_and_to_those_that_its_server_says(
    scope: str, gateway_of: MakeGateway
) -> None:
    far = shop("alpha", ttl=60, scope=scope)
    async with gateway_of({"alpha": far}) as gateway, Client(gateway.app) as client:
        for listing in (client.session.request(ClientCall(LIST_TOOLS, PageParams())) for _ in range(2)):
            result = await listing
            assert 0 < result.ttl_ms <= 60_000
            assert result.cache_scope == scope


async def test_a_list_is_read_again_when_its_time_to_live_has_ended(gateway_of: MakeGateway) -> None:
    async with gateway_of({"alpha": shop("alpha", ttl=60)}) as gateway:
        hosted = gateway.host.server("alpha")
        first = (await hosted.page("tool")).items
        assert (await hosted.page("tool")).items is first
        page, began = hosted._lists["tool"]
        hosted._lists["tool"] = page, began - 61
        again = await hosted.page("tool")
        assert again.items is not first
        assert again.ttl is not None
        assert 59 < again.ttl <= 60


async def test_a_server_that_stays_away_is_reported_once_however_often_it_is_tried(
    gateway_of: MakeGateway, down: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    down.add("alpha")
    async with gateway_of({"alpha": shop("alpha")}) as gateway:
        changes = gateway.host.watch()
        tried = 0
        while tried < 4:
            change = await asyncio.wait_for(anext(changes), PATIENCE)
            tried += change.kind == "state" and gateway.host.server("alpha").state == "failed"
    assert caplog.text.count("alpha is not available: ") == 1


async def test_a_later_collision_without_prefixes_is_logged_once(
    gateway_of: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    alpha, beta = Server("alpha"), Server("beta")
    alpha.tool(name="twin")(twin)
    beta.tool(name="other")(twin)
    async with gateway_of({"alpha": alpha, "beta": beta}, prefix="never") as gateway:
        changes = gateway.host.watch()
        beta.tool(name="twin")(twin)
        while len(list(gateway.names.shared())) < 1:
            await asyncio.wait_for(anext(changes), PATIENCE)
        beta.tool(name="more")(twin)
        while not gateway.names.has("tool", "beta", "more"):
            await asyncio.wait_for(anext(changes), PATIENCE)
    assert caplog.text.count("the tool twin is offered by alpha and beta now") == 1


async def twin() -> str:
    """Return nothing of interest."""
    return "twin"


async def test_the_status_says_what_tool_search_saves(gateway_of: MakeGateway) -> None:
    async with gateway_of({"alpha": shop("alpha")}, transform=ToolSearch) as gateway:
        assert isinstance(gateway.provider, ToolSearch)
        saved = await gateway.provider.savings()
        assert json.loads(gateway.status())["toolSearch"] == saved
        assert f"tool search: {saved}\n" in gateway.table()


class Slow(Provider):
    """Provider of one resource, whose list waits for ``gate`` once that is there."""

    def __init__(self, name: str, asked: set[str]) -> None:
        self.name = name
        self.gate: asyncio.Event | None = None
        self._asked = asked

    async def list_resources(self, request: Request) -> Page[Resource]:
        self._asked.add(self.name)
        if self.gate is not None:
            await self.gate.wait()
        return Page([Resource(f"{self.name}://1", self.name), Resource(f"{self.name}://2", self.name)])

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        raise ResourceNotFound(uri)


async def test_a_page_asks_its_servers_in_parallel_and_keeps_their_order(gateway_of: MakeGateway) -> None:
    asked = set[str]()
    servers, slow = {name: Server(name) for name in "abc"}, {name: Slow(name, asked) for name in "abc"}
    for name, app in servers.items():
        app.add_provider(slow[name])
    async with gateway_of(servers, status=False) as gateway, Client(gateway.app) as client:
        asked.clear()
        for each in slow.values():
            each.gate = asyncio.Event()
        listing = asyncio.ensure_future(client.list_resources())
        async with asyncio.timeout(PATIENCE):
            while len(asked) < 3:
                await asyncio.sleep(0.01)
        for each in slow.values():
            assert each.gate is not None
            each.gate.set()
        assert [one.uri for one in await listing] == [f"{name}://{number}" for name in "abc" for number in (1, 2)]


async def test_pages_that_servers_share_hold_every_entry_once(gateway_of: MakeGateway) -> None:
    servers = {name: Server(name) for name in "abc"}
    for name, app in servers.items():
        app.add_provider(Slow(name, set()))
    async with gateway_of(servers, status=False, app={"page_size": 3}) as gateway, Client(gateway.app) as client:
        listed = [one.uri for one in await client.list_resources()]
        assert listed == [f"{name}://{number}" for name in "abc" for number in (1, 2)]


async def test_a_gateway_takes_the_path_of_a_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}}')
    async with Gateway(str(file)) as gateway, Client(gateway.app) as client:
        assert [resource.uri for resource in await client.list_resources()] == ["carrel://gateway/servers"]
