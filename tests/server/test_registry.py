"""Registry of the items of one list: names, disabling, notifications, pages for each caller."""

from __future__ import annotations

import pytest

from carrel import Client, Context, Server
from carrel.errors import ConfigError, ResourceNotFound
from carrel.transports import memory
from support.memory_client import LATEST


async def test_an_item_that_replaces_a_disabled_item_is_disabled_too() -> None:
    app = Server("s")
    app.tools.add(lambda: "old", name="t")
    app.tools.disable("t")
    app.tools.add(lambda: "new", name="t", replace=True)
    assert "t" not in app.tools.entries
    app.tools.enable("t")
    async with Client(app) as client:
        assert (await client.call_tool("t", {})).content[0].text == "new"


async def test_a_disabled_template_finds_no_resources_until_it_is_enabled() -> None:
    app = Server("s")
    app.resource("note://{name}")(lambda name: name)
    async with Client(app) as client:
        app.resources.disable("note://{name}")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://a")
        app.resources.enable("note://{name}")
        assert (await client.read_resource("note://a")).contents[0].text == "a"


async def test_a_template_for_some_callers_does_not_make_the_list_of_resources_private() -> None:
    app = Server("s", scope="public")
    app.resources.add("open:a", "a")
    app.resource("secret://{name}", when=lambda context: False)(lambda name: name)
    async with memory.connect(app, LATEST) as peer:
        listed = (await peer.request("resources/list", {}))["result"]
        assert (listed["cacheScope"], len(listed["resources"])) == ("public", 1)
        # An empty list that depends on the caller is private too.
        hidden = (await peer.request("resources/templates/list", {}))["result"]
        assert (hidden["cacheScope"], hidden["resourceTemplates"]) == ("private", [])


def test_a_name_is_taken_by_a_disabled_item_of_the_same_list_only() -> None:
    app = Server("s")
    app.prompts.add(lambda: "", name="same")
    app.prompts.disable("same")
    app.tools.add(lambda: "", name="same")
    with pytest.raises(ConfigError, match="There is a prompt same already"):
        app.prompts.add(lambda: "", name="same")


def test_nothing_is_disabled_if_one_of_the_names_is_unknown() -> None:
    app = Server("s")
    app.tools.add(lambda: "", name="t")
    with pytest.raises(KeyError, match="none"):
        app.tools.disable("t", "none", tags={"beta"})
    app.tools.add(lambda: "", name="u", tags={"beta"})
    assert {"t", "u"} <= app.tools.entries.entries.keys()


async def test_an_item_that_is_added_while_a_list_waits_is_not_listed_before_its_when_is_called() -> None:
    app = Server("s")

    async def add_others(context: Context) -> bool:
        if app.tools.find("hidden") is None:
            app.tools.add(lambda: "", name="hidden", when=lambda context: False)
            app.tools.add(lambda: "", name="open")
            app.tools.add(lambda: "", name="replaced", when=lambda context: False, replace=True)
        return True

    app.tools.add(lambda: "", name="replaced", when=lambda context: True)
    app.tools.add(lambda: "", name="waits", when=add_others)
    async with Client(app) as client:
        assert [tool.name for tool in await client.list_tools()] == ["open", "waits"]
