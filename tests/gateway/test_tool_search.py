"""``search_tools`` and ``call_tool`` in place of many tools: what they show, and that calls are as direct ones are."""

import asyncio
import json
import logging

import pytest
from msgspec import UNSET

from carrel import Client, Context, Server
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Page, Provider, Request
from carrel.catalog.transforms.namespace import Namespace
from carrel.client.handlers import Handlers
from carrel.errors import ConfigError, PeerError, ToolError
from carrel.gateway.tool_search import ToolSearch
from carrel.host.remote import RemoteProvider
from carrel.protocol.principal import View
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, ToolAnnotations
from support.tool_descriptions import described, many, tool

OLDEST, SESSION, NEWEST = "2024-11-05", "2025-11-25", "2026-07-28"


class Many(Provider):
    """Provider of many tools, which say how they were called."""

    name = "many"

    def __init__(self, tools):
        self.tools = {tool.name: tool for tool in tools}
        self.tool_names = self.tools
        self.lists = 0
        self.scope = None

    async def start(self, events):
        self.events = events

    def list_tools(self, request):
        self.lists += 1
        names = sorted(self.tools)
        start = 0 if request.cursor is None else int(request.cursor)
        end = start + request.limit
        shown = [self.tools[name] for name in names[start:end] if request.allows("call", name)]
        return Page(shown, str(end) if end < len(names) else None, scope=self.scope)

    def call_tool(self, name, arguments, request):
        if name not in self.tools:
            return super().call_tool(name, arguments, request)
        called = {"name": name, "arguments": json.loads(bytes(arguments))}
        return CallToolResult(content=[TextContent(name)], structured_content=called)


def working() -> Server:
    """Return a server whose tools do what tools can do besides returning text."""
    app = Server("far")
    app.begun, app.cancelled = asyncio.Event(), asyncio.Event()

    @app.tool
    async def order_lamp(context: Context) -> str:
        """Order a lamp in a size and a colour that are asked for."""
        size = await context.elicit("Which size?", int)
        colour = await context.elicit("Which colour?", str)
        return f"{size.data} {colour.data}"

    @app.tool
    async def count_steps(context: Context) -> str:
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "done"

    @app.tool
    async def wait_for_ever() -> str:
        app.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            app.cancelled.set()
            raise
        return ""

    @app.tool(annotations={"readOnlyHint": True})
    def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    @app.tool
    def fail() -> str:
        raise ToolError("it is closed today")

    return app


async def answer_form(form):
    return {name: 42 if schema["type"] == "integer" else "red" for name, schema in form.fields.items()}


def behind_search(provider, **options):
    app = Server("near")
    app.add_provider(ToolSearch(provider, **options))
    return app


async def found(client, query, **arguments):
    result = await client.call_tool("search_tools", {"query": query, **arguments})
    assert not result.is_error, result.text
    told = json.loads(result.text)
    assert result.structured_content in (told, UNSET)  # UNSET: before 2025-06-18
    return told


@pytest.fixture(params=[OLDEST, SESSION, NEWEST])
def revision(request):
    return request.param


@pytest.fixture(params=["remote", "mounted"])
def server(request):
    """A server with a search over ``working``, which is remote, or mounted in another server."""
    app = working()
    if request.param == "remote":
        server = behind_search(RemoteProvider(app, name="far"))
    else:
        from carrel.server.mount import Mounted

        server = Server("near")
        server.add_provider(ToolSearch(Mounted(app, server)))
    server.far = app
    return server


async def test_two_tools_are_listed_in_place_of_all_and_find_them(server, revision):
    async with Client(server, revision=revision) as client:
        assert [each.name for each in await client.list_tools()] == ["call_tool", "search_tools"]
        best, *_ = (await found(client, "sum of two numbers"))["tools"]
        assert best["name"] == "add"
        assert best["description"] == "Add two numbers."
        assert best["inputSchema"]["required"] == ["a", "b"]
        if revision != OLDEST:
            assert best["annotations"] == {"readOnlyHint": True}


async def test_a_call_has_the_text_and_the_structured_content_of_a_direct_one(server, revision):
    async with Client(server, revision=revision) as client:
        through = await client.call_tool("call_tool", {"name": "add", "arguments": {"a": 1, "b": 2}})
        direct = await client.call_tool("add", {"a": 1, "b": 2})
        assert (through.text, through.structured_content) == (direct.text, direct.structured_content)
        assert json.loads(through.text) == {"sum": 3}


@pytest.mark.parametrize("revision", [SESSION, NEWEST])
async def test_questions_of_a_called_tool_reach_the_client(server, revision):
    async with Client(server, revision=revision, handlers=Handlers(elicit_form=answer_form)) as client:
        assert (await client.call_tool("call_tool", {"name": "order_lamp"})).text == "42 red"


async def test_progress_of_a_called_tool_reaches_the_client(server, revision):
    steps = []
    async with Client(server, revision=revision) as client:
        await client.call_tool(
            "call_tool", {"name": "count_steps"}, progress=lambda done, total, message: steps.append((done, total))
        )
    assert steps == [(0, 3), (1, 3), (2, 3)]


async def test_a_cancelled_call_is_cancelled_where_it_runs(server, revision):
    async with Client(server, revision=revision) as client:
        call = asyncio.ensure_future(client.call_tool("call_tool", {"name": "wait_for_ever"}))
        await server.far.begun.wait()
        call.cancel()
        await asyncio.wait_for(server.far.cancelled.wait(), 60)


async def test_errors_of_a_called_tool_are_those_of_a_direct_call(server, revision):
    async with Client(server, revision=revision) as client:
        result = await client.call_tool("call_tool", {"name": "fail"})
        assert (result.is_error, result.text) == (True, "it is closed today")
        wrong = {"a": "x", "b": 1}
        outcomes = []
        for name, arguments in (("add", wrong), ("call_tool", {"name": "add", "arguments": wrong})):
            try:
                outcome = await client.call_tool(name, arguments)
                outcomes.append((outcome.is_error, outcome.text))
            except PeerError as error:
                outcomes.append((error.code, error.message))
        assert outcomes[0] == outcomes[1]
        assert "a" in outcomes[0][1]


async def test_a_name_that_there_is_not_is_answered_with_the_nearest_ones(server, revision):
    async with Client(server, revision=revision) as client:
        result = await client.call_tool("call_tool", {"name": "order_lamb"})
        assert result.is_error
        assert result.text.startswith("There is no tool 'order_lamb'; near are: order_lamp")
        assert "search_tools" in result.text


@pytest.mark.parametrize(
    "arguments",
    [{}, {"name": 3}, {"name": "buy", "arguments": 3}, {"name": "buy", "arguments": "no"}, {"name": "buy", "x": 1}],
)
async def test_wrong_arguments_of_call_tool_are_explained_to_the_model(arguments):
    async with Client(behind_search(Many([tool("buy", "Buy")]))) as client:
        result = await client.call_tool("call_tool", arguments)
        assert result.is_error
        assert "Invalid arguments" in result.text
        assert "an object of its arguments" in result.text


@pytest.mark.parametrize("arguments", [{"what": "lamp"}, '{"what": "lamp"}'])
async def test_arguments_may_be_an_object_or_a_text_that_has_it(arguments):
    async with Client(behind_search(Many([tool("buy", "Buy")]))) as client:
        result = await client.call_tool("call_tool", {"name": "buy", "arguments": arguments})
        assert result.structured_content == {"name": "buy", "arguments": {"what": "lamp"}}


async def test_no_arguments_are_an_empty_object():
    async with Client(behind_search(Many([tool("buy", "Buy")]))) as client:
        for arguments in ({"name": "buy"}, {"name": "buy", "arguments": None}):
            assert (await client.call_tool("call_tool", arguments)).structured_content["arguments"] == {}


async def test_a_search_returns_as_many_tools_as_are_asked_for_and_says_how_many_there_are():
    async with Client(behind_search(Many(many(300)), limit=3)) as client:
        result = await found(client, "issue")
        assert len(result["tools"]) == 3
        assert result["total"] > 3
        assert f"the best 3 of {result['total']}" in result["note"]
        assert len((await found(client, "issue", limit=7))["tools"]) == 7
        refused = await client.call_tool("search_tools", {"query": "issue", "limit": 0})
        assert refused.is_error


async def test_without_a_query_all_names_are_listed_and_without_a_match_there_is_advice():
    async with Client(behind_search(Many(described()))) as client:
        everything = await found(client, "")
        assert len(everything["tools"]) == everything["total"] == len(described())
        assert "inputSchema" not in everything["tools"][0]
        nothing = await found(client, "zzzzqqqq")
        assert nothing["tools"] == []
        assert "none of" in nothing["note"]


async def test_a_result_stays_within_its_characters():
    async with Client(behind_search(Many(many(500)), max_characters=3000)) as client:
        for query in ("", "issue", "t1_github_create_issue"):
            text = (await client.call_tool("search_tools", {"query": query, "limit": 50})).text
            assert len(text) < 3300
            assert json.loads(text)["tools"]


async def test_a_long_schema_is_shortened_and_whole_for_the_name_of_the_tool():
    long = tool("paint", "Paint " + "x" * 3000, "wall colour?")
    long.input_schema["properties"]["colour"] = {"enum": ["red"], "description": "y" * 5000, "x-more": "z" * 5000}
    async with Client(behind_search(Many([long]))) as client:
        [short] = (await found(client, "wall of a colour"))["tools"]
        assert len(json.dumps(short)) < 2500
        assert list(short["inputSchema"]["properties"]) == ["wall", "colour"]
        assert short["inputSchema"]["properties"]["colour"]["enum"] == ["red"]
        assert "search for this name" in short["note"]
        [whole] = (await found(client, "paint"))["tools"]
        assert whole["inputSchema"] == long.input_schema
        assert whole["description"] == long.description


async def test_pinned_tools_stay_listed_and_are_found_too():
    async with Client(behind_search(Many(described()), pinned=["slack_post_*", "fetch"])) as client:
        names = [each.name for each in await client.list_tools()]
        assert names == ["call_tool", "search_tools", "slack_post_message"]
        assert (await found(client, "post to a channel"))["tools"][0]["name"] == "slack_post_message"


async def test_tools_that_need_the_client_itself_stay_listed():
    header = tool("by_header", "Sends a header", "tenant")
    header.input_schema["properties"]["tenant"]["x-mcp-header"] = "Tenant"
    app = Server("near")
    app.add_provider(ToolSearch(Many([tool("plain", "Plain"), header])))

    async with Client(app) as client:
        assert [each.name for each in await client.list_tools()] == ["by_header", "call_tool", "search_tools"]


async def test_tools_that_are_always_tasks_stay_listed_and_optional_ones_become_tasks():
    from carrel.server.mount import Mounted

    inner, outer = Server("inner"), Server("outer")
    inner.tools.add(lambda: "one", name="always", task="required")
    inner.tools.add(lambda: "two", name="sometimes", task="optional")
    outer.add_provider(ToolSearch(Mounted(inner, outer)))
    async with Client(outer, revision=SESSION) as client:
        assert [each.name for each in await client.list_tools()] == ["always", "call_tool", "search_tools"]
        assert (await client.call_tool("always")).text == "one"
        assert (await client.call_tool("call_tool", {"name": "sometimes"})).text == "two"
    async with Client(outer, revision=NEWEST) as client:
        task = await client.tasks.start_tool("call_tool", {"name": "sometimes"})
        assert (await task.result()).text == "two"


async def test_tools_of_pages_stay_listed_and_those_for_pages_only_are_not_found():
    shown, only = tool("chart", "Show a chart", meta={"ui": {"resourceUri": "ui://chart"}}), tool("zoom", "Zoom")
    only.meta = {"ui": {"visibility": ["app"]}}
    async with Client(behind_search(Many([shown, only, tool("other", "Other")]))) as client:
        assert [each.name for each in await client.list_tools()] == ["call_tool", "chart", "search_tools", "zoom"]
        assert (await found(client, "zoom"))["tools"] == []
        assert (await found(client, ""))["total"] == 2


async def test_the_lists_of_tools_come_in_pages_that_have_each_tool_once():
    app = Server("near", page_size=7)
    app.add_provider(ToolSearch(Many(described()), pinned=["github_*", "s*"]))
    async with Client(app) as client:
        names = [each.name for each in await client.list_tools()]
        pinned = [each.name for each in described() if each.name.startswith(("github_", "s"))]
        assert names == sorted(["call_tool", "search_tools", *pinned])


async def test_new_and_removed_tools_are_found_or_not_once_the_list_has_changed():
    provider = Many([tool("first", "One")])
    async with Client(behind_search(provider)) as client:
        assert (await found(client, "second"))["tools"] == []
        lists = provider.lists
        await found(client, "first")
        assert provider.lists == lists  # nothing has changed
        async with client.watch(lists=["tools"]) as changes:
            provider.tools["second"] = tool("second", "Two")
            del provider.tools["first"]
            provider.events.publish(lists=["tools_list_changed"])
            async with asyncio.timeout(60):
                await anext(aiter(changes))
        assert [each["name"] for each in (await found(client, "second first"))["tools"]] == ["second"]


class Team(View):
    """Rights of a caller: the tools that begin with the name of its team, and the search."""

    def __init__(self, team):
        self.team = self.key = team
        self.hides = True

    def allows(self, verb, target):
        return verb != "call" or target in ("search_tools", "call_tool") or target.startswith(self.team)


class ByTeam:
    team = "slack"

    def view(self, principal):
        return Team(self.team)


async def test_a_caller_neither_finds_nor_calls_a_tool_that_it_may_not_list():
    gate = ByTeam()
    app = Server("near", gate=gate)
    app.add_provider(ToolSearch(Many(described())))
    async with Client(app) as client:
        for gate.team, hidden in (("slack", "mail_send_message"), ("mail", "slack_post_message"), ("slack", "fetch")):
            for query in ("", "message", hidden):
                result = await found(client, query, limit=50)
                assert all(each["name"].startswith(gate.team) for each in result["tools"])
                assert result["total"] <= 6
            refused = await client.call_tool("call_tool", {"name": hidden})
            assert refused.is_error
            assert refused.text.startswith(f"There is no tool '{hidden}'")
            assert hidden not in refused.text.removeprefix(f"There is no tool '{hidden}'")
            with pytest.raises(PeerError, match="unknown tool"):
                await client.call_tool(hidden)


async def test_a_tool_that_exists_for_some_callers_only_is_found_by_these():
    from carrel.server.mount import Mounted

    inner, outer = Server("inner"), Server("outer")
    allowed = False
    inner.tools.add(lambda: "opened", name="open_safe", when=lambda context: allowed)
    inner.tools.add(lambda: "closed", name="close_safe")
    outer.add_provider(ToolSearch(Mounted(inner, outer)))
    async with Client(outer) as client:
        for allowed in (False, True, False):
            names = {each["name"] for each in (await found(client, "safe"))["tools"]}
            assert names == ({"open_safe", "close_safe"} if allowed else {"close_safe"})
            assert (await client.call_tool("call_tool", {"name": "open_safe"})).is_error is (None if allowed else True)


async def test_hidden_tools_can_still_be_called_by_their_names_among_other_providers():
    app = behind_search(Many(described()))
    app.tools.add(lambda: "mine", name="mine")
    async with Client(app) as client:
        assert [each.name for each in await client.list_tools()] == ["mine", "call_tool", "search_tools"]
        assert (await client.call_tool("mail_send_message", {"to": "Ada"})).structured_content["arguments"] == {
            "to": "Ada"
        }
        with pytest.raises(PeerError, match="unknown tool"):
            await client.call_tool("mail_send_massage")


async def test_a_search_can_be_in_a_namespace_and_over_a_catalog_of_many_servers():
    catalog = Catalog()
    for name, rows in (("a", described()[:20]), ("b", described()[20:])):
        provider = Many(rows)
        provider.name = name
        await catalog.add(provider)
    app = Server("near")
    app.add_provider(Namespace(ToolSearch(catalog, about=["issues", "mail"]), "x"))
    async with Client(app) as client:
        call, search = await client.list_tools()
        assert (call.name, search.name) == ("x_call_tool", "x_search_tools")
        assert "There are tools for: issues, mail." in search.description
        result = await client.call_tool("x_search_tools", {"query": "send an email"})
        name = result.structured_content["tools"][0]["name"]
        assert name == "mail_send_message"
        called = await client.call_tool("x_call_tool", {"name": name})
        assert called.structured_content["name"] == name


@pytest.mark.parametrize(
    ("hints", "combined"),
    [
        ([{"read_only_hint": True}, {"read_only_hint": True}], (True, False, True, True)),
        ([{"read_only_hint": True}, {"destructive_hint": False, "idempotent_hint": True}], (False, False, False, True)),
        ([{"read_only_hint": True}, {}], (False, True, False, True)),
        ([{"read_only_hint": True, "open_world_hint": False}], (True, False, True, False)),
        ([], (False, False, False, False)),
    ],
)
async def test_call_tool_is_said_to_do_what_one_of_the_tools_may_do(hints, combined):
    tools = [tool(f"t{at}", "Tool", annotations=ToolAnnotations(**each)) for at, each in enumerate(hints)]
    async with Client(behind_search(Many(tools))) as client:
        call, search = await client.list_tools()
        said = call.annotations
        assert (said.read_only_hint, said.destructive_hint, said.idempotent_hint, said.open_world_hint) == combined
        assert search.annotations.read_only_hint is True
        assert call.output_schema is None


async def test_what_is_saved_is_logged_at_the_start_and_in_the_list(caplog):
    caplog.set_level(logging.INFO, "carrel.gateway")
    async with Client(behind_search(Many(many(200)))) as client:
        _, search = await client.list_tools()
    summary = search.meta["carrel/toolSearch"]
    assert summary["tools"] == 200
    assert summary["tokens"] > 9_000
    [line] = [record.getMessage() for record in caplog.records if record.name == "carrel.gateway"]
    assert line.startswith("many: 2 tools in place of 200 are listed: about ")
    assert f"in place of {summary['tokens']}, 97" in line
    assert line.endswith("% less")


async def test_a_provider_without_tools_is_searched_in_vain():
    async with Client(behind_search(Many([]))) as client:
        assert (await found(client, "anything"))["total"] == 0
        assert (await client.call_tool("call_tool", {"name": "x"})).text.startswith(
            "There is no tool 'x'. search_tools"
        )


@pytest.mark.parametrize("options", [{"limit": 0}, {"max_characters": 0}])
def test_limits_below_one_are_refused(options):
    with pytest.raises(ConfigError, match="at least 1"):
        ToolSearch(Many([]), **options)


async def test_a_search_without_a_client_finds_what_is_there_for_all():
    search = ToolSearch(Many(described()))
    result = await search.call_tool("search_tools", b'{"query":"rain forecast"}', Request())
    assert result.structured_content["tools"][0]["name"] == "weather_get_forecast"
