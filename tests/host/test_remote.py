"""Servers behind a client in the catalog of another server: questions, progress, cancellation, errors, changes."""

import asyncio
import logging
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from carrel import Client, Context, Server
from carrel.catalog.catalog import Catalog
from carrel.catalog.provider import Page, Provider, Request
from carrel.client.handlers import Handlers
from carrel.errors import (
    ConfigError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    ProviderUnavailable,
    ResourceNotFound,
    TransportError,
)
from carrel.host.remote import RemoteProvider
from carrel.host.remote_pages import YEAR
from carrel.protocol.methods import LIST_RESOURCE_TEMPLATES, LIST_RESOURCES
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import PageParams
from carrel.wire.client_features import CreateMessageResult, Root
from carrel.wire.completion import ResourceTemplateReference
from carrel.wire.content import TextContent
from carrel.wire.resources import Resource
from support.http_server import over_http

OLDEST, SESSION, NEWEST = "2024-11-05", "2025-11-25", "2026-07-28"
#: Revisions of the remote server and of the client in which questions can be asked.
PAIRS = [(far, near) for far in (SESSION, NEWEST) for near in (SESSION, NEWEST)]


def remote_app() -> Server:
    """Return a server that has one thing of each kind, and asks."""
    app = Server("far", page_size=2)
    app.runs = 0
    app.cancelled = asyncio.Event()
    app.begun = asyncio.Event()

    for number in range(5):
        app.resources.add(f"note://{number}", f"note {number}")

    @app.resource("page://{name}", ttl=5, scope="public")
    async def page(name: str, context: Context) -> str:
        if name == "roots":
            return " ".join(root.uri for root in await context.list_roots())
        return name

    @page.complete("name")
    async def names(prefix: str) -> list[str]:
        return [name for name in ("lem", "leguin") if name.startswith(prefix)]

    @app.tool
    async def order(context: Context) -> str:
        """Ask two questions, one after the other."""
        app.runs += 1
        size = await context.elicit("Which size?", int)
        colour = await context.elicit("Which colour?", str)
        return f"{size.data} {colour.data}"

    @app.tool
    async def think(context: Context) -> str:
        result = await context.sample("Think!", 10, temperature=0.5)
        return result.content.text

    @app.tool
    async def steps(context: Context) -> str:
        for step in range(3):
            await context.report_progress(step, 3, f"step {step}")
        return "done"

    @app.tool
    async def talk(context: Context) -> str:
        context.log("info", {"said": 1}, "far")
        context.log("warning", "twice")
        return "said"

    @app.tool
    async def wait() -> str:
        app.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            app.cancelled.set()
            raise
        return ""

    @app.tool
    async def fail() -> str:
        error = ProtocolError("a code of its own", {"why": [1, "two"]})
        error.code = -31999
        raise error

    @app.tool
    async def meta(context: Context) -> str:
        return str(context.meta.get("com.example/trace"))

    @app.prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    return app


@asynccontextmanager
async def near(far, revision, far_revision=None, handlers=None, namespace=None, **options):
    """Give a client of a server whose provider is another server."""
    app = Server("near", **options)
    remote = RemoteProvider(far, name="far", revision=far_revision)
    app.add_provider(remote, namespace=namespace)
    async with Client(app, revision=revision, handlers=handlers) as client:
        client.app, client.remote = app, remote
        yield client


async def answer_form(form):
    return {name: 42 if schema["type"] == "integer" else "red" for name, schema in form.fields.items()}


async def answer_sampling(sampling):
    assert sampling.temperature == 0.5
    return CreateMessageResult(role="assistant", content=TextContent("I have thought"), model="m")


ANSWERS = Handlers(elicit_form=answer_form, sample=answer_sampling, roots=[Root(uri="file:///here")])


@pytest.mark.parametrize("far", REVISIONS)
@pytest.mark.parametrize("here", [OLDEST, SESSION, NEWEST])
async def test_everything_of_a_server_of_any_revision_is_there_for_clients_of_any_revision(far, here):
    async with near(remote_app(), here, far) as client:
        assert [resource.uri for resource in await client.list_resources()] == [f"note://{n}" for n in range(5)]
        assert [template.uri_template for template in await client.list_resource_templates()] == ["page://{name}"]
        assert len(await client.list_tools()) == 7
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
        assert (await client.read_resource("note://3")).contents[0].text == "note 3"
        assert (await client.read_resource("page://lem")).contents[0].text == "lem"
        assert (await client.call_tool("steps")).content[0].text == "done"
        assert (await client.get_prompt("greet", {"name": "Lem"})).messages[0].content.text == "Hello Lem"
        found = await client.complete(ResourceTemplateReference("page://{name}"), "name", "leg")
        assert found.values == ["leguin"]
        with pytest.raises(ResourceNotFound):
            await client.read_resource("nothing://here")


@pytest.mark.parametrize("far", REVISIONS)
async def test_a_server_without_the_method_for_templates_has_none(far, caplog):
    def missing(call, channel):
        raise MethodNotFound("Method not found")

    app = remote_app()
    app.endpoint.runtime.operations[LIST_RESOURCE_TEMPLATES.operation] = missing
    async with near(app, NEWEST, far) as client:
        assert await client.list_resource_templates() == []
        assert len(await client.list_resources()) == 5
    assert "templates" not in caplog.text


@pytest.mark.parametrize(("far", "here"), PAIRS)
async def test_the_questions_of_a_call_go_to_the_client_that_has_made_it(far, here):
    app = remote_app()
    async with near(app, here, far, ANSWERS) as client:
        assert (await client.call_tool("order")).content[0].text == "42 red"
        assert (await client.call_tool("think")).content[0].text == "I have thought"
        assert (await client.read_resource("page://roots")).contents[0].text == "file:///here"


async def test_a_call_of_a_server_with_sessions_is_made_once_whatever_number_of_rounds_a_stateless_client_takes():
    app = remote_app()
    async with near(app, NEWEST, SESSION, ANSWERS) as client:
        await client.call_tool("order")
        assert app.runs == 1


async def test_a_call_is_made_once_although_each_http_request_of_a_stateless_client_is_a_connection():
    app, gateway = remote_app(), Server("near")
    remote = RemoteProvider(app, name="far", revision=SESSION)
    remote.reserve()  # all clients are one person
    gateway.add_provider(remote)
    with over_http(gateway) as url:
        async with Client(f"{url}/mcp", revision=NEWEST, handlers=ANSWERS) as client:
            assert (await client.call_tool("order")).content[0].text == "42 red"
    assert app.runs == 1


async def test_each_of_two_clients_is_asked_about_its_own_calls():
    app, gateway = remote_app(), Server("near")
    gateway.add_provider(RemoteProvider(app, name="far", revision=NEWEST))

    def colour(name):
        async def answer(form):
            await asyncio.sleep(0)
            return {field: 1 if schema["type"] == "integer" else name for field, schema in form.fields.items()}

        return Handlers(elicit_form=answer)

    await gateway.endpoint.start()
    async with (
        Client(running(gateway), revision=SESSION, handlers=colour("red")) as one,
        Client(running(gateway), revision=NEWEST, handlers=colour("blue")) as two,
    ):
        results = await asyncio.gather(*(client.call_tool("order") for client in (one, two) * 3))
        assert [result.content[0].text for result in results] == ["1 red", "1 blue"] * 3
    await gateway.endpoint.stop()


async def test_a_question_that_could_be_for_several_clients_is_put_to_none_of_them():
    app, gateway = remote_app(), Server("near")
    asked = []

    async def answer(form):
        asked.append(form)

    gateway.add_provider(RemoteProvider(app, name="far", revision=SESSION))
    await gateway.endpoint.start()
    async with (
        Client(running(gateway), revision=SESSION, handlers=Handlers(elicit_form=answer)) as one,
        Client(running(gateway), revision=SESSION, handlers=Handlers(elicit_form=answer)) as two,
    ):
        waiting = asyncio.ensure_future(one.call_tool("wait"))
        await app.begun.wait()
        result = await two.call_tool("order")
        assert result.is_error is True
        assert asked == []
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await gateway.endpoint.stop()


def running(app):
    """Return a target for a client of a server that runs already."""

    class Running:
        def __getattr__(self, name):
            return getattr(app.endpoint, name)

        async def start(self):
            pass

        async def stop(self):
            pass

        def answer(self, *arguments):
            return app.endpoint.answer(*arguments)

        def connect(self):
            return app.endpoint.connect()

    return SimpleNamespace(endpoint=Running())


@pytest.mark.parametrize("far", [SESSION, NEWEST])
async def test_a_client_that_cannot_be_asked_gets_an_error_that_says_so(far):
    async with near(remote_app(), NEWEST, far) as client:
        with pytest.raises(PeerError) as raised:
            await client.call_tool("order")
        assert raised.value.code == -32021
        assert raised.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    async with near(remote_app(), SESSION, far) as client:
        result = await client.call_tool("order")
        assert result.is_error is True
        assert "elicitation" in result.content[0].text


@pytest.mark.parametrize(("far", "here"), PAIRS)
async def test_progress_is_passed_on_with_the_token_of_the_caller(far, here):
    seen = []
    async with near(remote_app(), here, far) as client:
        await client.call_tool("steps", progress=lambda *report: seen.append(report))
    assert seen == [(0, 3, "step 0"), (1, 3, "step 1"), (2, 3, "step 2")]


@pytest.mark.parametrize("here", [SESSION, NEWEST])
async def test_progress_made_while_the_client_answers_a_question_reaches_it(here):
    app = Server("far")
    asked, reported = asyncio.Event(), asyncio.Event()

    @app.tool
    async def order(context: Context) -> str:
        asking = asyncio.ensure_future(context.elicit("Which size?", int))
        await asked.wait()
        await context.report_progress(1, 2)
        reported.set()
        size = (await asking).data
        await context.report_progress(2, 2)
        return str(size)

    async def answer(form):
        asked.set()
        await reported.wait()
        await asyncio.sleep(0.05)  # the notification is on its way
        return {"value": 42}

    seen = []
    async with near(app, here, SESSION, Handlers(elicit_form=answer)) as client:
        result = await client.call_tool("order", progress=lambda *report: seen.append(report[:2]))
    assert (result.content[0].text, seen) == ("42", [(1, 2), (2, 2)])


@pytest.mark.parametrize(("far", "here"), [*PAIRS, (OLDEST, OLDEST)])
@pytest.mark.parametrize("handlers", [None, ANSWERS])
async def test_log_messages_of_a_call_go_to_its_caller_from_the_level_that_it_wants(far, here, handlers):
    logged = []
    options = {"log": logged.append, "revision": here, "handlers": handlers}
    gateway = Server("near")
    gateway.add_provider(RemoteProvider(remote_app(), name="far", revision=far))
    async with Client(gateway, log_level="info", **options) as client:
        await client.call_tool("talk")
    assert [(each.level, each.data, each.logger) for each in logged] == [
        ("info", {"said": 1}, "far"),
        ("warning", "twice", None),
    ]
    logged.clear()
    async with Client(gateway, log_level="warning", **options) as client:
        await client.call_tool("talk")
    assert [each.data for each in logged] == ["twice"]


async def test_log_messages_that_could_be_for_several_clients_go_to_none_of_them():
    app, gateway, logged = remote_app(), Server("near"), []
    gateway.add_provider(RemoteProvider(app, name="far", revision=SESSION))
    await gateway.endpoint.start()
    options = {"revision": SESSION, "log": logged.append, "log_level": "debug"}
    async with Client(running(gateway), **options) as one, Client(running(gateway), **options) as two:
        waiting = asyncio.ensure_future(one.call_tool("wait"))
        await app.begun.wait()
        assert (await two.call_tool("talk")).content[0].text == "said"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert logged == []
    await gateway.endpoint.stop()


@pytest.mark.parametrize(("far", "here"), PAIRS)
async def test_a_cancelled_call_is_cancelled_on_the_remote_server(far, here):
    app = remote_app()
    async with near(app, here, far) as client:
        calling = asyncio.ensure_future(client.call_tool("wait"))
        async with asyncio.timeout(60):
            await app.begun.wait()
            calling.cancel()
            await app.cancelled.wait()
        await asyncio.gather(calling, return_exceptions=True)


@pytest.mark.parametrize(("far", "here"), PAIRS)
async def test_errors_keep_their_code_message_and_data(far, here):
    async with near(remote_app(), here, far) as client:
        with pytest.raises(PeerError) as raised:
            await client.call_tool("no such tool")
        assert raised.value.code == -32602
        with pytest.raises(PeerError) as direct:
            async with Client(remote_app(), revision=far) as other:
                await other.call_tool("no such tool")
        assert raised.value.message == direct.value.message
        assert raised.value.data == direct.value.data


async def test_meta_of_a_request_is_passed_on():
    async with near(remote_app(), NEWEST, SESSION) as client:
        result = await client.call_tool("meta", meta={"com.example/trace": "abc"})
        assert result.content[0].text == "abc"


@pytest.mark.parametrize(
    ("ttl", "passed"), [(90_000, 90_000), (10**400, YEAR), (-(10**400), 0)], ids=["usual", "endless", "negative"]
)
async def test_a_time_to_live_of_a_list_is_passed_on_up_to_a_year(ttl, passed):
    far = remote_app()

    @far.middleware
    async def hint(call, next):
        result = await next(call)
        if call.method == "resources/list":
            result.ttl_ms = ttl
        return result

    async with near(far, NEWEST, NEWEST) as client:
        assert {page.ttl_ms async for page in client.results.pages(LIST_RESOURCES, PageParams())} == {passed}


async def test_cache_hints_of_results_are_passed_on():
    async with near(remote_app(), NEWEST, NEWEST) as client:
        result = await client.read_resource("page://lem")
        assert (result.ttl_ms, result.cache_scope) == (5000, "public")


@pytest.mark.parametrize("here", [SESSION, NEWEST])
@pytest.mark.parametrize("far", [OLDEST, SESSION, NEWEST])
async def test_changes_of_lists_are_announced_and_new_things_are_found(far, here):
    app = remote_app()
    async with near(app, here, far) as client, client.watch(lists=["tools", "resources"]) as changes:

        @app.tool
        async def later() -> str:
            return "later"

        async with asyncio.timeout(60):
            while "tools" not in {(await anext(changes)).kind}:
                pass
        assert (await client.call_tool("later")).content[0].text == "later"


@pytest.mark.parametrize("namespace", [None, "x"])
@pytest.mark.parametrize(("far", "here"), PAIRS)
async def test_resources_are_subscribed_to_for_as_long_as_there_are_subscribers(far, here, namespace):
    app, uri = remote_app(), "note://1" if namespace is None else "x+note://1"
    async with near(app, here, far, namespace=namespace) as client:
        assert set(app.endpoint.runtime.hub.uris) == set()
        async with client.watch(uri) as changes:
            async with asyncio.timeout(60):
                change = await anext(changes)  # once the remote server is subscribed to
                assert change.uri == uri
                assert set(app.endpoint.runtime.hub.uris) == {"note://1"}
                app.resources.changed("note://1")
                assert (await anext(changes)).uri == uri
        async with asyncio.timeout(60):
            while set(app.endpoint.runtime.hub.uris):
                await asyncio.sleep(0)


async def test_a_server_is_not_told_the_uris_of_others():
    app = remote_app()
    async with near(app, SESSION, SESSION) as client:
        client.app.resources.add("own://1", "own")
        async with client.watch("own://1", "note://2") as changes:
            async with asyncio.timeout(60):
                await anext(changes)
            assert set(app.endpoint.runtime.hub.uris) == {"note://2"}


class SlowList(Provider):
    """Provider whose list of resources waits."""

    name = "slow"
    prefixes = ("slow://",)

    def __init__(self):
        self.begun, self.goes_on, self.listed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def list_resources(self, request):
        self.begun.set()
        await self.goes_on.wait()
        self.listed.set()
        return Page([Resource("slow://1", "one")])

    async def read_resource(self, uri, request):
        return "one"


@pytest.mark.parametrize("far", [SESSION, NEWEST])
async def test_a_list_that_is_not_waited_for_any_more_is_not_cancelled_at_the_server(far):
    slow = SlowList()
    slow.goes_on.set()
    app = Server("far")
    app.add_provider(slow)
    remote = RemoteProvider(app, name="far", revision=far)
    catalog = Catalog()
    await catalog.add(remote)
    try:
        slow.begun.clear(), slow.goes_on.clear(), slow.listed.clear()
        async with asyncio.timeout(60):
            asked = asyncio.ensure_future(remote.list_resources(Request()))
            await slow.begun.wait()
            asked.cancel()
            assert isinstance((await asyncio.gather(asked, return_exceptions=True))[0], asyncio.CancelledError)
            await remote.client.ping()  # what was sent before has been handled
            slow.goes_on.set()
            await slow.listed.wait()
            assert [one.uri for one in (await remote.list_resources(Request())).items] == ["slow://1"]
            slow.begun.clear(), slow.goes_on.clear()
            asked = asyncio.ensure_future(remote.list_resources(Request()))
            await slow.begun.wait()
            asked.cancel()
    finally:
        async with asyncio.timeout(60):
            await catalog.remove("far")


def unreachable():
    """Return the transport of a server that is not there."""
    raise TransportError("nothing listens there", delivered=False)


async def test_a_server_that_is_not_there_spoils_nothing_for_others(caplog):
    app = Server("near")
    app.add_provider(RemoteProvider(unreachable, name="dead"))
    app.add_provider(RemoteProvider(remote_app(), name="living"))
    with caplog.at_level(logging.WARNING, "carrel"):
        async with Client(app, revision=NEWEST) as client:
            assert len(await client.list_resources()) == 5
            assert len(await client.list_tools()) == 7
            assert (await client.read_resource("note://1")).contents[0].text == "note 1"
            assert (await client.call_tool("steps")).content[0].text == "done"
            with pytest.raises(PeerError) as raised:
                await client.read_resource("nothing://here")
            assert "dead is not available" in raised.value.message
    left_out = [record for record in caplog.records if "missing from lists" in record.getMessage()]
    assert len(left_out) == 1


async def test_a_server_that_comes_later_is_found_then(monkeypatch):
    from carrel.host import reconnect
    from carrel.transports.memory import MemoryTransport

    monkeypatch.setattr(reconnect, "PAUSES", (0.01, 0.01))
    far, there = remote_app(), asyncio.Event()

    def transport():
        if not there.is_set():
            raise TransportError("not yet", delivered=False)
        return MemoryTransport(far)

    app = Server("near")
    app.add_provider(RemoteProvider(transport, name="far"))
    async with Client(app, revision=NEWEST) as client, client.watch(lists=["tools"]) as changes:
        assert await client.list_tools() == []
        there.set()
        async with asyncio.timeout(60):
            assert (await anext(changes)).kind == "tools"
        assert len(await client.list_tools()) == 7


async def test_a_public_result_is_private_where_callers_are_authenticated():
    remote = RemoteProvider(remote_app(), name="far", revision=NEWEST)

    class Asked(Request):
        @property
        def caller(self):
            return object()

    class Nothing:
        def publish(self, changes=(), lists=()):
            pass

    await remote.start(Nothing())
    try:
        assert (await remote.read_resource("page://lem", Request())).cache_scope == "public"
        assert (await remote.read_resource("page://lem", Asked())).cache_scope == "private"
    finally:
        await remote.stop()


async def test_a_client_is_not_a_provider_by_itself():
    with pytest.raises(ConfigError, match="RemoteProvider"):
        Server("near").add_provider(Client(remote_app()))


async def test_options_are_for_a_client_that_is_made_here():
    with pytest.raises(ConfigError, match="options already: timeout"):
        RemoteProvider(Client(remote_app()), timeout=1)


async def test_requests_that_fail_together_are_logged_once(caplog):
    """Eight reads at a time of a server that does not answer are one warning, until it answers again."""
    app = Server("far")
    answers = asyncio.Event()

    async def read() -> str:
        await answers.wait()
        return "tea"

    for number in range(8):
        app.resources.add(f"memo://{number}", read)
    client = Client(app, timeout=0.1)
    provider = RemoteProvider(client, name="far")
    catalog = Catalog()
    with caplog.at_level(logging.WARNING, "carrel.host"):
        await catalog.add(provider)
        for expected in (1, 2):
            answers.clear()
            reads = (provider.read_resource(f"memo://{number}", Request()) for number in range(8))
            failed = await asyncio.gather(*reads, return_exceptions=True)
            assert {type(each) for each in failed} == {ProviderUnavailable}
            told = [record for record in caplog.records if "no answer to resources/read" in record.getMessage()]
            assert len(told) == expected
            answers.set()
            await provider.read_resource("memo://1", Request())
        await catalog.remove(provider.name)
