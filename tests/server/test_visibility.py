"""Tags, ``when`` and disabling: entries that some callers, or all, have not."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.errors import ConfigError
from carrel.transports import memory
from support.memory_client import LATEST, NOVEMBER

REVISIONS = (NOVEMBER, LATEST)


def is_admin(context: Context) -> bool:
    return context.meta.get("admin") is True


async def is_admin_later(context: Context) -> bool:
    await asyncio.sleep(0)
    return is_admin(context)


def make(*, secret: bool, when: Any = is_admin, **server: Any) -> Server:
    """Return a server with an entry of each kind, and ``secret`` ones for administrators."""
    app = Server("s", **server)

    @app.tool
    async def open_tool() -> str:
        return "open"

    @app.prompt
    async def open_prompt(topic: str) -> str:
        return topic

    open_prompt.complete("topic")(lambda value: ["a"])

    @app.resource("open://{name}")
    async def open_template(name: str) -> str:
        return name

    app.resources.add("open:static", "open")
    if secret:

        @app.tool(when=when)
        async def secret_tool() -> str:
            return "secret"

        @app.prompt(when=when)
        async def secret_prompt(topic: str) -> str:
            return topic

        secret_prompt.complete("topic")(lambda value: ["secret"])

        @app.resource("secret://{name}", when=when)
        async def secret_template(name: str) -> str:
            return name

        secret_template.complete("name")(lambda value: ["secret"])
        app.resources.add("secret:static", "secret", when=when)
    return app


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("tools/call", {"name": "secret_tool", "arguments": {}}),
    ("prompts/get", {"name": "secret_prompt", "arguments": {"topic": "x"}}),
    ("resources/read", {"uri": "secret:static"}),
    ("resources/read", {"uri": "secret://x"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "secret_prompt"}, "argument": {"name": "topic", "value": ""}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "secret://{name}"}, "argument": {"name": "name", "value": ""}},
    ),
]
SUBSCRIPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("resources/subscribe", {"uri": "secret:static"}),
    ("resources/subscribe", {"uri": "secret://x"}),
]


async def answers(app: Server, revision: str, *, admin: bool = False) -> list[Any]:
    found = []
    async with memory.connect(app, revision) as peer:
        for method, params in REQUESTS + (SUBSCRIPTIONS if revision == NOVEMBER else []):
            reply = await peer.request(method, {**params, "_meta": {"admin": admin}})
            reply.pop("id", None)
            if "result" in reply:
                reply["result"].pop("cacheScope", None)
            found.append(reply)
    return found


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("when", [is_admin, is_admin_later])
async def test_what_when_denies_is_answered_for_as_what_does_not_exist(revision: str, when: Any) -> None:
    assert await answers(make(secret=True, when=when), revision) == await answers(make(secret=False), revision)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_who_may_see_an_entry_can_do_everything_with_it(revision: str) -> None:
    for (method, _), reply in zip(
        REQUESTS + SUBSCRIPTIONS, await answers(make(secret=True), revision, admin=True), strict=False
    ):
        assert "result" in reply, method
        if method != "resources/subscribe":
            assert "secret" in repr(reply) or method == "prompts/get"


@pytest.mark.parametrize("namespace", [None, "inner"])
async def test_when_holds_in_a_server_that_is_added_to_another(namespace: str | None) -> None:
    outer = []
    for secret in (True, False):
        app = Server("outer")
        app.add_provider(make(secret=secret), namespace=namespace)
        outer.append(await answers(app, NOVEMBER))
    assert outer[0] == outer[1]


async def test_resource_tools_and_reads_of_handlers_do_not_see_it_either() -> None:
    app = make(secret=True)
    app.add_resource_tools()

    @app.tool
    async def peek(context: Context) -> str:
        try:
            return str(await context.read_resource("secret:static"))
        except Exception as error:
            return type(error).__name__

    async with Client(app) as client:
        assert (await client.call_tool("peek", {})).content[0].text == "ResourceNotFound"
        names = [tool.name for tool in await client.list_tools()]
        reader = next(name for name in names if "read" in name)
        assert (await client.call_tool(reader, {"uri": "secret:static"})).is_error


async def test_lists_and_contents_that_depend_on_the_caller_are_private() -> None:
    app = make(secret=True, scope="public")
    async with memory.connect(app, LATEST) as peer:
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            reply = await peer.request(method, {"_meta": {}})
            assert reply["result"]["cacheScope"] == "private", method
        read = await peer.request("resources/read", {"uri": "secret:static", "_meta": {"admin": True}})
        assert read["result"]["cacheScope"] == "private"
        assert (await peer.request("resources/read", {"uri": "open:static"}))["result"]["cacheScope"] == "public"
    async with memory.connect(make(secret=False, scope="public"), LATEST) as peer:
        assert (await peer.request("tools/list", {}))["result"]["cacheScope"] == "public"


async def test_pages_are_those_of_a_list_without_what_is_hidden() -> None:
    app = Server("s", page_size=2)
    for number in range(7):
        app.tools.add(lambda: "", name=f"t{number}", when=None if number % 2 else is_admin)
    async with Client(app) as client:
        assert [tool.name for tool in await client.list_tools()] == ["t1", "t3", "t5"]


async def test_a_when_that_fails_hides_and_is_logged(caplog: Any) -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="broken", when=lambda context: 1 / 0)
    with caplog.at_level(logging.ERROR, "carrel"):
        async with Client(app) as client:
            assert await client.list_tools() == []
    assert "when of broken failed" in caplog.text


async def test_tags_are_in_meta_and_keep_what_else_is_there() -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="t", tags={"beta", "admin"}, meta={"x/y": 1})
    app.resources.add("x:1", "text", tags=["beta"])
    async with Client(app) as client:
        assert (await client.list_tools())[0].meta == {"x/y": 1, "carrel/tags": ["admin", "beta"]}
        assert (await client.list_resources())[0].meta == {"carrel/tags": ["beta"]}
    app.resources.replace("x:1", "other", tags=["new"])
    entry = app.resources.static.entries.get("x:1")
    assert entry is not None
    assert entry.item.meta == {"carrel/tags": ["new"]}
    with pytest.raises(ConfigError, match="tags are a set"):
        app.tools.add(lambda: "", name="u", tags="beta")


def tagged_server() -> Server:
    app = Server("s")
    app.tools.add(lambda: "", name="t", tags={"beta"})
    app.tools.add(lambda: "", name="u")
    app.prompts.add(lambda: "", name="p", tags={"beta"})
    app.resources.add("x:1", "", tags={"beta"})
    app.resources.register("x://{name}", lambda name: name, tags={"beta"})
    return app


async def listed(app: Server) -> list[str]:
    async with Client(app) as client:
        return [
            *(tool.name for tool in await client.list_tools()),
            *(prompt.name for prompt in await client.list_prompts()),
            *(resource.uri for resource in await client.list_resources()),
            *(template.uri_template for template in await client.list_resource_templates()),
        ]


async def test_entries_are_disabled_and_enabled_by_name() -> None:
    app = tagged_server()
    app.tools.disable("t")
    app.prompts.disable("p")
    app.resources.disable("x:1", "x://{name}")
    assert await listed(app) == ["u"]
    async with Client(app) as client:
        with pytest.raises(Exception, match="unknown tool"):
            await client.call_tool("t", {})
    app.tools.enable("t")
    app.prompts.enable("p")
    app.resources.enable("x:1", "x://{name}")
    assert await listed(app) == ["t", "u", "p", "x:1", "x://{name}"]
    with pytest.raises(KeyError, match="no such tool: 'uu'; did you mean 'u'"):
        app.tools.disable("uu")


async def test_entries_are_disabled_by_tag_later_ones_too() -> None:
    app = tagged_server()
    app.disable(tags={"beta"})
    app.tools.add(lambda: "", name="later", tags={"beta"})
    assert await listed(app) == ["u"]
    app.enable(tags={"beta"})
    assert await listed(app) == ["later", "t", "u", "p", "x:1", "x://{name}"]


async def test_what_is_disabled_by_name_and_tag_needs_both() -> None:
    app = tagged_server()
    app.tools.disable("t", tags={"beta"})
    app.tools.enable(tags={"beta"})
    assert "t" not in app.tools.entries
    app.tools.enable("t")
    assert "t" in app.tools.entries


async def test_a_disabled_entry_keeps_its_name_and_can_be_removed() -> None:
    app = tagged_server()
    app.tools.disable("t")
    with pytest.raises(ConfigError, match="already"):
        app.tools.add(lambda: "", name="t")
    app.tools.remove("t")
    app.tools.add(lambda: "", name="t")
    assert "t" in app.tools.entries


async def test_clients_are_notified_when_something_is_disabled() -> None:
    app = tagged_server()
    async with memory.connect(app, NOVEMBER) as peer:
        app.tools.disable("t")
        app.resources.disable("x:1")
        methods = {(await peer.notification())["method"] for _ in range(2)}
        assert methods == {"notifications/tools/list_changed", "notifications/resources/list_changed"}


async def test_a_server_whose_only_tool_is_disabled_still_declares_tools() -> None:
    app = Server("s")
    app.disable(tags={"beta"})
    app.tools.add(lambda: "", name="t", tags={"beta"})
    assert app.capabilities().tools is not None


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_subscription_ends_at_a_change_of_a_resource_that_when_denies_by_then(revision: str) -> None:
    denied = set[str]()
    app = Server("books")
    app.resources.add("secret:a", "a", when=lambda context: "secret:a" not in denied)
    app.resources.add("open:b", "b")
    uris = ["secret:a", "open:b"]
    async with Client(app, revision=revision) as client, client.watch(*uris) as changes, asyncio.timeout(60):
        for uri in uris:
            app.resources.changed(uri)
            assert (await anext(changes)).uri == uri
        denied.add("secret:a")
        app.resources.changed("secret:a")
        while "secret:a" in app.endpoint.runtime.hub.uris:
            await asyncio.sleep(0.01)
        denied.clear()
        app.resources.changed("secret:a")
        app.resources.changed("open:b")
        assert (await anext(changes)).uri == "open:b"


@pytest.mark.parametrize("namespace", [None, "in"])
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_so_does_one_to_a_resource_of_a_server_that_is_added(revision: str, namespace: str | None) -> None:
    denied = set[str]()
    inner, app = Server("books"), Server("outer")
    inner.resources.add("secret:a", "a", when=lambda context: "secret:a" not in denied)
    inner.resources.add("open:b", "b")
    app.add_provider(inner, namespace=namespace)
    secret, plain = ("secret:a", "open:b") if namespace is None else ("in+secret:a", "in+open:b")
    async with Client(app, revision=revision) as client, client.watch(secret, plain) as changes, asyncio.timeout(60):
        for own, uri in (("secret:a", secret), ("open:b", plain)):
            inner.resources.changed(own)
            assert (await anext(changes)).uri == uri
        denied.add("secret:a")
        inner.resources.changed("secret:a")
        while secret in app.endpoint.runtime.hub.uris:
            await asyncio.sleep(0.01)
        denied.clear()
        inner.resources.changed("secret:a")
        inner.resources.changed("open:b")
        assert (await anext(changes)).uri == plain


async def test_so_does_one_of_a_session_that_another_replica_has_begun() -> None:
    denied = set[str]()
    app = Server("books")
    app.resources.add("secret:a", "a", when=lambda context: "secret:a" not in denied)
    app.resources.add("secret:c", "c", when=lambda context: "secret:c" not in denied)
    async with memory.connect(app, revision=NOVEMBER) as peer:
        connection, hub = peer.dispatcher.connection, app.endpoint.runtime.hub
        hub.close(hub.sessions.pop(connection))
        app.endpoint.restore(connection, peer.dispatcher.client, {"secret:a": "secret:a"})
        app.endpoint.take_subscription(connection, "secret:c", "secret:c")
        for uri in ("secret:a", "secret:c"):
            app.resources.changed(uri)
            assert (await peer.notification())["params"]["uri"] == uri
        denied |= {"secret:a", "secret:c"}
        for uri in ("secret:a", "secret:c"):
            app.resources.changed(uri)
        async with asyncio.timeout(60):
            while hub.uris:
                await asyncio.sleep(0.01)


def turning(mounted: bool) -> Server:
    """Return a server whose tool ``secret`` exists for clients, by name, that have called ``unlock``."""
    unlocked: set[str] = set()
    app = Server("inner")

    def is_unlocked(context: Context) -> bool:
        return context.client is not None and context.client.name in unlocked

    @app.tool(when=is_unlocked)
    async def secret() -> str:
        return "secret"

    @app.tool
    async def unlock(context: Context) -> None:
        assert context.client is not None
        unlocked.add(context.client.name)
        context.list_changed("tools")

    app.resources.add("note:old", "for all")
    if not mounted:
        return app
    outer = Server("outer")
    outer.add_provider(app)
    return outer


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_caller_is_told_alone_that_when_shows_it_something_else(revision: str, mounted: bool) -> None:
    app = turning(mounted)
    async with (
        Client(app, name="ann", revision=revision) as ann,
        Client(app, name="bob", revision=revision) as bob,
        ann.watch(lists=["tools", "prompts", "resources"]) as told_ann,
        bob.watch(lists=["tools", "prompts", "resources"]) as told_bob,
    ):
        assert {tool.name for tool in await ann.list_tools()} == {"unlock"}
        await ann.call_tool("unlock")
        async with asyncio.timeout(60):
            assert (await anext(told_ann)).kind == "tools"
            assert {tool.name for tool in await ann.list_tools()} == {"unlock", "secret"}
            assert {tool.name for tool in await bob.list_tools()} == {"unlock"}
            app.resources.add("note:new", "for all")
            assert (await anext(told_bob)).kind == "resources", "it was told nothing before"
            assert (await anext(told_ann)).kind == "resources"
